// Layers of language models that carry a state from call to call: LinearAttention, whose recurrence is unrolled over the length, and CausalConvWithState.
#include <array>
#include <cmath>

#include "frontend/onnx/arithmetic.h"
#include "frontend/onnx/handlers.h"
#include "tcc/rules/limits.h"

namespace tcc::onnx {
namespace {

/// The shape of an operand of rank 3.
Shape shape_of(NodeContext& node, int i, const char* name) {
  const Type type = node.type_of(node.in(i));
  if (!type.is_static()) node.refuse("unknown-value", "the shape of `" + std::string(name) + "` is not known: " + to_string(type));
  if (type.rank() != 3) node.refuse("type-error", "`" + std::string(name) + "` is " + to_string(type) + ", rank 3 was expected");
  return type.shape();
}

[[noreturn]] void unfit(NodeContext& node, const char* name, const Shape& found, const std::string& expected) {
  node.refuse("type-error", "`" + std::string(name) + "` has the shape " + to_string(found) + ", expected is " + expected);
}

// S is the state [batch, heads, key size, value size], in f32 or wider:
//
//   S = exp(g) S          where the rule is gated
//   v = b (v - S' k)      where it is a delta rule
//   S = S + k v';  o = scale q' S
class LinearAttention {
 public:
  explicit LinearAttention(NodeContext& node) : node_(node), m_(node) {
    const std::string rule = node.text("update_rule", "gated_delta");
    is_gated_ = rule == "gated" || rule == "gated_delta";
    is_delta_ = rule == "delta" || rule == "gated_delta";
    if (rule != "linear" && !is_gated_ && !is_delta_)
      node.refuse("unsupported-attribute", "`update_rule` is `" + rule + "`, linear, gated, delta and gated_delta are known");
    node.ignore("chunk_size");  // how the recurrence is computed, not what it is
    check_presence(4, "decay", is_gated_, rule);
    check_presence(5, "beta", is_delta_, rule);
    read_shapes();
  }

  void run() {
    const DType dtype = node_.dtype();
    const double given = node_.number("scale", 0), scale = given == 0 ? 1 / std::sqrt(static_cast<double>(key_size_)) : given;
    Value* query = m_.scale(scale, wide_heads(0, {batch_, length_, heads_, query_heads_ / heads_, key_size_}));
    Value* key = wide_heads(1, {batch_, length_, heads_, key_size_, 1});
    Value* value = wide_heads(2, {batch_, length_, heads_, 1, value_size_});
    Value* decay = is_gated_ ? node_.emit(Op::exp_, {wide_heads(4, {batch_, length_, heads_, decay_size_, 1})}) : nullptr;
    Value* beta = is_delta_ ? wide_heads(5, {batch_, length_, beta_heads_, 1, 1}) : nullptr;
    Value* state = node_.has(3) ? m_.cast(node_.in(3), compute_dtype(node_.dtype(3)))
                                : node_.build().full(compute_dtype(dtype), {batch_, heads_, key_size_, value_size_}, 0);
    state = m_.cast(state, query->type.dtype);
    std::vector<Value*> outputs;
    for (int64_t i = 0; i < length_; ++i) {
      Value *k = m_.element(key, i, 1), *v = m_.element(value, i, 1);
      if (is_gated_) state = m_.mul(state, m_.element(decay, i, 1));
      if (is_delta_) v = m_.mul(m_.element(beta, i, 1), m_.sub(v, product(m_.transpose(k, {0, 1, 3, 2}), state)));
      state = m_.add(state, m_.mul(k, v));
      outputs.push_back(product(m_.element(query, i, 1), state));  // [batch, heads, queries of each, value size]
    }
    Value* all = m_.stacked(outputs, 1);
    node_.set(0, m_.cast(m_.reshaped(all, {batch_, length_, query_heads_ * value_size_}), dtype));
    node_.set(1, m_.cast(state, node_.has(3) ? node_.dtype(3) : dtype));
  }

 private:
  void check_presence(int i, const char* name, bool is_needed, const std::string& rule) {
    if (node_.has(i) == is_needed) return;
    node_.refuse("malformed-file", "`" + std::string(name) + "` is " + (is_needed ? "missing" : "there") + ", where `update_rule` is `" +
                                       rule + "` it must " + (is_needed ? "be there" : "not be"));
  }

