#include "tcc/ops/attributes.h"

#include <string>
#include <vector>

#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

constexpr std::string_view kKindNames[] = {"bool", "int", "float", "string", "dtype", "ints", "floats", "number"};

AttrKind parse_kind(std::string_view text) {
  for (size_t i = 0; i < std::size(kKindNames); ++i) {
    if (kKindNames[i] == text) return static_cast<AttrKind>(i);
  }
  internal_error("ops.def names an unknown attribute kind `" + std::string(text) + "`");
}

std::vector<AttrSpec> parse_schema(std::string_view text) {
  std::vector<AttrSpec> schema;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const bool optional = item.ends_with('?');
    if (optional) item.remove_suffix(1);
    const size_t colon = item.find(':');
    check(colon != std::string_view::npos, "an attribute of ops.def has no kind");
    schema.push_back({item.substr(0, colon), parse_kind(item.substr(colon + 1)), optional});
  }
  return schema;
}

}  // namespace

std::string_view name_of(AttrKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

std::span<const AttrSpec> attribute_schema(Op op) {
  static const auto table = [] {
    std::vector<std::vector<AttrSpec>> schemas;
    for (int i = 0; i < num_ops(); ++i) schemas.push_back(parse_schema(info(static_cast<Op>(i)).attributes));
    return schemas;
  }();
  return table[static_cast<size_t>(op)];
}

const AttrSpec* find_attribute(Op op, std::string_view name) {
  for (const AttrSpec& spec : attribute_schema(op)) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

}  // namespace tcc
