// The attributes of a node against the schema of its op.
#include "tcc/ops/attributes.h"
#include "tcc/rules/infer.h"

namespace tcc {
namespace {

/// The kind of a value as the schema would name it.
AttrKind kind_of(const AttrValue& value) {
  constexpr AttrKind kinds[] = {AttrKind::boolean, AttrKind::integer, AttrKind::floating, AttrKind::string,
                                AttrKind::dtype,   AttrKind::ints,    AttrKind::floats};
  return kinds[value.index()];
}

AttrKind expected_kind(const AttrSpec& spec, const Attrs& attrs) {
  if (spec.kind != AttrKind::number) return spec.kind;
  const AttrValue* dtype = attrs.find("dtype");
  const bool floating = dtype != nullptr && std::holds_alternative<DType>(*dtype) && is_float(std::get<DType>(*dtype));
  return floating ? AttrKind::floating : AttrKind::integer;
}

}  // namespace

std::string attribute_fault(Op op, const Attrs& attrs) {
  const auto schema = attribute_schema(op);
  size_t known = 0;
  for (const AttrSpec& spec : schema) {
    const AttrValue* value = attrs.find(spec.name);
    if (value == nullptr) {
      if (!spec.optional) return "attribute `" + std::string(spec.name) + "` is missing";
      continue;
    }
    ++known;
    const AttrKind found = kind_of(*value), expected = expected_kind(spec, attrs);
    if (found != expected) {
      return "attribute `" + std::string(spec.name) + "` is of kind " + std::string(name_of(found)) + ", expected " +
             std::string(name_of(expected));
    }
  }
  if (known == attrs.all().size()) return "";
  for (const auto& [name, value] : attrs.all()) {
    if (find_attribute(op, name) == nullptr) return "`" + std::string(name_of(op)) + "` has no attribute `" + name + "`";
  }
  return "";
}

}  // namespace tcc
