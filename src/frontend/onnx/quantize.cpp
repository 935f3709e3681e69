// Quantisation. The QLinear ops become dequantize, the float op, quantize: rounding is half to even, then the zero point, then saturation.
#include <array>

#include "frontend/onnx/arithmetic.h"
#include "frontend/onnx/convolution.h"
#include "frontend/onnx/float8.h"
#include "frontend/onnx/handlers.h"

namespace tcc::onnx {
namespace {

std::vector<Value*> with_zero_point(Value* x, Value* scale, Value* zero_point) {
  std::vector<Value*> operands{x, scale};
  if (zero_point != nullptr) operands.push_back(zero_point);
  return operands;
}

Value* dequantize(NodeContext& node, Value* x, Value* scale, Value* zero_point, int64_t axis) {
  return node.emit(Op::dequantize_linear_, with_zero_point(x, scale, zero_point), {{"axis", axis}});
}

/// A scale or zero point per block of `block` elements along `axis`, given to each element.
Value* per_element(NodeContext& node, Value* parameter, int64_t axis, int64_t block) {
  if (parameter == nullptr) return nullptr;
  const Type type = node.type_of(node.in(0));
  if (!type.ranked || axis < 0 || axis >= type.rank() || !type.dims[static_cast<size_t>(axis)].is_constant()) {
    node.refuse("unknown-value",
                "the size of axis " + std::to_string(axis) + ", which is quantised in blocks, is not known while importing");
  }
  std::vector<int64_t> from;
  for (int64_t i = 0; i < type.dims[static_cast<size_t>(axis)].bound; ++i) from.push_back(i / block);
  return node.emit(Op::gather_, {parameter, node.ints(std::move(from), "blocks")}, {{"axis", axis}});
}

/// Rounded half to even, shifted, cut off at the bounds of the type.
void quantize_blocks(NodeContext& node, int64_t axis, int64_t block, DType dtype) {
  Arithmetic m(node);
  Value* x = m.cast(node.in(0), DType::f32);
  Value* scaled = node.emit(Op::round_even_, {m.div(x, m.cast(per_element(node, node.in(1), axis, block), DType::f32))});
  if (Value* zero_point = per_element(node, node.maybe(2), axis, block)) scaled = m.add(scaled, m.cast(zero_point, DType::f32));
  node.result(Op::cast_, {scaled}, {{"dtype", dtype}});  // float to integer saturates
}

/// The 8-bit floats have no zero point; the cast rounds and saturates.
void quantize_to_float(NodeContext& node, DType dtype, bool saturate) {
  const Type scale = node.type_of(node.in(1));
  if (!scale.ranked || (scale.rank() != 0 && !(scale.rank() == 1 && scale.dims[0] == Dim(1)))) {
    node.refuse("unsupported-dtype",
                "quantisation to " + std::string(name_of(dtype)) + " with a scale of " + to_string(scale) + ", lowered is one for all");
  }
  Arithmetic m(node);
  Value* ratio = m.div(node.in(0), scale.rank() == 0 ? node.in(1) : m.scalar(node.in(1)));
  if (saturate) node.result(Op::cast_, {ratio}, {{"dtype", dtype}});
  else node.result(Op::identity_, {cast_without_saturation(node, ratio, dtype)});
}

void import_quantize(NodeContext& node) {
  const int64_t block = node.opset() >= 21 ? node.integer("block_size", 0) : 0;
  DType dtype = node.has(2) ? node.dtype(2) : DType::u8;
  if (node.opset() >= 21) {
    const int64_t wanted = node.integer("output_dtype", 0);
    if (wanted != 0 && !node.has(2)) dtype = node.dtype_attribute("output_dtype");
  }
  const bool saturate = node.opset() < 19 || node.flag("saturate", true);
  if (node.opset() >= 23) node.ignore("precision");
  const int64_t axis = node.opset() >= 13 ? node.axis("axis", 1) : 1;
  if (block != 0) return quantize_blocks(node, axis, block, dtype);
  if (is_float(dtype)) return quantize_to_float(node, dtype, saturate);
  node.result(Op::quantize_linear_, with_zero_point(node.in(0), node.in(1), node.maybe(2)), {{"axis", axis}, {"dtype", dtype}});
}

void import_dequantize(NodeContext& node) {
  const int64_t block = node.opset() >= 21 ? node.integer("block_size", 0) : 0;
  const int64_t axis = node.opset() >= 13 ? node.axis("axis", 1) : 1;
  const auto operands = with_zero_point(node.in(0), node.in(1), node.maybe(2));
  const DType wanted = node.opset() >= 23 && node.integer("output_dtype", 0) != 0 ? node.dtype_attribute("output_dtype") : node.dtype(1);
  if (block != 0) {
    Arithmetic m(node);
    Value* x = m.cast(node.in(0), DType::f32);
    if (Value* zero_point = per_element(node, node.maybe(2), axis, block)) x = m.sub(x, m.cast(zero_point, DType::f32));
    return node.result(Op::cast_, {m.mul(x, m.cast(per_element(node, node.in(1), axis, block), DType::f32))}, {{"dtype", wanted}});
  }
  if (wanted == node.dtype(1)) return node.result(Op::dequantize_linear_, operands, {{"axis", axis}});
  node.result(Op::cast_, {node.emit(Op::dequantize_linear_, operands, {{"axis", axis}})}, {{"dtype", wanted}});
}

void import_dynamic_quantize(NodeContext& node) { node.result(Op::dynamic_quantize_linear_, {node.in(0)}, {}, 3); }

void import_matmul_integer(NodeContext& node) {
  std::vector<Value*> operands{node.in(0), node.in(1)};
  if (node.has(2) || node.has(3)) operands.push_back(node.maybe(2));
  if (node.has(3)) operands.push_back(node.in(3));
  node.result(Op::matmul_integer_, std::move(operands));
}

/// x - zero point, in i32. A zero point per channel of `axis` 0 stands in front of the other axes.
Value* centred(NodeContext& node, Value* x, Value* zero_point, bool per_channel) {
  Builder& b = node.build();
  Value* wide = b.cast(x, DType::i32);
  if (zero_point == nullptr) return wide;
  Value* offset = b.cast(zero_point, DType::i32);
  const Type filter = node.type_of(x), point = node.type_of(zero_point);
  if (per_channel && !point.ranked) node.refuse("unknown-value", "the rank of the zero point is not known while importing");
  if (per_channel && point.rank() == 1 && !(point.dims[0] == Dim(1))) {
    if (!filter.ranked) node.refuse("unknown-value", "the rank of the filter is not known while importing");
    std::vector<int64_t> axes;
    for (int64_t axis = 1; axis < filter.rank(); ++axis) axes.push_back(axis);
    offset = node.emit(Op::dynamic_unsqueeze_, {offset, node.ints(axes, "axes")});
  }
  return node.emit(Op::sub_, {wide, offset});
}

/// Padding is with the zero point, which is 0 after it is taken off.
void import_conv_integer(NodeContext& node) {
  Value* x = centred(node, node.in(0), node.maybe(2), false);
  Value* w = centred(node, node.in(1), node.maybe(3), true);
  node.result(Op::conv_, {x, w}, convolution_attributes(node));
}

void import_qlinear_matmul(NodeContext& node) {
  Value* a = dequantize(node, node.in(0), node.in(1), node.in(2), -2);
  Value* b = dequantize(node, node.in(3), node.in(4), node.in(5), -1);
  Value* product = node.emit(Op::matmul_, {a, b});
  node.result(Op::quantize_linear_, {product, node.in(6), node.in(7)}, {{"axis", int64_t{-1}}, {"dtype", node.dtype(7)}});
}

void import_qlinear_conv(NodeContext& node) {
  Value* x = dequantize(node, node.in(0), node.in(1), node.in(2), 1);
  Value* w = dequantize(node, node.in(3), node.in(4), node.in(5), 0);
  std::vector<Value*> operands{x, w};
  if (node.has(8)) {  // the bias is in units of the product of the two scales
    Value* unit = node.emit(Op::mul_, {node.in(1), node.in(4)});
    operands.push_back(node.emit(Op::mul_, {node.build().cast(node.in(8), node.dtype(1)), unit}));
  }
  Value* sum = node.emit(Op::conv_, std::move(operands), convolution_attributes(node));
  node.result(Op::quantize_linear_, {sum, node.in(6), node.in(7)}, {{"axis", int64_t{1}}, {"dtype", node.dtype(7)}});
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "ConvInteger", import_conv_integer},
    {"", "DequantizeLinear", import_dequantize},
    {"", "DynamicQuantizeLinear", import_dynamic_quantize},
    {"", "MatMulInteger", import_matmul_integer},
    {"", "QLinearConv", import_qlinear_conv},
    {"", "QLinearMatMul", import_qlinear_matmul},
    {"", "QuantizeLinear", import_quantize},
});

}  // namespace

std::span<const Handler> quantize_handlers() { return kHandlers; }

}  // namespace tcc::onnx
