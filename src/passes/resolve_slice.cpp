// Resolve rules of ops that take, add or repeat parts of a tensor.

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "passes/resolve.h"
#include "tcc/graph/rule_error.h"
#include "tcc/rules/infer.h"
#include "tcc/rules/limits.h"
#include "tcc/support/tensor.h"

namespace tcc {
namespace {

using Results = std::optional<std::vector<Value*>>;

std::string text_of(const std::vector<int64_t>& values) { return to_string(std::span<const int64_t>(values)); }

std::vector<int64_t> all_axes(int rank) {
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

/// One axis of a slice, as the prim wants it; `reversed` when the axis is reversed first.
struct AxisSlice {
  int64_t start, limit, step;
  bool reversed;
};

// ONNX and numpy: negative positions count from the end, then both are clamped to what the direction can reach.
AxisSlice normalize_slice(int64_t start, int64_t end, int64_t step, int64_t extent) {
  if (start < 0) start += extent;
  if (end < 0) end += extent;
  if (step > 0) {
    start = std::clamp<int64_t>(start, 0, extent);
    end = std::clamp<int64_t>(end, start, extent);
    return {start, end, step, false};
  }
  if (extent == 0) return {0, 0, 1, false};
  start = std::clamp<int64_t>(start, 0, extent - 1);
  end = std::clamp<int64_t>(end, -1, extent - 1);
  if (start <= end) return {0, 0, 1, false};
  step = std::max(step, -std::numeric_limits<int64_t>::max());
  return {extent - 1 - start, extent - 1 - end, -step, true};  // positions in the reversed axis
}

/// Cuts x along one axis into pieces of these extents.
std::vector<Value*> cut(Builder& builder, Value* x, int64_t axis, const std::vector<int64_t>& extents) {
  std::vector<Value*> pieces;
  std::vector<int64_t> starts(static_cast<size_t>(x->type.rank()), 0), limits = x->type.shape();
  int64_t position = 0;
  for (const int64_t extent : extents) {
    starts[static_cast<size_t>(axis)] = position;
    limits[static_cast<size_t>(axis)] = position += extent;
    pieces.push_back(builder.slice(x, starts, limits));
  }
  return pieces;
}

void check_extents(const std::vector<int64_t>& extents, int64_t axis, const Type& type) {
  int64_t sum = 0;
  bool negative = false;
  for (const int64_t extent : extents) {
    negative = negative || extent < 0;
    sum = negative ? sum : checked_add(sum, extent, "the sum of `split`");
  }
  if (negative || sum != type.dims[static_cast<size_t>(axis)].bound) {
    type_error("`split` is " + text_of(extents) + ", which does not add up to axis " + std::to_string(axis) + " of " + to_string(type));
  }
}

/// `count` pieces of ceil(extent / count), the last ones smaller.
std::vector<int64_t> even_extents(int64_t extent, int64_t count) {
  const int64_t size = extent / count + (extent % count != 0);
  std::vector<int64_t> extents;
  for (int64_t i = 0; i < count; ++i) extents.push_back(std::clamp<int64_t>(extent - i * size, 0, size));
  return extents;
}

}  // namespace

Results resolve_dynamic_slice(ResolveContext& context, const Node& node) {
  Value* x = node.operand(0);
  const Shape shape = x->type.shape();
  const auto starts = context.ints(node, 1, "starts");
  const auto ends = starts ? context.ints(node, 2, "ends") : starts;
  if (!ends) return std::nullopt;
  std::optional<std::vector<int64_t>> axes = all_axes(static_cast<int>(starts->size())), steps = std::vector<int64_t>(starts->size(), 1);
  if (node.operand(3) != nullptr) axes = context.ints(node, 3, "axes");
  if (axes && node.operand(4) != nullptr) steps = context.ints(node, 4, "steps");
  if (!axes || !steps) return std::nullopt;
  if (ends->size() != starts->size() || axes->size() != starts->size() || steps->size() != starts->size()) {
    type_error("`starts` is " + text_of(*starts) + ", `ends` " + text_of(*ends) + ", `axes` " + text_of(*axes) + ", `steps` " +
               text_of(*steps) + ", expected equal lengths");
  }
  *axes = normalize_axes(*axes, x->type.rank(), "axes", x->type);
  std::vector<int64_t> low(shape.size(), 0), high = shape, stride(shape.size(), 1), reversed;
  for (size_t i = 0; i < axes->size(); ++i) {
    const size_t axis = static_cast<size_t>((*axes)[i]);
    if ((*steps)[i] == 0) type_error("`steps` is " + text_of(*steps) + ", expected no 0");
    const AxisSlice slice = normalize_slice((*starts)[i], (*ends)[i], (*steps)[i], shape[axis]);
    low[axis] = slice.start;
    high[axis] = slice.limit;
    stride[axis] = slice.step;
    if (slice.reversed) reversed.push_back(static_cast<int64_t>(axis));
  }
  std::sort(reversed.begin(), reversed.end());
  Value* source = reversed.empty() ? x : context.builder().emit(Op::reverse_, {x}, {{"axes", reversed}});
  return {{context.builder().slice(source, low, high, stride)}};
}

Results resolve_dynamic_split(ResolveContext& context, const Node& node) {
  Value* x = node.operand(0);
  const int64_t axis = normalize_axis(node.attrs.get_int("axis"), x->type.rank(), "axis", x->type);
  const int64_t count = static_cast<int64_t>(node.results.size());
  std::optional<std::vector<int64_t>> extents;
  if (node.operand(1) != nullptr) {
    extents = context.ints(node, 1, "split");
    if (!extents) return std::nullopt;
  } else {
    if (node.attrs.has("num_outputs") && node.attrs.get_int("num_outputs") != count)
      type_error("`num_outputs` is " + std::to_string(node.attrs.get_int("num_outputs")) + ", the node has " + std::to_string(count) +
                 " results");
    extents = even_extents(x->type.dims[static_cast<size_t>(axis)].bound, count);
  }
  if (static_cast<int64_t>(extents->size()) != count)
    type_error("`split` is " + text_of(*extents) + ", the node has " + std::to_string(count) + " results");
  check_extents(*extents, axis, x->type);
  return cut(context.builder(), x, axis, *extents);
}

Results resolve_dynamic_pad(ResolveContext& context, const Node& node) {
  Value* x = node.operand(0);
  Builder& builder = context.builder();
  const Shape shape = x->type.shape();
  const auto pads = context.ints(node, 1, "pads");
  if (!pads) return std::nullopt;
  std::vector<int64_t> axes = all_axes(x->type.rank());
  if (node.operand(3) != nullptr) {
    const auto given = context.ints(node, 3, "axes");
    if (!given) return std::nullopt;
    axes = normalize_axes(*given, x->type.rank(), "axes", x->type);
  }
  if (pads->size() != 2 * axes.size())
    type_error("`pads` is " + text_of(*pads) + ", expected a begin and an end for each of " + std::to_string(axes.size()) + " axes");
  std::vector<int64_t> low(shape.size(), 0), high(shape.size(), 0), starts(shape.size(), 0), limits = shape;
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = static_cast<size_t>(axes[i]);
    const int64_t begin = (*pads)[i], end = (*pads)[axes.size() + i];
    check_attributes({{"pads", std::vector<int64_t>{begin, end}}});
    // Negative padding cuts off.
    low[axis] = std::max<int64_t>(begin, 0);
    high[axis] = std::max<int64_t>(end, 0);
    starts[axis] = std::max<int64_t>(-begin, 0);
    limits[axis] = shape[axis] + std::min<int64_t>(end, 0);
    if (starts[axis] > limits[axis])
      type_error("`pads` is " + text_of(*pads) + ", which cuts more than axis " + std::to_string(axis) + " of " + to_string(x->type) +
                 " has");
  }
  Value* cut_x = builder.slice(x, starts, limits);
  const std::string& mode = node.attrs.get_string("mode");
  if (mode == "constant") {
    Value* value = node.operand(2) == nullptr ? builder.full(x->type.dtype, {}, 0) : builder.reshape(node.operand(2), {});
    return {{builder.pad(cut_x, value, low, high)}};
  }
  const bool nothing = std::all_of(low.begin(), low.end(), [](int64_t n) { return n == 0; }) &&
                       std::all_of(high.begin(), high.end(), [](int64_t n) { return n == 0; });
  if (nothing) return {{cut_x}};
  return {{builder.emit(Op::pad_with_input_, {cut_x}, {{"mode", mode}, {"low", low}, {"high", high}})}};
}

// Repeating an axis is a new axis in front of it, broadcast, and both merged.
Results resolve_dynamic_tile(ResolveContext& context, const Node& node) {
  Value* x = node.operand(0);
  const Shape shape = x->type.shape();
  const auto repeats = context.ints(node, 1, "repeats");
  if (!repeats) return std::nullopt;
  check_per_axis(*repeats, x->type.rank(), "repeats");
  Shape wide, result;
  std::vector<int64_t> dims;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t times = (*repeats)[i];
    if (times < 0) type_error("`repeats` is " + text_of(*repeats) + ", expected no negative number");
    result.push_back(checked_multiply(shape[i], times, "the repeated extent"));
    if (times != 1 && shape[i] != 1) wide.push_back(times);
    dims.push_back(static_cast<int64_t>(wide.size()));
    wide.push_back(shape[i] == 1 ? times : shape[i]);
  }
  return {{context.builder().reshape(context.builder().broadcast_in_dim(x, wide, dims), result)}};
}