  void read_shapes() {
    query_heads_ = node_.integer("q_num_heads");
    heads_ = node_.integer("kv_num_heads");
    if (heads_ < 1 || query_heads_ < 1 || query_heads_ % heads_ != 0)
      node_.refuse("type-error", "`q_num_heads` is " + std::to_string(query_heads_) + ", a multiple of `kv_num_heads` (" +
                                     std::to_string(heads_) + ") was expected");
    const Shape query = shape_of(node_, 0, "query"), key = shape_of(node_, 1, "key"), value = shape_of(node_, 2, "value");
    batch_ = query[0];
    length_ = query[1];
    key_size_ = query[2] / query_heads_;
    value_size_ = value[2] / heads_;
    if (query[2] != query_heads_ * key_size_) unfit(node_, "query", query, "a last axis that the heads divide");
    if (key != Shape{batch_, length_, heads_ * key_size_}) unfit(node_, "key", key, to_string(Shape{batch_, length_, heads_ * key_size_}));
    if (value != Shape{batch_, length_, heads_ * value_size_})
      unfit(node_, "value", value, "[" + std::to_string(batch_) + ", " + std::to_string(length_) + ", heads * size]");
    if (length_ < 1 || length_ > kMaxMadeNodes)
      node_.refuse("too-complex", "LinearAttention over a length of " + std::to_string(length_) + " is unrolled, 1 to " +
                                      std::to_string(kMaxMadeNodes) + " steps are possible");
    if (is_gated_) {
      const Shape decay = shape_of(node_, 4, "decay");
      decay_size_ = decay[2] == heads_ ? 1 : key_size_;
      if (decay != Shape{batch_, length_, heads_ * decay_size_})
        unfit(node_, "decay", decay, to_string(Shape{batch_, length_, heads_ * key_size_}));
    }
    if (is_delta_) {
      const Shape beta = shape_of(node_, 5, "beta");
      beta_heads_ = beta[2] == 1 ? 1 : heads_;
      if (beta != Shape{batch_, length_, beta_heads_}) unfit(node_, "beta", beta, to_string(Shape{batch_, length_, heads_}));
    }
    if (!node_.has(3)) return;
    const Type state = node_.type_of(node_.in(3));
    if (!state.is_static() || state.shape() != Shape{batch_, heads_, key_size_, value_size_})
      node_.refuse("type-error", "`past_state` is " + to_string(state) + ", expected is the shape " +
                                     to_string(Shape{batch_, heads_, key_size_, value_size_}));
  }

  Value* wide_heads(int i, const Shape& shape) { return m_.reshaped(m_.cast(node_.in(i), compute_dtype(node_.dtype(i))), shape); }
  Value* product(Value* a, Value* b) { return node_.emit(Op::matmul_, {a, b}); }

  NodeContext& node_;
  Arithmetic m_;
  bool is_gated_ = false, is_delta_ = false;
  int64_t query_heads_ = 0, heads_ = 0, batch_ = 0, length_ = 0, key_size_ = 0, value_size_ = 0, decay_size_ = 0, beta_heads_ = 0;
};

void import_linear_attention(NodeContext& node) { LinearAttention(node).run(); }

/// A convolution of each channel with what came before: the state, or zeros, stands in front of the input. Its end is the next state.
void import_causal_conv(NodeContext& node) {
  Arithmetic m(node);
  const std::string activation = node.text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    node.refuse("unsupported-attribute", "`activation` is `" + activation + "`, none, silu and swish are known");
  const Shape input = shape_of(node, 0, "input"), weight = shape_of(node, 1, "weight");
  const int64_t channels = input[1], window = weight[2];
  if (weight != Shape{channels, 1, window} || window < 1) unfit(node, "weight", weight, "[" + std::to_string(channels) + ", 1, size]");
  const Shape state{input[0], channels, window - 1};
  if (node.has(3) && shape_of(node, 3, "past_state") != state) unfit(node, "past_state", shape_of(node, 3, "past_state"), to_string(state));
  Value* past = node.has(3) ? node.in(3) : node.build().full(node.dtype(), state, 0);
  Value* padded = m.join({past, node.in(0)}, 2);
  std::vector<Value*> operands{padded, node.in(1)};
  if (node.has(2)) operands.push_back(node.in(2));
  Value* y = node.emit(Op::conv_, std::move(operands),
                       {{"strides", std::vector<int64_t>()},
                        {"dilations", std::vector<int64_t>()},
                        {"pads", std::vector<int64_t>()},
                        {"groups", channels},
                        {"auto_pad", std::string("NOTSET")},
                        {"kernel", std::vector<int64_t>()}});
  node.set(0, activation == "none" ? y : node.emit(Op::silu_, {y}));
  node.set(1, m.part(padded, input[2], input[2] + window - 1, 2));
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "CausalConvWithState", import_causal_conv},
    {"", "LinearAttention", import_linear_attention},
});

}  // namespace

std::span<const Handler> stateful_handlers() { return kHandlers; }

}  // namespace tcc::onnx
