// Resolve rules of shapes: reading them, and giving a tensor a new one.

#include <algorithm>
#include <cmath>
#include <string>

#include "passes/resolve.h"
#include "tcc/rules/infer.h"
#include "tcc/rules/limits.h"
#include "tcc/support/tensor.h"

namespace tcc {
namespace {

using Results = std::optional<std::vector<Value*>>;

std::string text_of(const std::vector<int64_t>& values) { return to_string(std::span<const int64_t>(values)); }

/// How many of start, start + delta, ... lie before limit.
int64_t range_count(int64_t start, int64_t limit, int64_t delta) {
  if (delta > 0 ? limit <= start : limit >= start) return 0;
  // The distance may be beyond 63 bits, not beyond 64.
  const uint64_t from = static_cast<uint64_t>(start), to = static_cast<uint64_t>(limit), step = static_cast<uint64_t>(delta);
  const uint64_t distance = delta > 0 ? to - from : from - to, stride = delta > 0 ? step : 0 - step;
  const uint64_t count = distance / stride + (distance % stride != 0);
  return checked_extent(static_cast<double>(count), "the number of elements");
}

}  // namespace

int64_t normalize_axis(int64_t axis, int64_t rank, std::string_view name, const Type& type) {
  if (axis < -rank || axis >= rank) {
    type_error("`" + std::string(name) + "` is " + std::to_string(axis) + ", the operand is " + to_string(type) + ", expected " +
               std::to_string(-rank) + " to " + std::to_string(rank - 1));
  }
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> normalize_axes(std::vector<int64_t> axes, int64_t rank, std::string_view name, const Type& type) {
  for (int64_t& axis : axes) axis = normalize_axis(axis, rank, name, type);
  check_axes(axes, static_cast<int>(rank), name);
  return axes;
}

Results resolve_shape_of(ResolveContext& context, const Node& node) {
  const Shape shape = node.operand(0)->type.shape();
  const int64_t rank = static_cast<int64_t>(shape.size());
  const auto clamp = [rank](int64_t position) { return std::clamp<int64_t>(position < 0 ? position + rank : position, 0, rank); };
  const int64_t start = clamp(node.attrs.get_int("start"));
  const int64_t end = std::max(start, clamp(node.attrs.has("end") ? node.attrs.get_int("end") : rank));
  return {{context.constant(Tensor::from_ints({shape.begin() + start, shape.begin() + end}))}};
}

Results resolve_size_of(ResolveContext& context, const Node& node) {
  return {{context.constant(Tensor::from_ints({node.operand(0)->type.count()}).reshaped({}))}};
}

Results resolve_dynamic_reshape(ResolveContext& context, const Node& node) {
  Value* x = node.operand(0);
  const auto wanted = context.ints(node, 1, "shape");
  if (!wanted) return std::nullopt;
  Shape shape = *wanted;
  const bool allow_zero = node.attrs.get_bool("allowzero");
  int64_t product = 1;
  int unknown = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1) {
      if (unknown >= 0) type_error("`shape` is " + text_of(*wanted) + ", which leaves more than one extent open");
      unknown = static_cast<int>(i);
      continue;
    }
    if (shape[i] < -1) type_error("`shape` is " + text_of(*wanted) + ", expected extents of -1 or more");
    if (shape[i] == 0 && !allow_zero) {
      if (static_cast<int>(i) >= x->type.rank())
        type_error("`shape` is " + text_of(*wanted) + ", whose 0 copies axis " + std::to_string(i) + ", the operand is " +
                   to_string(x->type));
      shape[i] = x->type.dims[i].bound;
    }
    product = checked_multiply(product, shape[i], "the number of elements");
  }
  if (unknown >= 0) {
    const int64_t count = x->type.count();
    if (product == 0 || count % product != 0) {
      type_error("`shape` is " + text_of(*wanted) + ", which does not divide the " + std::to_string(count) + " elements of " +
                 to_string(x->type));
    }
    shape[static_cast<size_t>(unknown)] = count / product;
  }
  return {{context.builder().reshape(x, shape)}};
}

Results resolve_dynamic_expand(ResolveContext& context, const Node& node) {
  Value* x = node.operand(0);
  const auto wanted = context.ints(node, 1, "shape");
  if (!wanted) return std::nullopt;
  const Type target = type_of_shape(x->type.dtype, *wanted);
  const Type* both[] = {&x->type, &target};
  return {{context.builder().broadcast_to(x, broadcast_types(x->type.dtype, both).shape())}};
}

