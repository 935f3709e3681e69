// Small idioms that the decompositions share; see rules_common.h.

#include "tcc/rules/rules_common.h"
#include "tcc/graph/rule_error.h"

namespace tcc::rules {

int64_t normal_axis(int64_t axis, int rank, const char* attribute) {
  if (axis < -rank || axis >= rank) {
    throw RuleError{"type-error", "`" + std::string(attribute) + "` is " + std::to_string(axis) + ", rank is " + std::to_string(rank)};
  }
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> axes_from(int64_t first, int rank) {
  std::vector<int64_t> axes;
  for (int64_t axis = first; axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

std::vector<int64_t> other_axes(int rank, const std::vector<int64_t>& axes) {
  std::vector<int64_t> others;
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) others.push_back(axis);
  }
  return others;
}

int64_t extent_over(const Value* x, const std::vector<int64_t>& axes) {
  int64_t extent = 1;
  for (int64_t axis : axes) extent *= extent_of(x, axis);
  return extent;
}

Value* widen(Builder& b, Value* x) { return is_float(dtype_of(x)) ? b.cast(x, compute_dtype(dtype_of(x))) : x; }

Value* along(Builder& b, Value* x, const Shape& shape, int64_t axis) {
  return x->type.rank() == 0 ? b.broadcast_to(x, shape) : b.broadcast_in_dim(x, shape, {axis});
}

Value* spread(Builder& b, Value* reduced, const Shape& shape, const std::vector<int64_t>& axes) {
  return b.broadcast_in_dim(reduced, shape, other_axes(static_cast<int>(shape.size()), axes));
}

Value* mean(Builder& b, Value* x, const std::vector<int64_t>& axes) {
  return b.binary(Op::div_, b.reduce(Op::reduce_sum_, x, axes), static_cast<double>(extent_over(x, axes)));
}

}  // namespace tcc::rules