Results resolve_split_to_sequence(ResolveContext& context, const Node& node) {
  Value* x = node.operand(0);
  const int64_t axis = normalize_axis(node.attrs.get_int("axis"), x->type.rank(), "axis", x->type);
  const int64_t extent = x->type.dims[static_cast<size_t>(axis)].bound;
  std::vector<int64_t> extents;
  const auto cut_evenly = [&](int64_t size) {
    if (extent / size > kMaxPieces)
      throw RuleError{"too-complex", "axis " + std::to_string(axis) + " of " + to_string(x->type) + " splits into " +
                                         std::to_string(extent / size) + " pieces, the most is " + std::to_string(kMaxPieces)};
    for (int64_t position = 0; position < extent; position += size) extents.push_back(std::min(size, extent - position));
  };
  bool drop_axis = !node.attrs.get_bool("keepdims");
  if (node.operand(1) != nullptr) {
    const auto split = context.ints(node, 1, "split");
    if (!split) return std::nullopt;
    drop_axis = false;
    if (node.operand(1)->type.rank() == 0) {  // one number: pieces of that extent, the last one smaller
      const int64_t size = (*split)[0];
      if (size < 1) type_error("`split` is " + std::to_string(size) + ", expected at least 1");
      cut_evenly(size);
    } else {
      extents = *split;
    }
  } else {
    cut_evenly(1);
  }
  check_extents(extents, axis, x->type);
  std::vector<Value*> pieces = cut(context.builder(), x, axis, extents);
  if (drop_axis) {
    for (Value*& piece : pieces) {
      Shape shape = piece->type.shape();
      shape.erase(shape.begin() + axis);
      piece = context.builder().reshape(piece, shape);
    }
  }
  context.set_sequence(node.result(), std::move(pieces));
  return {{node.result()}};
}

Results resolve_sequence_at(ResolveContext& context, const Node& node) {
  const std::vector<Value*>* sequence = context.find_sequence(node.operand(0));
  if (sequence == nullptr) type_error("%" + node.operand(0)->name + " is not a sequence of known length");
  const auto position = context.scalar(node, 1, "position");
  if (!position) return std::nullopt;
  const int64_t length = static_cast<int64_t>(sequence->size());
  if (*position < -length || *position >= length)
    type_error("`position` is " + std::to_string(*position) + ", the sequence has " + std::to_string(length) + " elements");
  return {{(*sequence)[static_cast<size_t>(*position < 0 ? *position + length : *position)]}};
}

}  // namespace tcc
