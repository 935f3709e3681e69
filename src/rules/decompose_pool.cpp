// Pools as windows (reduce_window) or, when global, as reductions.
//
// An average divides the window's sum by how many positions count. Where that number is the same everywhere it is one constant; at padded
// edges it varies per position, separably, and becomes a small constant tensor over the spatial axes.
// max_pool's indices come from a chain over the window's positions (shifted slices compared with the best so far): a padded position never wins.

#include <limits>

#include "rules/window.h"
#include "tcc/graph/rule_error.h"
#include "tcc/rules/limits.h"
#include "tcc/rules/rules_common.h"

namespace tcc {
namespace {

using Results = std::vector<Value*>;
using rules::SpatialAxis;

std::vector<SpatialAxis> pool_axes(const Node& node) {
  const Shape shape = rules::shape_of(node.operand(0));
  const std::vector<int64_t>& kernel = node.attrs.get_ints("kernel");
  if (shape.size() != kernel.size() + 2) {
    throw RuleError{"type-error",
                    "`kernel` has " + std::to_string(kernel.size()) + " axes, the input is `" + to_string(node.operand(0)->type) + "`"};
  }
  return rules::spatial_axes(node.attrs, {shape.begin() + 2, shape.end()}, kernel, node.attrs.get_bool("ceil_mode"));
}

Value* window(Builder& b, Value* x, const char* op, const std::vector<SpatialAxis>& axes) {
  std::vector<int64_t> extents{1, 1}, strides{1, 1}, low{0, 0}, high{0, 0}, dilations{1, 1};
  for (const SpatialAxis& axis : axes) {
    extents.push_back(axis.kernel);
    strides.push_back(axis.stride);
    low.push_back(axis.low);
    high.push_back(axis.high);
    dilations.push_back(axis.dilation);
  }
  return b.emit(Op::reduce_window_, {x},
                {{"op", op}, {"window", extents}, {"strides", strides}, {"low", low}, {"high", high}, {"dilations", dilations}});
}

/// How many positions of window i count along one axis: those in the input, and those in the asked-for padding with `include_pad`.
int64_t count_at(const SpatialAxis& axis, bool include_pad, int64_t i) {
  const int64_t first = i * axis.stride - axis.low, end = include_pad ? axis.input + axis.pad_end : axis.input;
  // first + k * dilation is in [0, end) for k from `skipped` to `all`.
  const auto steps_to = [&](int64_t at) { return at <= first ? 0 : std::min(axis.kernel, (at - first - 1) / axis.dilation + 1); };
  const int64_t skipped = include_pad ? 0 : steps_to(0);
  return std::max<int64_t>(0, steps_to(end) - skipped);
}

/// The count of each window; one for all where none is cut at either end.
std::vector<int64_t> counts(const SpatialAxis& axis, bool include_pad) {
  if (axis.output == 0) return {};
  if (count_at(axis, include_pad, 0) == axis.kernel && count_at(axis, include_pad, axis.output - 1) == axis.kernel) return {axis.kernel};
  check_table(static_cast<double>(axis.output), "an average over windows that are cut at the edges");
  std::vector<int64_t> result;
  for (int64_t i = 0; i < axis.output; ++i) result.push_back(count_at(axis, include_pad, i));
  return result;
}

Value* divided(Builder& b, Value* sum, const std::vector<SpatialAxis>& axes, bool include_pad) {
  Shape spatial;
  std::vector<std::vector<int64_t>> per_axis;
  bool uniform = true;
  for (const SpatialAxis& axis : axes) {
    per_axis.push_back(counts(axis, include_pad));
    spatial.push_back(axis.output);
    const std::vector<int64_t>& last = per_axis.back();
    uniform = uniform && std::all_of(last.begin(), last.end(), [&](int64_t count) { return count == last[0]; });
  }
  if (num_elements(spatial) == 0) return sum;
  if (uniform) {
    double divisor = 1;
    for (const std::vector<int64_t>& axis : per_axis) divisor *= static_cast<double>(axis[0]);
    return divisor == 1 ? sum : b.binary(Op::div_, sum, divisor);
  }
  double elements = 1;
  for (const int64_t extent : spatial) elements *= static_cast<double>(extent);
  check_table(elements, "an average over windows that are cut at the edges");
  Tensor divisors(rules::dtype_of(sum), spatial);
  for (int64_t flat = 0, total = divisors.count(); flat < total; ++flat) {
    double divisor = 1;
    int64_t rest = flat;
    for (size_t i = spatial.size(); i-- > 0;) {
      const std::vector<int64_t>& axis = per_axis[i];
      divisor *= static_cast<double>(axis[axis.size() == 1 ? 0 : static_cast<size_t>(rest % spatial[i])]);
      rest /= spatial[i];
    }
    divisors.set_double(flat, divisor);
  }
  const Shape shape = rules::shape_of(sum);
  return b.div(sum, b.broadcast_in_dim(b.constant(divisors, "window_sizes"), shape, rules::axes_from(2, static_cast<int>(shape.size()))));
}

/// The flat index of each element of `shape`; with `column_major` the spatial axes are counted the other way round.
Value* flat_indices(Builder& b, const Shape& shape, bool column_major) {
  if (!column_major) return b.reshape(b.iota(DType::i64, {num_elements(shape)}, 0), shape);
  std::vector<int64_t> strides = row_major_strides(shape);
  int64_t stride = 1;
  for (size_t i = 2; i < shape.size(); ++i) {
    strides[i] = stride;
    stride *= shape[i];
  }
  Value* sum = nullptr;
  for (size_t i = 0; i < shape.size(); ++i) {
    Value* term = b.binary(Op::mul_, b.iota(DType::i64, shape, static_cast<int64_t>(i)), static_cast<double>(strides[i]));
    sum = sum == nullptr ? term : b.add(sum, term);
  }
  return sum;
}

Value* window_indices(Builder& b, Value* x, const std::vector<SpatialAxis>& axes, bool column_major) {
  const Shape shape = rules::shape_of(x);
  std::vector<int64_t> low{0, 0}, high{0, 0};
  for (const SpatialAxis& axis : axes) {
    low.push_back(axis.low);
    high.push_back(axis.high);
  }
  const DType dtype = rules::dtype_of(x);
  Value* values = b.pad(x, b.full(dtype, {}, is_float(dtype) ? -std::numeric_limits<double>::infinity() : 0), low, high);
  Value* indices = b.pad(flat_indices(b, shape, column_major), b.full_int(DType::i64, {}, -1), low, high);
  const Shape padded = rules::shape_of(values);
  int64_t positions = 1;
  for (const SpatialAxis& axis : axes) {
    positions = checked_multiply(positions, axis.kernel, "the number of positions of the window");
    if (positions > kMaxMadeNodes) {
      throw RuleError{"too-complex", "the indices of a window's largest elements go through its " + std::to_string(positions) +
                                         " positions or more, the most is " + std::to_string(kMaxMadeNodes)};
    }
  }
  Value* best = nullptr;
  Value* best_index = nullptr;
  for (int64_t flat = 0; flat < positions; ++flat) {
    std::vector<int64_t> starts(shape.size(), 0), limits(shape.begin(), shape.begin() + 2), steps(shape.size(), 1);
    limits.resize(shape.size());
    int64_t rest = flat;
    for (size_t i = axes.size(); i-- > 0;) {
      const SpatialAxis& axis = axes[i];
      starts[i + 2] = rest % axis.kernel * axis.dilation;
      rest /= axis.kernel;
      steps[i + 2] = axis.stride;
      limits[i + 2] = axis.output == 0 ? starts[i + 2] : starts[i + 2] + (axis.output - 1) * axis.stride + 1;
    }
    Value* value = b.slice(values, starts, limits, steps);
    Value* index = b.slice(indices, starts, limits, steps);
    if (best == nullptr) {
      best = value;
      best_index = index;
      continue;
    }
    Value* better = b.binary(Op::gt_, value, best);
    if (is_float(dtype))
      better = b.binary(Op::or_, better, b.binary(Op::and_, b.unary(Op::isnan_, value), b.unary(Op::not_, b.unary(Op::isnan_, best))));
    better = b.binary(Op::or_, better, b.binary(Op::lt_, best_index, 0.0));
    better = b.binary(Op::and_, better, b.binary(Op::ge_, index, 0.0));
    best = b.select(better, value, best);
    best_index = b.select(better, index, best_index);
  }
  return best_index;
}

}  // namespace

Results decompose_max_pool(Builder& b, const Node& node) {
  const std::vector<SpatialAxis> axes = pool_axes(node);
  Value* x = node.operand(0);
  Results results{window(b, x, "max", axes)};
  if (node.results.size() > 1) results.push_back(window_indices(b, x, axes, node.attrs.get_int("storage_order") == 1));
  return results;
}

Results decompose_average_pool(Builder& b, const Node& node) {
  const std::vector<SpatialAxis> axes = pool_axes(node);
  Value* x = node.operand(0);
  Value* sum = window(b, rules::widen(b, x), "sum", axes);
  return {b.cast(divided(b, sum, axes, node.attrs.get_bool("count_include_pad")), rules::dtype_of(x))};
}

Results decompose_global_average_pool(Builder& b, const Node& node) {
  Value* x = node.operand(0);
  const std::vector<int64_t> axes = rules::axes_from(2, x->type.rank());
  Shape shape = rules::shape_of(x);
  std::fill(shape.begin() + 2, shape.end(), 1);
  return {b.cast(b.reshape(rules::mean(b, rules::widen(b, x), axes), shape), rules::dtype_of(x))};
}

Results decompose_global_max_pool(Builder& b, const Node& node) {
  Value* x = node.operand(0);
  return {b.reduce_keep(Op::reduce_max_, x, rules::axes_from(2, x->type.rank()))};
}

}  // namespace tcc
