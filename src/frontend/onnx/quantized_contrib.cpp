// Quantised ops of ONNX Runtime (domain com.microsoft). Where the op multiplies integers, their sum is exact; the others are the float op between dequantize
// and quantize. Zero points may be absent: 0 of the type of the data.
#include <array>
#include <cmath>
#include <utility>

#include "frontend/onnx/arithmetic.h"
#include "frontend/onnx/handlers.h"
#include "frontend/onnx/pool.h"

namespace tcc::onnx {
namespace {

/// Scales and zero points of these ops are one for all elements; zero points have the type of what they belong to.
void check_one_for_all(NodeContext& node, int scale, DType dtype) {
  for (const int i : {scale, scale + 1}) {
    if (!node.has(i)) continue;
    const Type type = node.type_of(node.in(i));
    if (type.ranked && type.rank() != 0 && !(type.rank() == 1 && type.dims[0] == Dim(1)))
      node.refuse("type-error", "operand " + std::to_string(i) + " is " + to_string(type) + ", one number for all elements was expected");
  }
  if (node.has(scale + 1) && node.dtype(scale + 1) != dtype) {
    node.refuse("type-error",
                "the zero point is " + std::string(name_of(node.dtype(scale + 1))) + ", " + std::string(name_of(dtype)) + " was expected");
  }
}

/// Operand i, whose scale and zero point follow it.
Value* dequantized(NodeContext& node, int i) {
  check_one_for_all(node, i + 1, node.dtype(i));
  std::vector<Value*> operands{node.in(i), node.in(i + 1)};
  if (node.has(i + 2)) operands.push_back(node.in(i + 2));
  return node.emit(Op::dequantize_linear_, std::move(operands), {{"axis", int64_t{-1}}});
}

/// The result is `value`, quantised by operand `scale` and the zero point behind it.
void set_quantized(NodeContext& node, Value* value, int scale, DType dtype) {
  check_one_for_all(node, scale, dtype);
  std::vector<Value*> operands{value, node.in(scale)};
  if (node.has(scale + 1)) operands.push_back(node.in(scale + 1));
  node.result(Op::quantize_linear_, std::move(operands), {{"axis", int64_t{-1}}, {"dtype", dtype}});
}

template <Op op> void import_binary(NodeContext& node) {
  set_quantized(node, node.emit(op, {dequantized(node, 0), dequantized(node, 3)}), 6, node.dtype());
}

void import_sigmoid(NodeContext& node) { set_quantized(node, node.emit(Op::sigmoid_, {dequantized(node, 0)}), 3, node.dtype()); }

void import_leaky_relu(NodeContext& node) {
  Attrs attrs{{"alpha", node.number("alpha", 0.01F)}};
  set_quantized(node, node.emit(Op::leaky_relu_, {dequantized(node, 0)}, std::move(attrs)), 3, node.dtype());
}

void import_where(NodeContext& node) {
  set_quantized(node, node.emit(Op::select_, {node.in(0), dequantized(node, 1), dequantized(node, 4)}), 7, node.dtype(1));
}

/// `opset` says which Softmax it was: before 13 the axes from `axis` on are one.
void import_softmax(NodeContext& node) {
  Arithmetic m(node);
  const int64_t opset = node.integer("opset"), axis = node.axis("axis", -1);
  Value* x = dequantized(node, 0);
  if (opset >= 13) return set_quantized(node, node.emit(Op::softmax_, {x}, {{"axis", axis}}), 3, node.dtype());
  Value* rows = node.emit(Op::softmax_, {node.emit(Op::flatten_, {x}, {{"axis", axis}})}, {{"axis", int64_t{1}}});
  Value* y = node.emit(Op::dynamic_reshape_, {rows, m.shape(x)}, {{"allowzero", true}});
  set_quantized(node, y, 3, node.dtype());
}

/// [scale, zero point, then for each part: data, scale, zero point]
void import_concat(NodeContext& node) {
  const int num_parts = (node.num_inputs() - 2) / 3;
  if (num_parts < 1 || node.num_inputs() != 2 + 3 * num_parts)
    node.refuse("malformed-file", "the node has " + std::to_string(node.num_inputs()) + " operands, expected 2 and 3 for each part");
  std::vector<Value*> parts;
  for (int i = 0; i < num_parts; ++i) parts.push_back(dequantized(node, 2 + 3 * i));
  Value* whole = node.emit(Op::concat_, std::move(parts), {{"axis", node.integer("axis")}});
  set_quantized(node, whole, 0, node.dtype(2));
}

// ---- pooling, also of images with their channels last

/// The channels go behind the batch, or back to the end.
Value* with_channels(NodeContext& node, Value* x, bool first) {
  const int64_t rank = node.rank(0);
  if (rank < 3) node.refuse("type-error", "the operand has rank " + std::to_string(rank) + ", expected 3 or more");
  std::vector<int64_t> permutation{0};
  if (first) permutation.push_back(rank - 1);
  for (int64_t axis = first ? 1 : 2; axis < rank - (first ? 1 : 0); ++axis) permutation.push_back(axis);
  if (!first) permutation.push_back(1);
  return Arithmetic(node).transpose(x, std::move(permutation));
}

template <class Pool> Value* pooled(NodeContext& node, Value* x, bool channels_last, const Pool& pool) {
  if (!channels_last) return pool(x);
  return with_channels(node, pool(with_channels(node, x, true)), false);
}

void import_average_pool(NodeContext& node) {
  Attrs attrs = window_attributes(node, false, true);
  attrs.set("count_include_pad", node.flag("count_include_pad", false));
  const auto pool = [&](Value* x) { return node.emit(Op::average_pool_, {x}, std::move(attrs)); };
  set_quantized(node, pooled(node, dequantized(node, 0), node.flag("channels_last", false), pool), 3, node.dtype());
}

void import_global_average_pool(NodeContext& node) {
  const auto pool = [&](Value* x) { return node.emit(Op::global_average_pool_, {x}); };
  set_quantized(node, pooled(node, dequantized(node, 0), node.flag("channels_last", false), pool), 3, node.dtype());
}

/// The largest of integers is that of their numbers.
void import_nhwc_max_pool(NodeContext& node) {
  Attrs attrs = window_attributes(node, true, true);
  attrs.set("storage_order", int64_t{0});
  const auto pool = [&](Value* x) { return node.build().emit_node(Op::max_pool_, {x}, std::move(attrs), 1)->result(); };
  node.result(Op::identity_, {pooled(node, node.in(0), true, pool)});
}

// ---- products

/// The product of integers that have zero points, in i32.
Value* integer_product(NodeContext& node, Value* a, Value* a_zero, Value* b, Value* b_zero) {
  std::vector<Value*> operands{a, b};
  if (a_zero != nullptr || b_zero != nullptr) operands.push_back(a_zero);
  if (b_zero != nullptr) operands.push_back(b_zero);
  return node.emit(Op::matmul_integer_, std::move(operands));
}

/// y = alpha * scale of a * scale of b * (a b + c), as floats without a scale of y.
void import_gemm(NodeContext& node) {
  Arithmetic m(node);
  const double alpha = node.number("alpha", 1);
  Value* a = node.flag("transA", false) ? m.transpose(node.in(0), {1, 0}) : node.in(0);
  Value* b = node.flag("transB", false) ? m.transpose(node.in(3), {1, 0}) : node.in(3);
  Value* sum = integer_product(node, a, node.maybe(2), b, node.maybe(5));
  if (node.has(6)) sum = m.add(sum, node.in(6));
  Value* unit = m.mul(node.in(1), node.in(4));
  if (alpha != 1) unit = m.scale(alpha, unit);
  Value* y = m.mul(m.cast(sum, node.dtype(1)), unit);
  if (!node.has(7)) return node.result(Op::identity_, {y});
  set_quantized(node, y, 7, node.has(8) ? node.dtype(8) : node.dtype());
}

/// What is added to the scores: a number far below them where a key is masked. [batch] counts the keys that are valid, [batch, keys] has 1 for each.
Value* mask_term(NodeContext& node, Arithmetic& m, int operand, Value* keys, double filter) {
  const int64_t rank = node.rank(operand);
  if (rank != 1 && rank != 2)
    node.refuse("unsupported-attribute", "`mask_index` has rank " + std::to_string(rank) + ", lowered are 1 and 2");
  Value* mask = node.in(operand);
  Value* kept = nullptr;
  if (rank == 1) {
    Value* key = m.count_to(m.scalar(m.size(keys, 2)));
    kept = m.unsqueeze(node.emit(Op::lt_, {key, m.unsqueeze(m.cast(mask, DType::i64), {1})}), {1, 2});
  } else {
    kept = m.unsqueeze(node.emit(Op::gt_, {mask, m.number(mask->type.dtype, 0)}), {1, 2});
  }
  const DType dtype = keys->type.dtype;
  return m.select(kept, m.number(dtype, 0), m.number(dtype, filter));
}

/// [length of the queries, keys]: what is ahead of a query is masked.
Value* causal_term(NodeContext& node, Arithmetic& m, Value* queries, Value* keys, double filter) {
  Value* key = m.count_to(m.scalar(m.size(keys, 2)));
  Value* position = m.unsqueeze(m.count_to(m.scalar(m.size(queries, 2))), {1});
  position = m.add(position, m.sub(m.size(keys, 2), m.size(queries, 2)));  // behind the past
  const DType dtype = keys->type.dtype;
  return m.select(node.emit(Op::le_, {key, position}), m.number(dtype, 0), m.number(dtype, filter));
}

/// input [batch, length, size] by weight [size, 3 * hidden]: queries, keys and values of all heads, in floats. A sum of integers may be beyond f16.
std::array<Value*, 3> projections(NodeContext& node, Arithmetic& m, int64_t heads) {
  Value* sum = integer_product(node, node.in(0), node.maybe(6), node.in(1), node.maybe(7));
  Value* unit = m.mul(m.cast(node.in(3), DType::f32), m.cast(node.in(4), DType::f32));
  Value* whole = m.add(m.mul(m.cast(sum, DType::f32), unit), m.cast(node.in(2), DType::f32));
  whole = m.cast(whole, node.dtype(3));
  Node* parts = node.build().emit_node(Op::dynamic_split_, {whole}, {{"axis", int64_t{2}}, {"num_outputs", int64_t{3}}}, 3);
  std::array<Value*, 3> all{};
  for (int i = 0; i < 3; ++i) {
    Value* split = m.reshape(parts->result(i), node.ints({0, 0, heads, -1}, "split_heads"));
    all[static_cast<size_t>(i)] = m.transpose(split, {0, 2, 1, 3});
  }
  return all;
}

void import_attention(NodeContext& node) {
  Arithmetic m(node);
  const int64_t heads = node.integer("num_heads");
  const double filter = node.number("mask_filter_value", -10000);
  for (const char* name : {"do_rotary", "past_present_share_buffer"}) {
    if (node.flag(name, false)) node.refuse("unsupported-attribute", "`" + std::string(name) + "` is 1, lowered is 0");
  }
  auto [q, k, v] = projections(node, m, heads);
  if (node.has(8)) {  // [2, batch, heads, length, size]
    Node* past = node.build().emit_node(Op::dynamic_split_, {node.in(8)}, {{"axis", int64_t{0}}, {"num_outputs", int64_t{2}}}, 2);
    const auto behind = [&](int i, Value* x) {
      Value* before = node.emit(Op::dynamic_squeeze_, {past->result(i), node.ints({0}, "first_axis")});
      return m.join({before, x}, 2);
    };
    k = behind(0, k);
    v = behind(1, v);
  }
  node.set(1, m.join({m.unsqueeze(k, {0}), m.unsqueeze(v, {0})}, 0));
  Value* scores = node.emit(Op::matmul_, {q, m.transpose(k, {0, 1, 3, 2})});
  if (node.has_attribute("scale")) {
    scores = m.scale(node.number("scale", 1), scores);
  } else {
    scores = m.div(scores, m.sqrt(m.cast(m.scalar(m.size(q, 3)), scores->type.dtype)));
  }
  if (node.has(5)) scores = m.add(scores, mask_term(node, m, 5, k, filter));
  if (node.flag("unidirectional", false)) scores = m.add(scores, causal_term(node, m, q, k, filter));
  Value* y = node.emit(Op::matmul_, {node.emit(Op::softmax_, {scores}, {{"axis", int64_t{-1}}}), v});
  node.result(Op::dynamic_reshape_, {m.transpose(y, {0, 2, 1, 3}), node.ints({0, 0, -1}, "merged")}, {{"allowzero", false}});
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"com.microsoft", "NhwcMaxPool", import_nhwc_max_pool},
    {"com.microsoft", "QAttention", import_attention},
    {"com.microsoft", "QGemm", import_gemm},
    {"com.microsoft", "QLinearAdd", import_binary<Op::add_>},
    {"com.microsoft", "QLinearAveragePool", import_average_pool},
    {"com.microsoft", "QLinearConcat", import_concat},
    {"com.microsoft", "QLinearGlobalAveragePool", import_global_average_pool},
    {"com.microsoft", "QLinearLeakyRelu", import_leaky_relu},
    {"com.microsoft", "QLinearMul", import_binary<Op::mul_>},
    {"com.microsoft", "QLinearSigmoid", import_sigmoid},
    {"com.microsoft", "QLinearSoftmax", import_softmax},
    {"com.microsoft", "QLinearWhere", import_where},
});

}  // namespace

std::span<const Handler> quantized_contrib_handlers() { return kHandlers; }

}  // namespace tcc::onnx
