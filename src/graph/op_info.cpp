// The op registry: ops.def as tables.

#include <array>
#include <unordered_map>

#include "tcc/graph/graph.h"
#include "tcc/graph/op_schema.h"
#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

constexpr OpInfo kOps[] = {
#define TCC_PRIM(name, min_operands, max_operands, results, lowering, infer_rule, eval_rule, attributes) \
  {#name, OpKind::prim, min_operands, max_operands, results, Lowering::lowering, attributes},
#define TCC_COMPOSITE(name, min_operands, max_operands, results, infer_rule, decompose_rule, attributes) \
  {#name, OpKind::composite, min_operands, max_operands, results, Lowering::none, attributes},
#define TCC_DYNAMIC(name, min_operands, max_operands, results, infer_rule, resolve_rule, attributes) \
  {#name, OpKind::dynamic, min_operands, max_operands, results, Lowering::none, attributes},
#include "tcc/graph/ops.def"
};
constexpr int kNumOps = static_cast<int>(std::size(kOps));

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

const std::array<std::vector<AttrSpec>, kNumOps>& schemas() {
  static const auto table = [] {
    std::array<std::vector<AttrSpec>, kNumOps> result;
    for (int i = 0; i < kNumOps; ++i) result[static_cast<size_t>(i)] = parse_schema(kOps[i].attributes);
    return result;
  }();
  return table;
}

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

const OpInfo& info(Op op) { return kOps[static_cast<size_t>(op)]; }
int num_ops() { return kNumOps; }

std::optional<Op> parse_op(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, Op> map;
    for (int i = 0; i < kNumOps; ++i) map.emplace(kOps[i].name, static_cast<Op>(i));
    return map;
  }();
  const auto found = by_name.find(name);
  if (found == by_name.end()) return std::nullopt;
  return found->second;
}

std::string_view name_of(AttrKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

std::span<const AttrSpec> attribute_schema(Op op) { return schemas()[static_cast<size_t>(op)]; }

const AttrSpec* find_attribute(Op op, std::string_view name) {
  for (const AttrSpec& spec : attribute_schema(op)) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

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

std::string operand_count_fault(Op op, int operands) {
  const OpInfo& row = info(op);
  if (operands >= row.min_operands && (row.max_operands < 0 || operands <= row.max_operands)) return "";
  std::string expected = std::to_string(row.min_operands);
  if (row.max_operands < 0) expected += " or more";
  else if (row.max_operands != row.min_operands) expected += " to " + std::to_string(row.max_operands);
  return "`" + std::string(row.name) + "` has " + std::to_string(operands) + (operands == 1 ? " operand" : " operands") + ", expected " +
         expected;
}

bool is_transcendental(Op op) {
  switch (op) {
    case Op::exp_:
    case Op::exp2_:
    case Op::expm1_:
    case Op::log_:
    case Op::log2_:
    case Op::log1p_:
    case Op::sin_:
    case Op::cos_:
    case Op::tan_:
    case Op::asin_:
    case Op::acos_:
    case Op::atan_:
    case Op::sinh_:
    case Op::cosh_:
    case Op::tanh_:
    case Op::asinh_:
    case Op::acosh_:
    case Op::atanh_:
    case Op::erf_:
    case Op::pow_:
    case Op::atan2_:
    case Op::rem_:
    case Op::mod_: return true;
    default: return false;
  }
}

int arithmetic_cost(Op op) {
  if (is_transcendental(op)) return 16;
  if (op == Op::check_index_) return 0;  // a comparison that the load makes anyway, and a branch that is not taken
  return op == Op::div_ || op == Op::sqrt_ || op == Op::rsqrt_ || op == Op::recip_ ? 4 : 1;
}

}  // namespace tcc
