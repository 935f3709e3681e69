// ops.def as a table.
#include "tcc/ops/op.h"

#include <unordered_map>

namespace tcc {
namespace {

constexpr int operands_of(ScalarClass scalar_class) {
  switch (scalar_class) {
    case ScalarClass::none: break;
#define TCC_SCALAR_CLASS(name, operands, infer_rule, eval_rule) \
  case ScalarClass::name: return operands;
#include "tcc/ops/ops.def"
  }
  return 0;
}

constexpr OpInfo kOps[] = {
#define TCC_POINTWISE(name, scalar_class, cost, gradient, precision, attributes) \
  {#name,                                                                        \
   OpKind::prim,                                                                 \
   operands_of(ScalarClass::scalar_class),                                       \
   operands_of(ScalarClass::scalar_class),                                       \
   1,                                                                            \
   Lowering::pointwise,                                                          \
   ScalarClass::scalar_class,                                                    \
   ScalarCost::cost,                                                             \
   Gradient::gradient,                                                           \
   Precision::precision,                                                         \
   attributes},
#define TCC_PRIM(name, min_operands, max_operands, results, lowering, gradient, precision, infer_rule, eval_rule, attributes) \
  {#name,                                                                                                                     \
   OpKind::prim,                                                                                                              \
   min_operands,                                                                                                              \
   max_operands,                                                                                                              \
   results,                                                                                                                   \
   Lowering::lowering,                                                                                                        \
   ScalarClass::none,                                                                                                         \
   ScalarCost::instruction,                                                                                                   \
   Gradient::gradient,                                                                                                        \
   Precision::precision,                                                                                                      \
   attributes},
#define TCC_COMPOSITE(name, min_operands, max_operands, results, gradient, precision, infer_rule, decompose_rule, attributes) \
  {#name,                                                                                                                     \
   OpKind::composite,                                                                                                         \
   min_operands,                                                                                                              \
   max_operands,                                                                                                              \
   results,                                                                                                                   \
   Lowering::none,                                                                                                            \
   ScalarClass::none,                                                                                                         \
   ScalarCost::instruction,                                                                                                   \
   Gradient::gradient,                                                                                                        \
   Precision::precision,                                                                                                      \
   attributes},
#define TCC_DYNAMIC(name, min_operands, max_operands, results, infer_rule, resolve_rule, attributes)                                    \
  {#name,          OpKind::dynamic,    min_operands, max_operands, results, Lowering::none, ScalarClass::none, ScalarCost::instruction, \
   Gradient::none, Precision::written, attributes},
#include "tcc/ops/ops.def"
};
constexpr int kNumOps = static_cast<int>(std::size(kOps));

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

std::optional<PointwiseOp> pointwise(Op op) {
  if (info(op).scalar_class == ScalarClass::none) return std::nullopt;
  return static_cast<PointwiseOp>(op);
}

bool is_transcendental(Op op) { return info(op).cost >= ScalarCost::function; }

int arithmetic_cost(Op op) {
  switch (info(op).cost) {
    case ScalarCost::free: return 0;
    case ScalarCost::instruction: return 1;
    case ScalarCost::division: return 4;
    case ScalarCost::function:
    case ScalarCost::loop: return 16;
  }
  return 1;
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

}  // namespace tcc
