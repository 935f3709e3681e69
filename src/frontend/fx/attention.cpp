// Attention, as one operator for all devices and in the forms that each device has: these return the logarithm of the sum of exponentials of each row
// too, for their backward forms, and states of random generators and lengths of packed sequences that nothing here reads.
#include <array>
#include <cmath>
#include <limits>

#include "frontend/fx/arguments.h"
#include "frontend/fx/handlers.h"
#include "frontend/fx/rebuilt.h"

namespace tcc::fx {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// Each head of k and v serves as many of q as there are more of them: [h0, h0, h1, h1, ...].
Value* repeat_heads(Builder& b, Value* x, int64_t heads) {
  Shape shape = shape_of(x);
  const size_t axis = shape.size() - 3;
  if (shape[axis] == heads || shape[axis] == 0) return x;
  if (heads % shape[axis] != 0)
    Call::refuse("type-error", std::to_string(heads) + " heads of queries share " + std::to_string(shape[axis]) + " of keys");
  const int64_t times = heads / shape[axis];
  Shape apart = shape, repeated;
  apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(axis) + 1, 1);
  repeated = apart;
  repeated[axis + 1] = times;
  shape[axis] = fx::times(shape[axis], times);
  return b.reshape(b.broadcast_to(b.reshape(x, apart), repeated), shape);
}

struct Attention {
  Value *q, *k, *v, *mask;
  bool is_causal, groups_heads;
};

struct Attended {
  Value *result, *scores;  ///< scores: those that softmax is of
};

std::vector<int64_t> with_last_turned(const Value* x) {
  std::vector<int64_t> order(static_cast<size_t>(x->type.rank()));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return order;
}

/// Which keys a query sees, where not all: null for all.
Value* allowed_of(Builder& b, const Attention& a, const Value* scores) {
  Value* allowed = nullptr;
  if (a.is_causal) {
    const Shape all = shape_of(scores);
    const Shape square{all[all.size() - 2], all.back()};
    allowed = b.binary(Op::le_, b.iota(DType::i64, square, 1), b.iota(DType::i64, square, 0));
  }
  if (a.mask == nullptr || a.mask->type.dtype != DType::boolean) return allowed;
  return allowed == nullptr ? a.mask : b.binary(Op::and_, allowed, a.mask);
}

/// softmax(q k^T * scale + mask) v; a row in which all is masked gives zeros. Queries and keys are scaled by the root each, so that products of
/// 16-bit floats don't overflow.
Attended attend(Call& call, Attention a) {
  Builder& b = call.build();
  const DType dtype = a.q->type.dtype;
  const Shape shape = shape_of(a.q);
  if (shape.size() < 2 || a.k->type.rank() < 2)
    Call::refuse("type-error", "attention of " + to_string(a.q->type) + ", [..., length, size] was expected");
  if (call.number("dropout_p") != 0)
    Call::refuse("unsupported-attribute", "`dropout_p` is " + std::to_string(call.number("dropout_p")) + ", lowered is 0");
  if (a.groups_heads && shape.size() > 2 && a.k->type.rank() > 2 && a.v->type.rank() > 2) {
    a.k = repeat_heads(b, a.k, shape[shape.size() - 3]);
    a.v = repeat_heads(b, a.v, shape[shape.size() - 3]);
  }
  const double scale = call.maybe_number("scale").value_or(1 / std::sqrt(static_cast<double>(shape.back())));
  const double root = std::sqrt(std::abs(scale));
  Value* turned = b.transpose(b.binary(Op::mul_, a.k, root), with_last_turned(a.k));
  Value* scores = call.emit(Op::matmul_, {b.binary(Op::mul_, a.q, scale < 0 ? -root : root), turned});
  if (a.mask != nullptr && a.mask->type.dtype != DType::boolean) scores = b.add(scores, b.cast(a.mask, dtype));
  Value* allowed = allowed_of(b, a, scores);
  if (allowed != nullptr) scores = b.select(allowed, scores, b.full(dtype, {}, -kInf));
  Value* weights = call.emit(Op::softmax_, {scores}, {{"axis", int64_t{-1}}});
  if (allowed != nullptr || a.mask != nullptr) {
    Value* largest = b.reduce_keep(Op::reduce_max_, scores, {scores->type.rank() - 1});
    Value* nothing = b.binary(Op::eq_, largest, b.full(dtype, {}, -kInf));
    weights = b.select(nothing, b.full(dtype, {}, 0), weights);
  }
  return {call.emit(Op::matmul_, {weights, a.v}), scores};
}

/// Heads are grouped where the argument says so; forms without it group them where their numbers differ.
Attention read_attention(Call& call, std::string_view mask) {
  Attention a{call.in("query"), call.in("key"), call.in("value"), mask.empty() ? nullptr : call.maybe(mask), call.flag("is_causal"), false};
  const Shape q = shape_of(a.q), k = shape_of(a.k);
  a.groups_heads = q.size() > 2 && k.size() == q.size() && q[q.size() - 3] != k[k.size() - 3];
  return a;
}

