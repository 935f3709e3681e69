// Products: linear layers, matrices, convolutions.
#include <algorithm>
#include <array>

#include "frontend/fx/arguments.h"
#include "frontend/fx/handlers.h"
#include "frontend/fx/images.h"

namespace tcc::fx {

namespace {

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

constexpr auto kHandlers = std::to_array<Handler>({
    {"linear.default(input, weight, bias=None)", import_linear},
    {"matmul.default(self, other)", import_matmul<0>},
    {"mm.default(self, mat2)", import_matmul<1>},
    {"bmm.default(self, mat2)", import_matmul<1>},
    {"mv.default(self, vec)", import_matmul<2>},
    {"dot.default(self, tensor)", import_matmul<3>},
    {"vdot.default(self, other)", import_matmul<0>},
    {"outer.default(self, vec2)", import_outer},
    {"ger.default(self, vec2)", import_outer},
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
});

}  // namespace

std::span<const Handler> contraction_handlers() { return kHandlers; }

}  // namespace tcc::fx