Results resolve_dynamic_squeeze(ResolveContext& context, const Node& node) {
  Value* x = node.operand(0);
  const Shape shape = x->type.shape();
  std::vector<char> dropped(shape.size(), 0);
  if (node.operand(1) == nullptr) {
    for (size_t i = 0; i < shape.size(); ++i) dropped[i] = shape[i] == 1;
  } else {
    const auto axes = context.ints(node, 1, "axes");
    if (!axes) return std::nullopt;
    for (const int64_t axis : normalize_axes(*axes, x->type.rank(), "axes", x->type)) {
      const int64_t extent = shape[static_cast<size_t>(axis)];
      if (extent != 1)
        type_error("axis " + std::to_string(axis) + " of " + to_string(x->type) + " has extent " + std::to_string(extent) +
                   ", only an extent of 1 can be squeezed");
      dropped[static_cast<size_t>(axis)] = 1;
    }
  }
  Shape result;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!dropped[i]) result.push_back(shape[i]);
  }
  return {{context.builder().reshape(x, result)}};
}

Results resolve_dynamic_unsqueeze(ResolveContext& context, const Node& node) {
  Value* x = node.operand(0);
  const auto axes = context.ints(node, 1, "axes");
  if (!axes) return std::nullopt;
  const int64_t rank = x->type.rank() + static_cast<int64_t>(axes->size());
  std::vector<char> inserted(static_cast<size_t>(rank), 0);
  for (const int64_t axis : normalize_axes(*axes, rank, "axes", x->type)) inserted[static_cast<size_t>(axis)] = 1;
  Shape result;
  size_t next = 0;
  for (const char is_new : inserted) result.push_back(is_new ? 1 : x->type.dims[next++].bound);
  return {{context.builder().reshape(x, result)}};
}

Results resolve_constant_of_shape(ResolveContext& context, const Node& node) {
  const auto shape = context.ints(node, 0, "shape");
  if (!shape) return std::nullopt;
  const DType dtype = node.attrs.get_dtype("dtype");
  return {{context.builder().emit(Op::full_, {}, {{"value", *node.attrs.find("value")}, {"shape", *shape}, {"dtype", dtype}})}};
}

// The elements are start + i * delta, in the dtype of the operands.
Results resolve_range(ResolveContext& context, const Node& node) {
  const DType dtype = node.operand(0)->type.dtype;
  Builder& builder = context.builder();
  int64_t count = 0;
  double start = 0, delta = 0;
  int64_t int_start = 0, int_delta = 0;
  if (is_float(dtype)) {
    const auto starts = context.floats(node, 0, "start"), limits = starts ? context.floats(node, 1, "limit") : starts,
               deltas = limits ? context.floats(node, 2, "delta") : limits;
    if (!deltas) return std::nullopt;
    if (starts->size() != 1 || limits->size() != 1 || deltas->size() != 1) type_error("the operands of `range` have more than one element");
    start = (*starts)[0], delta = (*deltas)[0];
    const double steps = std::ceil(((*limits)[0] - start) / delta);
    if (!std::isfinite(steps)) type_error("`range` from " + std::to_string(start) + " by " + std::to_string(delta) + " has no end");
    count = steps <= 0 ? 0 : checked_extent(steps, "the number of elements");
  } else {
    const auto first = context.scalar(node, 0, "start"), limit = first ? context.scalar(node, 1, "limit") : first,
               step = limit ? context.scalar(node, 2, "delta") : limit;
    if (!step) return std::nullopt;
    if (*step == 0) type_error("`delta` is 0");
    int_start = *first, int_delta = *step;
    count = range_count(*first, *limit, *step);
    start = static_cast<double>(int_start), delta = static_cast<double>(int_delta);
  }
  Value* value = builder.iota(dtype, {count}, 0);
  const auto scalar = [&](double floating, int64_t integer) {
    return is_float(dtype) ? builder.full(dtype, {count}, floating) : builder.full_int(dtype, {count}, integer);
  };
  if (delta != 1) value = builder.mul(value, scalar(delta, int_delta));
  if (start != 0) value = builder.add(value, scalar(start, int_start));
  return {{value}};
}

}  // namespace tcc