void import_attention(Call& call) {
  Attention a = read_attention(call, "attn_mask");
  a.groups_heads = call.flag("enable_gqa");
  call.result(attend(call, a).result);
}

/// In f32 or wider, [batch, heads, length], or as the program declares it: padded behind, or with a last axis of one.
Value* log_sum_of(Call& call, Value* scores) {
  Builder& b = call.build();
  Value* wide = size_bits(scores->type.dtype) < 32 ? b.cast(scores, DType::f32) : scores;
  Value* sum =
      call.emit(Op::reduce_, {wide}, {{"op", "log_sum_exp"}, {"axes", std::vector<int64_t>{scores->type.rank() - 1}}, {"keepdims", false}});
  const auto declared = call.declared(1);
  if (!declared || declared->shape() == shape_of(sum)) return sum;
  const Shape want = declared->shape(), have = shape_of(sum);
  if (num_elements(want) == num_elements(have)) return b.reshape(sum, want);
  if (want.size() == have.size() && !want.empty() && want.back() >= have.back()) {
    std::vector<int64_t> low(want.size(), 0), high = low;
    for (size_t i = 0; i < want.size(); ++i) high[i] = want[i] - have[i];
    if (*std::min_element(high.begin(), high.end()) >= 0) return b.pad(sum, b.full(sum->type.dtype, {}, 0), low, high);
  }
  return call.filler(1, sum->type);  // not computed
}

/// The result, the logarithms, and `num_fillers` results more that only the device's own backward form reads.
template <Text mask, size_t num_fillers> void import_attention_with_sums(Call& call) {
  const Attended attended = attend(call, read_attention(call, mask.value));
  std::vector<Value*> results{attended.result, log_sum_of(call, attended.scores)};
  for (size_t i = 0; i < num_fillers; ++i) results.push_back(call.filler(results.size(), Type(DType::i64, {})));
  call.results(results);
}

// ---- backward forms

/// The forms differ in how they name the gradient and the mask. Of queries, keys and values, and of the mask where `mask_gradient` says so.
void attention_backward(Call& call, std::string_view gradient, std::string_view mask, bool mask_gradient) {
  const Attention a = read_attention(call, mask);
  Rebuilt forward(call, "scaled_dot_product_attention.default");
  forward.set("enable_gqa", Argument{a.groups_heads});
  if (a.mask != nullptr) forward.set("attn_mask", a.mask);
  std::vector<std::string> of{"query", "key", "value"};
  if (mask_gradient) of.emplace_back("attn_mask");
  std::vector<Value*> gradients = forward.gradients({{0, call.in(gradient)}}, of);
  gradients.resize(4, nullptr);
  call.results(gradients);
}

template <Text mask> void import_attention_backward(Call& call) { attention_backward(call, "grad_out", mask.value, false); }

void import_efficient_attention_backward(Call& call) {
  const std::vector<int64_t> wanted = call.integers("grad_input_mask");
  attention_backward(call, "grad_out_", "attn_bias", wanted.size() > 3 && wanted[3] != 0 && call.has("attn_bias"));
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"scaled_dot_product_attention.default(query, key, value, attn_mask=None, dropout_p=0, is_causal=False, scale=None, enable_gqa=False)",
     import_attention},
    {"_scaled_dot_product_flash_attention_for_cpu.default(query, key, value, dropout_p=0, is_causal=False, attn_mask=None, scale=None)",
     import_attention_with_sums<"attn_mask", 0>},
    {"_scaled_dot_product_flash_attention.default(query, key, value, dropout_p=0, is_causal=False, return_debug_mask=False, scale=None)",
     import_attention_with_sums<"", 7>},
    {"_scaled_dot_product_efficient_attention.default(query, key, value, attn_bias, compute_log_sumexp, dropout_p=0, is_causal=False, "
     "scale=None)",
     import_attention_with_sums<"attn_bias", 2>},
    {"_scaled_dot_product_cudnn_attention.default(query, key, value, attn_bias, compute_log_sumexp, dropout_p=0, is_causal=False, "
     "return_debug_mask=False, scale=None)",
     import_attention_with_sums<"attn_bias", 7>},
    {"_scaled_dot_product_flash_attention_for_cpu_backward.default(grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, "
     "attn_mask=None, scale=None)",
     import_attention_backward<"attn_mask">},
    {"_scaled_dot_product_flash_attention_backward.default(grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, "
     "max_k, "
     "dropout_p, is_causal, philox_seed, philox_offset, scale=None)",
     import_attention_backward<"">},
    {"_scaled_dot_product_efficient_attention_backward.default(grad_out_, query, key, value, attn_bias, out, logsumexp, philox_seed, "
     "philox_offset, dropout_p, grad_input_mask, is_causal=False, scale=None)",
     import_efficient_attention_backward},
    {"_scaled_dot_product_cudnn_attention_backward.default(grad_out, query, key, value, out, logsumexp, philox_seed, philox_offset, "
     "attn_bias, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal, scale=None)",
     import_attention_backward<"attn_bias">},
});

}  // namespace

std::span<const Handler> attention_handlers() { return kHandlers; }

}  // namespace tcc::fx
