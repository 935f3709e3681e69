// Quantisation. The QLinear ops become dequantize, the float op, quantize: rounding is half to even, then the zero point, then saturation.
#include <array>

#include "frontend/onnx/arithmetic.h"
#include "frontend/onnx/conversions.h"
#include "frontend/onnx/convolution.h"
#include "frontend/onnx/handlers.h"
#include "tcc/support/integer_math.h"

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

/// What QuantizeLinear makes: the type of the zero point, `output_dtype` or u8.
ElementType quantized_type(NodeContext& node) {
  std::optional<ElementType> wanted;
  if (node.opset() >= 21 && node.integer("output_dtype", 0) != 0) wanted = node.element_attribute("output_dtype");
  if (!node.has(2)) return wanted ? *wanted : ElementType{DType::u8};
  const ElementType type = node.element(2);
  if (wanted && (wanted->dtype != type.dtype || wanted->narrow != type.narrow))
    node.refuse("type-error", "`output_dtype` is " + name_of(*wanted) + ", the zero point is " + name_of(type));
  return type;
}

/// x / scale + zero point. Each of the two stands at all elements that it is for: that is how ones are dequantised.
Value* ratio_of(NodeContext& node, const Attrs& placing) {
  Arithmetic m(node);
  Value* x = node.in(0);
  const DType compute = x->type.dtype == DType::f64 ? DType::f64 : DType::f32;
  Value* ones = node.emit(Op::constant_of_shape_, {m.shape(x)}, {{"value", 1.0}, {"dtype", compute}});
  const auto spread = [&](Value* p) { return node.emit(Op::dequantize_linear_, {ones, m.cast(p, compute)}, placing); };
  Value* ratio = m.div(m.cast(x, compute), spread(node.in(1)));
  return node.has(2) ? m.add(ratio, spread(node.in(2))) : ratio;
}

/// Floats are divided by the scale and converted, as a Cast does, so a gradient passes them. The 2-bit integers are quantised to 4 bits, which saturates, and
/// cut off further.
void import_quantize(NodeContext& node) {
  const int64_t block = node.opset() >= 21 ? node.integer("block_size", 0) : 0;
  const ElementType to = quantized_type(node);
  Rounding rounding;
  rounding.saturate = node.opset() < 19 || node.flag("saturate", true);
  if (node.opset() >= 23) node.ignore("precision");
  Attrs attrs{{"axis", node.opset() >= 13 ? node.axis("axis", 1) : int64_t{1}}};
  if (block != 0) attrs.set("block_size", block);
  if (is_float(to.dtype)) {
    node.set(0, converted(node, ratio_of(node, attrs), to, rounding));
    return node.set_narrow(0, to.narrow);
  }
  attrs.set("dtype", to.dtype);
  const auto operands = with_zero_point(node.in(0), node.in(1), node.maybe(2));
  if (to.narrow == nullptr) return node.result(Op::quantize_linear_, operands, std::move(attrs));
  Value* value = node.emit(Op::quantize_linear_, operands, std::move(attrs));
  node.set(0, clamped_to(node, value, *to.narrow));
  node.set_narrow(0, to.narrow);
}

