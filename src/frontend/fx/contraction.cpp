// Products: linear layers, matrices, convolutions, attention.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "frontend/fx/arguments.h"
#include "frontend/fx/handlers.h"
#include "frontend/fx/images.h"

namespace tcc::fx {

namespace {

size_t at(int64_t axis) { return static_cast<size_t>(axis); }

/// x @ weight^T + bias
void import_linear(Call& call) {
  Value *x = call.in("input"), *weight = call.in("weight"), *bias = call.maybe("bias");
  if (x->type.rank() == 2 && weight->type.rank() == 2) {
    std::vector<Value*> operands{x, weight};
    if (bias != nullptr) operands.push_back(bias);
    call.result(call.emit(Op::gemm_, operands, {{"alpha", 1.0}, {"beta", 1.0}, {"transpose_a", false}, {"transpose_b", true}}));
    return;
  }
  Value* turned = weight->type.rank() == 2 ? call.build().transpose(weight, {1, 0}) : weight;
  Value* y = call.emit(Op::matmul_, {x, turned});
  call.result(bias == nullptr ? y : call.build().add(y, bias));
}

template <int second_name> void import_matmul(Call& call) {
  constexpr std::array<const char*, 4> kNames = {"other", "mat2", "vec", "tensor"};
  call.result(call.emit(Op::matmul_, {call.in("self"), call.in(kNames[second_name])}));
}

/// beta * self + alpha * (a @ b). With beta 0 `self` counts for nothing, NaN or not.
void add_product(Call& call, const char* a, const char* b) {
  Value* product = call.emit(Op::matmul_, {call.in(a), call.in(b)});
  const DType dtype = product->type.dtype;
  const Number alpha = call.scalar("alpha"), beta = call.scalar("beta");
  if (to_double(alpha) != 1) product = call.build().mul(product, call.constant(dtype, alpha));
  if (to_double(beta) == 0) return call.result(product);
  Value* bias = call.in("self");
  if (to_double(beta) != 1) bias = call.build().mul(bias, call.constant(dtype, beta));
  call.result(call.build().add(bias, product));
}

void import_addmm(Call& call) { add_product(call, "mat1", "mat2"); }
void import_baddbmm(Call& call) { add_product(call, "batch1", "batch2"); }
void import_addmv(Call& call) { add_product(call, "mat", "vec"); }

void import_outer(Call& call) {
  Value *a = call.in("self"), *b = call.in("vec2");
  call.result(call.build().mul(call.build().reshape(a, {a->type.dims[0].bound, 1}), b));
}

void import_einsum(Call& call) {
  std::string equation = call.text("equation");
  std::erase(equation, ' ');
  call.result(call.emit(Op::einsum_, call.tensors("tensors"), {{"equation", equation}}));
}

// ---- convolutions

struct ConvForm {
  bool transposed = false;
  std::string auto_pad = "NOTSET";
  std::vector<int64_t> padding, output_padding;
};

void convolve(Call& call, const ConvForm& form) {
  Value *weight = call.in("weight"), *bias = call.maybe("bias");
  const size_t spatial = at(weight->type.rank()) - 2;
  const Image image = with_batch(call, "input", spatial);
  std::vector<Value*> operands{image.x, weight};
  if (bias != nullptr) operands.push_back(bias);
  Attrs attrs{{"strides", call.per_axis("stride", spatial)},
              {"dilations", call.per_axis("dilation", spatial)},
              {"pads", form.auto_pad == "NOTSET" ? both_sides(form.padding) : std::vector<int64_t>()},
              {"groups", call.integer("groups")},
              {"auto_pad", form.auto_pad},
              {"kernel", std::vector<int64_t>()}};
  if (form.transposed) {
    attrs.set("output_padding", form.output_padding);
    attrs.set("output_shape", std::vector<int64_t>());
  }
  Value* y = call.emit(form.transposed ? Op::conv_transpose_ : Op::conv_, operands, std::move(attrs));
  call.result(without_batch(call, y, image.added));
}

size_t spatial_of(Call& call) {
  const int rank = call.in("weight")->type.rank();
  if (rank < 3) Call::refuse("type-error", "a convolution's weight is " + to_string(call.in("weight")->type));
  return at(rank) - 2;
}

void import_conv(Call& call) { convolve(call, {.padding = call.per_axis("padding", spatial_of(call))}); }

/// `padding` as a word: 'valid', or 'same', where an odd pad is one larger behind.
void import_conv_padding(Call& call) {
  const std::string padding = call.text("padding");
  if (padding != "same" && padding != "valid") Call::refuse("unsupported-attribute", "`padding` is '" + padding + "'");
  convolve(call, {.auto_pad = padding == "same" ? "SAME_UPPER" : "VALID"});
}

void import_conv_transpose(Call& call) {
  const size_t spatial = spatial_of(call);
  convolve(call,
           {.transposed = true, .padding = call.per_axis("padding", spatial), .output_padding = call.per_axis("output_padding", spatial)});
}

void import_convolution(Call& call) {
  const size_t spatial = spatial_of(call);
  convolve(call, {.transposed = call.flag("transposed"),
                  .padding = call.per_axis("padding", spatial),
                  .output_padding = call.per_axis("output_padding", spatial)});
}

// ---- attention

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

/// softmax(q k^T * scale + mask) v; a row in which all is masked gives zeros. Queries and keys are scaled by the root each, so that products of
/// 16-bit floats don't overflow.
void import_attention(Call& call) {
  Builder& b = call.build();
  Value *q = call.in("query"), *k = call.in("key"), *v = call.in("value"), *mask = call.maybe("attn_mask");
  if (call.number("dropout_p") != 0)
    Call::refuse("unsupported-attribute", "`dropout_p` is " + std::to_string(call.number("dropout_p")) + ", lowered is 0");
  const DType dtype = q->type.dtype;
  const Shape shape = shape_of(q);
  if (shape.size() < 2) Call::refuse("type-error", "attention of " + to_string(q->type) + ", [..., length, size] was expected");
  if (call.flag("enable_gqa") && shape.size() > 2) {
    k = repeat_heads(b, k, shape[shape.size() - 3]);
    v = repeat_heads(b, v, shape[shape.size() - 3]);
  }
  const double scale = call.maybe_number("scale").value_or(1 / std::sqrt(static_cast<double>(shape.back())));
  const double root = std::sqrt(std::abs(scale));
  std::vector<int64_t> turned(at(k->type.rank()));
  for (size_t i = 0; i < turned.size(); ++i) turned[i] = static_cast<int64_t>(i);
  std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
  Value* scores =
      call.emit(Op::matmul_, {b.binary(Op::mul_, q, scale < 0 ? -root : root), b.transpose(b.binary(Op::mul_, k, root), turned)});

  constexpr double kInf = std::numeric_limits<double>::infinity();
  Value* allowed = nullptr;  // what is not stays out
  if (call.flag("is_causal")) {
    const Shape all = shape_of(scores);
    const Shape square{all[all.size() - 2], all.back()};
    allowed = b.binary(Op::le_, b.iota(DType::i64, square, 1), b.iota(DType::i64, square, 0));
  }
  if (mask != nullptr && mask->type.dtype == DType::boolean) {
    allowed = allowed == nullptr ? mask : b.binary(Op::and_, allowed, mask);
  } else if (mask != nullptr) {
    scores = b.add(scores, b.cast(mask, dtype));
  }
  if (allowed != nullptr) scores = b.select(allowed, scores, b.full(dtype, {}, -kInf));
  Value* weights = call.emit(Op::softmax_, {scores}, {{"axis", int64_t{-1}}});
  if (allowed != nullptr || mask != nullptr) {
    Value* largest = b.reduce_keep(Op::reduce_max_, scores, {scores->type.rank() - 1});
    Value* nothing = b.binary(Op::eq_, largest, b.full(dtype, {}, -kInf));
    weights = b.select(nothing, b.full(dtype, {}, 0), weights);
  }
  call.result(call.emit(Op::matmul_, {weights, v}));
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"linear.default(input, weight, bias=None)", import_linear},
    {"matmul.default(self, other)", import_matmul<0>},
    {"mm.default(self, mat2)", import_matmul<1>},
    {"bmm.default(self, mat2)", import_matmul<1>},
    {"mv.default(self, vec)", import_matmul<2>},
    {"dot.default(self, tensor)", import_matmul<3>},
    {"outer.default(self, vec2)", import_outer},
    {"addmm.default(self, mat1, mat2, beta=1, alpha=1)", import_addmm},
    {"baddbmm.default(self, batch1, batch2, beta=1, alpha=1)", import_baddbmm},
    {"addmv.default(self, mat, vec, beta=1, alpha=1)", import_addmv},
    {"einsum.default(equation, tensors, path=None)", import_einsum},
    {"conv1d.default(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1)", import_conv},
    {"conv2d.default(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1)", import_conv},
    {"conv3d.default(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1)", import_conv},
    {"conv1d.padding(input, weight, bias=None, stride=1, padding='valid', dilation=1, groups=1)", import_conv_padding},
    {"conv2d.padding(input, weight, bias=None, stride=1, padding='valid', dilation=1, groups=1)", import_conv_padding},
    {"conv3d.padding(input, weight, bias=None, stride=1, padding='valid', dilation=1, groups=1)", import_conv_padding},
    {"conv_transpose1d.default(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1)",
     import_conv_transpose},
    {"conv_transpose2d.input(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1)",
     import_conv_transpose},
    {"conv_transpose3d.input(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1)",
     import_conv_transpose},
    {"convolution.default(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)", import_convolution},
    {"scaled_dot_product_attention.default(query, key, value, attn_mask=None, dropout_p=0, is_causal=False, scale=None, enable_gqa=False)",
     import_attention},
});

}  // namespace

std::span<const Handler> contraction_handlers() { return kHandlers; }

}  // namespace tcc::fx
