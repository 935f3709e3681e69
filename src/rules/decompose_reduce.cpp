// ONNX's reductions as prims. 16-bit floats are widened where a step before or after the sum would round or overflow; log_sum_exp subtracts the
// maximum first (unless that is infinite or NaN, where it would make NaN of an infinity).

#include "tcc/graph/rule_error.h"
#include "tcc/rules/rules_common.h"

namespace tcc {
namespace {

using Results = std::vector<Value*>;

Value* log_sum_exp(Builder& b, Value* x, const std::vector<int64_t>& axes) {
  Value* maximum = b.reduce(Op::reduce_max_, x, axes);
  Value* shift = b.select(b.unary(Op::isfinite_, maximum), maximum, b.full_like(maximum, 0));
  Value* shifted = b.sub(x, rules::spread(b, shift, rules::shape_of(x), axes));
  return b.add(b.unary(Op::log_, b.reduce(Op::reduce_sum_, b.unary(Op::exp_, shifted), axes)), shift);
}

Value* reduced(Builder& b, const std::string& op, Value* x, const std::vector<int64_t>& axes) {
  if (op == "sum") return b.reduce(Op::reduce_sum_, x, axes);
  if (op == "prod") return b.reduce(Op::reduce_prod_, x, axes);
  if (op == "max") return b.reduce(rules::dtype_of(x) == DType::boolean ? Op::reduce_or_ : Op::reduce_max_, x, axes);
  if (op == "min") return b.reduce(rules::dtype_of(x) == DType::boolean ? Op::reduce_and_ : Op::reduce_min_, x, axes);
  if (op == "l1") return b.reduce(Op::reduce_sum_, b.unary(Op::abs_, x), axes);
  if (op == "sum_square") return b.reduce(Op::reduce_sum_, b.mul(x, x), axes);
  const DType dtype = rules::dtype_of(x);
  if (op == "mean") return b.cast(rules::mean(b, rules::widen(b, x), axes), dtype);
  // Those that leave the integers.
  Value* wide = is_float(dtype) ? rules::widen(b, x) : b.cast(x, DType::f64);
  Value* result;
  if (op == "l2") result = b.unary(Op::sqrt_, b.reduce(Op::reduce_sum_, b.mul(wide, wide), axes));
  else if (op == "log_sum") result = b.unary(Op::log_, b.reduce(Op::reduce_sum_, wide, axes));
  else if (op == "log_sum_exp") result = log_sum_exp(b, wide, axes);
  else
    throw RuleError{"unsupported-attribute",
                    "`op` is \"" + op + "\", known are sum mean max min prod l1 l2 log_sum log_sum_exp sum_square"};
  return b.cast(result, dtype);
}

Value* with_axes(Builder& b, Value* result, const Value* x, const std::vector<int64_t>& axes, bool keepdims) {
  if (!keepdims) return result;
  Shape shape = rules::shape_of(x);
  for (int64_t axis : axes) shape[static_cast<size_t>(axis)] = 1;
  return b.reshape(result, shape);
}

}  // namespace

Results decompose_reduce(Builder& b, const Node& node) {
  Value* x = node.operand(0);
  std::vector<int64_t> axes = node.attrs.get_ints("axes");
  for (int64_t& axis : axes) axis = rules::normal_axis(axis, x->type.rank(), "axes");
  std::sort(axes.begin(), axes.end());
  return {with_axes(b, reduced(b, node.attrs.get_string("op"), x, axes), x, axes, node.attrs.get_bool("keepdims"))};
}

Results decompose_arg_reduce(Builder& b, const Node& node) {
  Value* x = node.operand(0);
  const int64_t axis = rules::normal_axis(node.attrs.get_int("axis"), x->type.rank());
  const std::string& op = node.attrs.get_string("op");
  if (op != "max" && op != "min") throw RuleError{"unsupported-attribute", "`op` is \"" + op + "\", known are max and min"};
  Value* index = b.emit(op == "max" ? Op::argmax_ : Op::argmin_, {x}, {{"axis", axis}, {"last", node.attrs.get_bool("last")}});
  return {with_axes(b, index, x, {axis}, node.attrs.get_bool("keepdims"))};
}

Results decompose_elementwise_mean(Builder& b, const Node& node) {
  Value* sum = nullptr;
  for (Value* operand : node.operands) {
    Value* x = rules::widen(b, operand);
    sum = sum == nullptr ? x : b.add(sum, x);
  }
  return {b.cast(b.binary(Op::div_, sum, static_cast<double>(node.operands.size())), rules::dtype_of(node.operand(0)))};
}

}  // namespace tcc
