// Attention and rotary positions, expanded to products and softmax. Inputs are [batch, heads, length, size], or [batch, length, heads * size] with
// the number of heads as an attribute; that attribute says which, so that ranks need not be known yet.
//
//   scores = softcap(q * sqrt(scale) x (k * sqrt(scale))^T) + bias;   y = softmax(scores) x v
//   bias: -inf where a boolean mask, causality, the window or the number of valid keys forbids; plus a float mask
// A row in which everything is forbidden gives zeros.
#include <array>
#include <cmath>
#include <limits>

#include "frontend/onnx/arithmetic.h"
#include "frontend/onnx/handlers.h"

namespace tcc::onnx {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// [batch, length, heads * size] -> [batch, heads, length, size]
Value* split_heads(NodeContext& node, Arithmetic& m, Value* x, int64_t heads) {
  return m.transpose(m.reshape(x, node.ints({0, 0, heads, -1}, "split_" + std::to_string(heads))), {0, 2, 1, 3});
}

/// Each head of k or v serves as many heads of q as there are more of them: [h0, h0, h1, h1, ...].
Value* repeat_heads(NodeContext& node, Arithmetic& m, Value* x, Value* q) {
  const Type &from = x->type, &to = q->type;
  if (from.ranked && to.ranked && from.rank() == 4 && to.rank() == 4 && from.dims[1].is_constant() && from.dims[1] == to.dims[1]) return x;
  Value* heads = m.size(q, 1);
  Value* one = node.ints({1}, "one");
  Value* repeats = m.join({one, one, m.div(heads, m.size(x, 1)), one, one}, 0);
  Value* repeated = node.emit(Op::dynamic_expand_, {m.unsqueeze(x, {2}), repeats});
  return m.reshape(repeated, m.join({m.size(x, 0), heads, m.size(x, 2), m.size(x, 3)}, 0));
}

/// sqrt(scale): the attribute, or 1 / sqrt(size of a head).
Value* root_of_scale(NodeContext& node, Arithmetic& m, Value* q) {
  const DType dtype = q->type.dtype;
  if (node.has_attribute("scale")) return m.number(dtype, std::sqrt(node.number("scale", 1)));
  if (q->type.ranked && q->type.rank() == 4 && q->type.dims[3].is_constant()) {
    return m.number(dtype, 1 / std::sqrt(std::sqrt(static_cast<double>(q->type.dims[3].bound))));
  }
  Value* size = m.cast(m.scalar(m.size(q, 3)), DType::f32);
  return m.cast(node.emit(Op::recip_, {m.sqrt(m.sqrt(size))}), dtype);
}

/// A mask may be shorter than the keys: what it doesn't reach is forbidden.
Value* pad_mask(NodeContext& node, Arithmetic& m, Value* mask, Value* k) {
  if (mask->type.ranked && k->type.ranked && k->type.rank() == 4 && mask->type.dims.back().is_constant() &&
      mask->type.dims.back() == k->type.dims[2])
    return mask;
  const bool is_bool = mask->type.dtype == DType::boolean;
  Value* last = node.ints({-1}, "last");
  Value* length = node.emit(Op::gather_, {m.shape(mask), last}, {{"axis", int64_t{0}}});
  Value* pads = m.join({node.ints({0}, "zero"), m.sub(m.size(k, 2), length)}, 0);
  Value* value = is_bool ? node.build().full_int(DType::boolean, {}, 0) : m.number(mask->type.dtype, -kInf);
  return node.emit(Op::dynamic_pad_, {mask, pads, value, last}, {{"mode", std::string("constant")}});
}

void import_attention(NodeContext& node) {
  Arithmetic m(node);
  Value *q = node.in(0), *k = node.in(1), *v = node.in(2);
  const DType dtype = q->type.dtype;
  const int64_t q_heads = node.integer("q_num_heads", 0), kv_heads = node.integer("kv_num_heads", 0);
  const bool causal = node.flag("is_causal", false);
  const double softcap = node.number("softcap", 0);
  const int64_t output_mode = node.integer("qk_matmul_output_mode", 0);
  const int64_t left = node.opset() >= 25 ? node.integer("left_window_size", -1) : -1,
                right = node.opset() >= 25 ? node.integer("right_window_size", -1) : -1;
  const DType softmax_dtype = node.integer("softmax_precision", 0) != 0 ? node.dtype_attribute("softmax_precision") : dtype;
  Value *past_key = node.maybe(4), *past_value = node.maybe(5), *valid = node.opset() >= 24 ? node.maybe(6) : nullptr;
  if ((past_key == nullptr) != (past_value == nullptr)) node.refuse("malformed-file", "one of `past_key` and `past_value` is missing");

  const bool packed = q_heads != 0;
  if (packed) {
    if (kv_heads == 0) node.refuse("malformed-file", "attribute `kv_num_heads` is missing");
    q = split_heads(node, m, q, q_heads);
    k = split_heads(node, m, k, kv_heads);
    v = split_heads(node, m, v, kv_heads);
  }
  Value* root = root_of_scale(node, m, q);
  if (past_key != nullptr) {
    k = m.join({past_key, k}, 2);
    v = m.join({past_value, v}, 2);
  }
  node.set(1, k);
  node.set(2, v);

  // ---- what is added to the scores
  Value* bias = nullptr;
  const auto forbid_unless = [&](Value* allowed) {
    Value* term = m.select(allowed, m.number(dtype, 0), m.number(dtype, -kInf));
    bias = bias == nullptr ? term : m.add(bias, term);
  };
  if (Value* mask = node.maybe(3)) {
    mask = pad_mask(node, m, mask, k);
    if (mask->type.dtype == DType::boolean) forbid_unless(mask);
    else bias = mask;
  }
  if (causal || left >= 0 || right >= 0) {
    Value* length = m.scalar(m.size(q, 2));
    Value* position = m.unsqueeze(m.count_to(length), {1});  // of each query among the keys
    if (past_key != nullptr) position = m.add(position, m.size(past_key, 2));
    else if (valid != nullptr) position = m.add(position, m.unsqueeze(m.sub(m.cast(valid, DType::i64), length), {1, 2, 3}));
    Value* key = m.count_to(m.scalar(m.size(k, 2)));
    if (causal) forbid_unless(node.emit(Op::le_, {key, position}));
    if (left >= 0) forbid_unless(node.emit(Op::ge_, {key, m.sub(position, m.number(DType::i64, static_cast<double>(left)))}));
    if (right >= 0) forbid_unless(node.emit(Op::le_, {key, m.add(position, m.number(DType::i64, static_cast<double>(right)))}));
  }
  if (valid != nullptr) {
    Value* key = m.count_to(m.scalar(m.size(k, 2)));
    forbid_unless(node.emit(Op::lt_, {key, m.unsqueeze(m.cast(valid, DType::i64), {1, 2, 3})}));
  }

  // ---- scores, weights, sum
  k = repeat_heads(node, m, k, q);
  v = repeat_heads(node, m, v, q);
  Value* scores = node.emit(Op::matmul_, {m.mul(q, root), m.transpose(m.mul(k, root), {0, 1, 3, 2})});
  if (output_mode == 0) node.set(3, scores);
  if (softcap > 0) scores = m.scale(softcap, node.emit(Op::tanh_, {m.scale(1 / softcap, scores)}));
  if (output_mode == 1) node.set(3, scores);
  if (bias != nullptr) scores = m.add(scores, bias);
  if (output_mode == 2) node.set(3, scores);
  Value* weights = node.emit(Op::softmax_, {m.cast(scores, softmax_dtype)}, {{"axis", int64_t{-1}}});
  if (bias != nullptr) {
    // A row of -inf has no softmax (NaN); its largest score tells it apart.
    Value* largest = node.emit(Op::dynamic_reduce_, {scores, node.ints({-1}, "last")},
                               {{"op", std::string("max")}, {"keepdims", true}, {"noop_with_empty_axes", false}});
    Value* nothing = node.emit(Op::eq_, {largest, m.number(dtype, -kInf)});
    weights = m.select(nothing, m.number(softmax_dtype, 0), weights);
  }
  weights = m.cast(weights, dtype);
  if (output_mode == 3) node.set(3, weights);
  if (!packed) return node.result(Op::matmul_, {weights, v});
  Value* y = m.transpose(node.emit(Op::matmul_, {weights, v}), {0, 2, 1, 3});
  node.result(Op::dynamic_reshape_, {y, node.ints({0, 0, -1}, "merged")}, {{"allowzero", false}});
}

/// The scores or weights after a graph of the model has changed them; what it returns is of the same type.
Value* modified(NodeContext& node, const char* attribute, Value* x) {
  if (!node.has_attribute(attribute)) return x;
  const std::vector<Value*> made =
      node.inline_subgraph(node.graph(attribute), {.operands = {x}, .step = std::nullopt, .predicate = nullptr, .taken = true});
  if (made.size() != 1)
    node.refuse("malformed-file", "graph `" + std::string(attribute) + "` has " + std::to_string(made.size()) + " outputs, 1 was expected");
  const Type before = node.type_of(x), after = node.type_of(made[0]);
  if (before.is_static() && after != before)
    node.refuse("type-error", "graph `" + std::string(attribute) + "` makes " + to_string(after) + " of " + to_string(before) +
                                  ": the same type was expected");
  return made[0];
}

/// Attention with graphs of the model between its steps, without masks of its own. Operands are [batch, heads, length, size].
void import_flex_attention(NodeContext& node) {
  Arithmetic m(node);
  Value *q = node.in(0), *k = node.in(1), *v = node.in(2);
  for (int i = 0; i < 3; ++i) {
    if (node.rank(i) != 4)
      node.refuse("type-error", "operand " + std::to_string(i) + " is " + to_string(node.type_of(node.in(i))) + ", rank 4 was expected");
  }
  const DType dtype = q->type.dtype;
  const DType softmax_dtype = node.has_attribute("softmax_precision") ? node.dtype_attribute("softmax_precision") : compute_dtype(dtype);
  if (!is_float(softmax_dtype))
    node.refuse("unsupported-attribute", "`softmax_precision` is " + std::string(name_of(softmax_dtype)) + ", a float was expected");
  const DType result_dtype = v->type.dtype;
  Value* root = root_of_scale(node, m, q);
  k = repeat_heads(node, m, k, q);
  v = repeat_heads(node, m, v, q);
  Value* scores = m.cast(node.emit(Op::matmul_, {m.mul(q, root), m.transpose(m.mul(k, root), {0, 1, 3, 2})}), softmax_dtype);
  Value* weights = node.emit(Op::softmax_, {modified(node, "score_mod", scores)}, {{"axis", int64_t{-1}}});
  weights = modified(node, "prob_mod", weights);
  node.set(0, m.cast(node.emit(Op::matmul_, {weights, m.cast(v, softmax_dtype)}), result_dtype));
}

/// The elements of the last axis from `start` on, `step` apart, below `end`.
Value* slice_last(NodeContext& node, Value* x, int64_t start, int64_t end, int64_t step) {
  const std::string name = "slice_" + std::to_string(start);
  return node.emit(Op::dynamic_slice_, {x, node.ints({start}, name + "_start"), node.ints({end}, name + "_end"), node.ints({-1}, "last"),
                                        node.ints({step}, name + "_step")});
}

/// Pairs (x1, x2) of the last axis are turned by an angle per position: halves of it, or neighbours when `interleaved`.
void import_rotary(NodeContext& node) {
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  Arithmetic m(node);
  const int64_t heads = node.integer("num_heads", 0), size = node.integer("rotary_embedding_dim", 0);
  const bool interleaved = node.flag("interleaved", false);
  const Type type = node.type_of(node.in(0));
  const bool packed = type.ranked ? type.rank() == 3 : heads != 0;
  if (packed && heads == 0) node.refuse("malformed-file", "attribute `num_heads` is missing");
  Value* x = packed ? split_heads(node, m, node.in(0), heads) : node.in(0);

  const auto table = [&](int i) {  // [batch, 1, length, size / 2]
    Value* angles = node.has(3) ? node.emit(Op::gather_, {node.in(i), node.in(3)}, {{"axis", int64_t{0}}}) : node.in(i);
    return m.unsqueeze(angles, {1});
  };
  Value *cosine = table(1), *sine = table(2);
  Value* turned = size == 0 ? x : slice_last(node, x, 0, size, 1);
  Value *x1 = nullptr, *x2 = nullptr;
  if (interleaved) {
    x1 = slice_last(node, turned, 0, kEnd, 2);
    x2 = slice_last(node, turned, 1, kEnd, 2);
  } else {
    Node* halves = node.build().emit_node(Op::dynamic_split_, {turned}, {{"axis", int64_t{3}}, {"num_outputs", int64_t{2}}}, 2);
    x1 = halves->result(0);
    x2 = halves->result(1);
  }
  Value* real = m.sub(m.mul(cosine, x1), m.mul(sine, x2));
  Value* imaginary = m.add(m.mul(sine, x1), m.mul(cosine, x2));
  Value* y = interleaved ? m.reshape(m.join({m.unsqueeze(real, {4}), m.unsqueeze(imaginary, {4})}, 4), m.shape(turned))
                         : m.join({real, imaginary}, 3);
  if (size != 0) y = m.join({y, slice_last(node, x, size, kEnd, 1)}, 3);
  if (!packed) return node.result(Op::identity_, {y});
  node.result(Op::dynamic_reshape_, {m.transpose(y, {0, 2, 1, 3}), m.shape(node.in(0))}, {{"allowzero", false}});
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "Attention", import_attention},
    {"", "RotaryEmbedding", import_rotary},
    {"ai.onnx.preview", "FlexAttention", import_flex_attention},
});

}  // namespace

std::span<const Handler> attention_handlers() { return kHandlers; }

}  // namespace tcc::onnx
