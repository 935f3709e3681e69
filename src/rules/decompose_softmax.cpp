// Softmax and its relatives along one axis:
//   softmax(x)      m = max(x); e = exp(x - m); e * (1 / sum(e))
//   log_softmax(x)  (x - m) - log(sum(exp(x - m)))
//   hardmax(x)      1 at the first maximum, 0 elsewhere
// Both reductions run over the same axis and read the same rows, so that grouping makes one unit of them.

#include "tcc/rules/rules_common.h"

namespace tcc {

using Results = std::vector<Value*>;

Results decompose_softmax(Builder& b, const Node& node) {
  Value* x = rules::widen(b, node.operand(0));
  const Shape shape = rules::shape_of(x);
  const std::vector<int64_t> axes{rules::normal_axis(node.attrs.get_int("axis"), x->type.rank())};
  Value* m = rules::spread(b, b.reduce(Op::reduce_max_, x, axes), shape, axes);
  Value* e = b.unary(Op::exp_, b.sub(x, m));
  // One division a row; the product rounds once more than the quotient would, half a unit in the last place at most.
  Value* scale = rules::spread(b, b.unary(Op::recip_, b.reduce(Op::reduce_sum_, e, axes)), shape, axes);
  return {b.cast(b.mul(e, scale), rules::dtype_of(node.operand(0)))};
}

Results decompose_log_softmax(Builder& b, const Node& node) {
  Value* x = rules::widen(b, node.operand(0));
  const Shape shape = rules::shape_of(x);
  const std::vector<int64_t> axes{rules::normal_axis(node.attrs.get_int("axis"), x->type.rank())};
  Value* shifted = b.sub(x, rules::spread(b, b.reduce(Op::reduce_max_, x, axes), shape, axes));
  Value* log_sum = b.unary(Op::log_, b.reduce(Op::reduce_sum_, b.unary(Op::exp_, shifted), axes));
  return {b.cast(b.sub(shifted, rules::spread(b, log_sum, shape, axes)), rules::dtype_of(node.operand(0)))};
}

Results decompose_hardmax(Builder& b, const Node& node) {
  Value* x = node.operand(0);
  const Shape shape = rules::shape_of(x);
  const int64_t axis = rules::normal_axis(node.attrs.get_int("axis"), x->type.rank());
  Value* first = b.emit(Op::argmax_, {x}, {{"axis", axis}, {"last", false}});
  Value* hit = b.binary(Op::eq_, b.iota(DType::i64, shape, axis), rules::spread(b, first, shape, {axis}));
  return {b.cast(hit, rules::dtype_of(x))};
}

}  // namespace tcc