/// The product is computed in the type of the scale or in f32, whichever is wider, and has the type `output_dtype`.
void import_dequantize(NodeContext& node) {
  const int64_t block = node.opset() >= 21 ? node.integer("block_size", 0) : 0;
  const int64_t axis = node.opset() >= 13 ? node.axis("axis", 1) : 1;
  Value* scale = node.in(1);
  const bool has_type = node.opset() >= 23 && node.integer("output_dtype", 0) != 0;
  if (!has_type && node.element(1).narrow != nullptr)
    node.refuse("malformed-file", "the scale is " + name_of(node.element(1)) + ", which needs `output_dtype`");
  const DType wanted = has_type ? node.dtype_attribute("output_dtype") : node.dtype(1);
  if (size_bits(wanted) > size_bits(node.dtype(1))) scale = node.build().cast(scale, wanted);
  const auto operands = with_zero_point(node.in(0), scale, node.maybe(2));
  Attrs attrs{{"axis", axis}};
  if (block != 0) attrs.set("block_size", block);
  if (wanted == scale->type.dtype) return node.result(Op::dequantize_linear_, operands, std::move(attrs));
  node.result(Op::cast_, {node.emit(Op::dequantize_linear_, operands, std::move(attrs))}, {{"dtype", wanted}});
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

/// What MatMulNBits says of its weights.
struct PackedWeights {
  int64_t k, n, bits, block;
  int64_t blocks() const { return ceil_div(k, block); }
};

/// Elements of 4 or 8 bits in rows of whole bytes: the first `columns` of each of `rows`.
Tensor unpacked_rows(NodeContext& node, int operand, std::string_view what, int64_t rows, int64_t row_bytes, int64_t columns,
                     int64_t bits) {
  const Tensor bytes = node.require_constant(operand, what);
  if (bytes.dtype() != DType::u8 || bytes.count() != rows * row_bytes) {
    node.refuse("type-error", "the " + std::string(what) + " are " + std::string(name_of(bytes.dtype())) + " " + to_string(bytes.shape()) +
                                  ", expected " + std::to_string(rows * row_bytes) + " of u8");
  }
  const DType dtype = bits == 4 ? DType::u4 : DType::u8;
  const int64_t stored = row_bytes * 8 / bits;
  const auto whole = std::make_shared<Tensor>(bytes);
  const Tensor all(dtype, {rows, stored}, whole->bytes(), whole);
  if (stored == columns) return all;
  Tensor cut(dtype, {rows, columns});
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) cut.set_int64(row * columns + column, all.as_int64(row * stored + column));
  }
  return cut;
}

PackedWeights packed_weights(NodeContext& node) {
  const PackedWeights packed{node.integer("K"), node.integer("N"), node.integer("bits", 4), node.integer("block_size")};
  node.ignore("accuracy_level");  // how exact a library's own arithmetic may be
  if (node.integer("weight_prepacked", 0) != 0)
    node.refuse("unsupported-attribute", "`weight_prepacked` is not 0: the weights have the layout of a device");
  if (packed.bits != 4 && packed.bits != 8)
    node.refuse("unsupported-attribute", "`bits` is " + std::to_string(packed.bits) + ", lowered are 4 and 8");
  const bool is_block = packed.block >= 16 && (packed.block & (packed.block - 1)) == 0;
  if (!is_block || packed.k < 1 || packed.n < 1)
    node.refuse("type-error", "`block_size` is " + std::to_string(packed.block) + ", `K` is " + std::to_string(packed.k) + ", `N` is " +
                                  std::to_string(packed.n) + "; a block is a power of two from 16 on");
  return packed;
}

/// The weights [N, K] are dequantised and transposed. A zero point that is missing is in the middle of the range.
void import_matmul_nbits(NodeContext& node) {
  if (node.has(4)) node.refuse("unsupported-attribute", "the operand `g_idx`, by which inputs choose their blocks, is there");
  const PackedWeights packed = packed_weights(node);
  const int64_t blocks = packed.blocks();
  const std::string& name = node.build().loc().node;
  const auto constant = [&](Tensor tensor, const char* what) { return node.build().constant(std::move(tensor), name + what); };
  Value* weights =
      constant(unpacked_rows(node, 1, "weights", packed.n, blocks * packed.block * packed.bits / 8, packed.k, packed.bits), ".weights");
  Value* scales = node.build().reshape(node.in(2), {packed.n, blocks});
  Value* zero_points = nullptr;
  if (node.has(3) && node.dtype(3) != DType::u8) {
    zero_points = node.build().reshape(node.in(3), {packed.n, blocks});
  } else if (node.has(3)) {
    zero_points =
        constant(unpacked_rows(node, 3, "zero points", packed.n, ceil_div(blocks * packed.bits, 8), blocks, packed.bits), ".zero_points");
  } else {
    Tensor middle(packed.bits == 4 ? DType::u4 : DType::u8, {});
    middle.set_int64(0, int64_t{1} << (packed.bits - 1));
    zero_points = constant(std::move(middle), ".zero_point");
  }
  Value* wide = node.emit(Op::dequantize_linear_, with_zero_point(weights, scales, zero_points),
                          {{"axis", int64_t{1}}, {"block_size", packed.block}});
  Value* product = node.emit(Op::matmul_, {node.in(0), node.emit(Op::transpose_, {wide}, {{"permutation", std::vector<int64_t>{1, 0}}})});
  if (!node.has(5)) return node.result(Op::identity_, {product});
  node.result(Op::add_, {product, node.in(5)});
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"com.microsoft", "MatMulNBits", import_matmul_nbits},
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
