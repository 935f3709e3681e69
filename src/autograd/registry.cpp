// The gradient column of ops.def as a table.

#include "autograd/vjp.h"
#include "tcc/support/diagnostics.h"

namespace tcc::autograd {
namespace {

struct Row {
  VjpRule rule = nullptr;
  bool (*holds)(const Node&) = nullptr;
};

constexpr Row kRows[] = {
#define TCC_ROW_rule(name) {vjp_##name},
#define TCC_ROW_conditional(name) {vjp_##name, has_vjp_##name},
#define TCC_ROW_zero(name) {},
#define TCC_ROW_decompose(name) {},
#define TCC_ROW_none(name) {},
#define TCC_POINTWISE(name, scalar_class, cost, gradient, precision, attributes) TCC_ROW_##gradient(name)
#define TCC_PRIM(name, min_operands, max_operands, results, lowering, gradient, precision, infer_rule, eval_rule, attributes) \
  TCC_ROW_##gradient(name)
#define TCC_COMPOSITE(name, min_operands, max_operands, results, gradient, precision, infer_rule, decompose_rule, attributes) \
  TCC_ROW_##gradient(name)
#define TCC_DYNAMIC(...) {},
#include "tcc/ops/ops.def"
};

}  // namespace

VjpEntry find_vjp(const Node& node) {
  const Row& row = kRows[static_cast<size_t>(node.op)];
  const Gradient gradient = info(node.op).gradient;
  if (gradient != Gradient::conditional) return {gradient, row.rule};
  if (row.holds(node)) return {Gradient::rule, row.rule};
  return {Gradient::decompose};
}

Value* sum_to(Builder& b, Value* value, const Shape& shape) {
  const Shape from = value->type.shape();
  if (from == shape) return value;
  const size_t lead = from.size() - shape.size();
  std::vector<int64_t> axes;
  for (size_t i = 0; i < from.size(); ++i) {
    if (i < lead || (shape[i - lead] == 1 && from[i] != 1)) axes.push_back(static_cast<int64_t>(i));
  }
  return b.reshape(b.reduce(Op::reduce_sum_, value, axes), shape);
}

void Vjp::give(int operand, Value* cotangent) {
  if (!wants(operand)) return;
  const Value* target = x(operand);
  check(cotangent->type.dtype == target->type.dtype, "a vjp rule gives a cotangent of another dtype than its operand has");
  check(cotangent->type.rank() >= target->type.rank(), "a vjp rule gives a cotangent of a lower rank than its operand has");
  Value* summed = sum_to(b, cotangent, target->type.shape());
  Value*& sum = given_[static_cast<size_t>(operand)];
  sum = sum == nullptr ? summed : b.add(sum, summed);
}

}  // namespace tcc::autograd
