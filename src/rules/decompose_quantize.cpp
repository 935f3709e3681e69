// Quantisation: y = saturate(round(x / scale) + zero_point), x = (y - zero_point) * scale. Scale and zero point are a scalar, one value per
// index of `axis`, or one per block of neighbouring indices (then they have x's rank). Saturation is the rule of the float-to-integer cast.

#include "tcc/graph/rule_error.h"
#include "tcc/rules/limits.h"
#include "tcc/rules/rules_common.h"

namespace tcc {
namespace {

using Results = std::vector<Value*>;

/// Scale or zero point at every element of `shape`.
Value* per_element(Builder& b, Value* p, const Shape& shape, const Attrs& attrs) {
  const int rank = static_cast<int>(shape.size());
  if (num_elements(rules::shape_of(p)) == 1 && p->type.rank() <= 1) return b.broadcast_to(b.reshape(p, {}), shape);
  const size_t at = static_cast<size_t>(rules::normal_axis(attrs.get_int("axis"), rank));
  if (p->type.rank() == 1 && rules::extent_of(p, 0) == shape[at]) return rules::along(b, p, shape, static_cast<int64_t>(at));
  const Shape own = rules::shape_of(p);
  bool blocked = own.size() == shape.size();
  for (size_t i = 0; blocked && i < own.size(); ++i) blocked = i == at ? own[i] > 0 : own[i] == shape[i];
  if (!blocked) {
    throw RuleError{"type-error", "a scale or zero point is `" + to_string(p->type) + "`, which fits no axis of " +
                                      to_string(std::span<const int64_t>(shape))};
  }
  // Repeat each value over its block, then drop what the last block has too much.
  const int64_t block = attrs.has("block_size") ? attrs.get_int("block_size") : (shape[at] + own[at] - 1) / own[at];
  if (block < 1 || shape[at] / block + (shape[at] % block != 0) != own[at]) {
    throw RuleError{"type-error", "`block_size` is " + std::to_string(block) + ", a scale or zero point has " + std::to_string(own[at]) +
                                      " values for the " + std::to_string(shape[at]) + " elements of axis " + std::to_string(at)};
  }
  Shape split = own, repeated = own;
  split.insert(split.begin() + static_cast<int64_t>(at) + 1, block);
  std::vector<int64_t> dims = rules::other_axes(rank + 1, {static_cast<int64_t>(at) + 1});
  repeated[at] = checked_multiply(repeated[at], block, "the extent of all blocks");
  Value* spread = b.reshape(b.broadcast_in_dim(p, split, dims), repeated);
  return b.slice(spread, std::vector<int64_t>(shape.size(), 0), shape);
}

Value* quantized(Builder& b, Value* x, Value* scale, Value* zero_point, const Attrs& attrs, DType dtype) {
  const Shape shape = rules::shape_of(x);
  const DType compute = rules::dtype_of(x) == DType::f64 ? DType::f64 : DType::f32;
  Value* ratio = b.div(b.cast(x, compute), per_element(b, b.cast(scale, compute), shape, attrs));
  if (!is_float(dtype)) ratio = b.unary(Op::round_even_, ratio);
  if (zero_point != nullptr) ratio = b.add(ratio, per_element(b, b.cast(zero_point, compute), shape, attrs));
  return b.cast(ratio, dtype);
}

}  // namespace

Results decompose_quantize_linear(Builder& b, const Node& node) {
  return {quantized(b, node.operand(0), node.operand(1), node.operand(2), node.attrs, node.attrs.get_dtype("dtype"))};
}

/// The difference is taken in i32, which is exact for every quantised dtype but i32 itself (whose zero point is 0).
Results decompose_dequantize_linear(Builder& b, const Node& node) {
  Value* x = node.operand(0);
  Value* scale = node.operand(1);
  Value* zero_point = node.operand(2);
  const Attrs& attrs = node.attrs;
  const Shape shape = rules::shape_of(x);
  const DType result = rules::dtype_of(scale);
  const DType compute = result == DType::f64 ? DType::f64 : DType::f32;
  const bool has_floats = is_float(rules::dtype_of(x)) || (zero_point != nullptr && is_float(rules::dtype_of(zero_point)));
  const DType inner = has_floats ? compute : DType::i32;
  Value* y = b.cast(x, inner);
  if (zero_point != nullptr) y = b.sub(y, per_element(b, b.cast(zero_point, inner), shape, attrs));
  y = b.mul(b.cast(y, compute), per_element(b, b.cast(scale, compute), shape, attrs));
  return {b.cast(y, result)};
}

/// ONNX's formula: the range is stretched to hold 0, so that 0 is exact.
Results decompose_dynamic_quantize_linear(Builder& b, const Node& node) {
  Value* x = node.operand(0);
  const std::vector<int64_t> axes = rules::axes_from(0, x->type.rank());
  Value* low = b.binary(Op::min_, b.reduce(Op::reduce_min_, x, axes), 0.0);
  Value* high = b.binary(Op::max_, b.reduce(Op::reduce_max_, x, axes), 0.0);
  Value* scale = b.binary(Op::div_, b.sub(high, low), 255.0);
  Value* start = b.unary(Op::round_even_, b.unary(Op::neg_, b.div(low, scale)));
  Value* zero_point = b.cast(b.emit(Op::clamp_, {start, b.full_like(start, 0), b.full_like(start, 255)}), DType::u8);
  return {quantized(b, x, scale, zero_point, node.attrs, DType::u8), scale, zero_point};
}

}  // namespace tcc
