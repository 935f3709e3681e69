// Backward forms of activations, views, convolutions, pools and images: each is the rule of the operator that it is of (rebuilt.h). Those of norms,
// losses and attention stand beside their operators.
#include "frontend/fx/arguments.h"
#include "frontend/fx/handlers.h"
#include "frontend/fx/rebuilt.h"

namespace tcc::fx {

namespace {

// ---- activations

/// What is saved is the result.
template <Text op> void import_from_result(Call& call) {
  Value* y = call.in("output");
  Rebuilt forward(call, op.value);
  forward.set_unread("self", y->type);
  forward.save(0, y);
  call.results(forward.gradients({{0, call.in("grad_output")}}, {"self"}));
}

/// Of the result or of the operand: the result is that of elu without its scale, times that.
void import_elu_backward(Call& call) {
  Builder& b = call.build();
  Value *gradient = call.in("grad_output"), *saved = call.in("self_or_result");
  const double scale = call.number("scale");
  Rebuilt forward(call, "elu.default");
  if (!call.flag("is_result")) {
    forward.set("self", saved);
  } else {
    forward.set("scale", Argument{1.0});
    forward.set_unread("self", saved->type);
    if (scale != 1) gradient = b.binary(Op::mul_, gradient, scale);
    forward.save(0, scale == 1 ? saved : b.binary(Op::div_, saved, scale));
  }
  call.results(forward.gradients({{0, gradient}}, {"self"}));
}

/// The weight has been spread over the operand, and so is its gradient.
void import_prelu_backward(Call& call) {
  Rebuilt forward(call, "_prelu_kernel.default");
  forward.set("weight", call.build().broadcast_to(call.in("weight"), shape_of(call.in("self"))));
  call.results(forward.gradients({{0, call.in("grad_output")}}, {"self", "weight"}));
}

void import_hardshrink_backward(Call& call) {
  Rebuilt forward(call, "hardshrink.default");
  call.results(forward.gradients({{0, call.in("grad_out")}}, {"self"}));
}

/// All below or at the threshold is constant, whatever it becomes.
void import_threshold_backward(Call& call) {
  Rebuilt forward(call, "threshold.default");
  forward.set("value", Argument{0.0});
  call.results(forward.gradients({{0, call.in("grad_output")}}, {"self"}));
}

void import_dropout_backward(Call& call) {
  Builder& b = call.build();
  Value* gradient = call.in("grad_output");
  Value* kept = b.select(call.in("mask"), gradient, call.constant(gradient->type.dtype, 0.0));
  call.result(b.binary(Op::mul_, kept, call.number("scale")));
}

// ---- operators that read their operand's shape only

/// `shape`: the argument that holds it, `name`: the operand. The dtype is the gradient's.
template <Text op, Text name, Text shape> void import_of_shape(Call& call) {
  Value* gradient = call.in("grad_output");
  Rebuilt forward(call, op.value);
  forward.set_unread(name.value, Type(gradient->type.dtype, call.integers(shape.value)));
  call.results(forward.gradients({{0, gradient}}, {name.value}));
}

void import_unfold_backward(Call& call) {
  Value* gradient = call.in("grad_in");
  Rebuilt forward(call, "unfold.default");
  forward.set_unread("self", Type(gradient->type.dtype, call.integers("input_sizes")));
  forward.set("dimension", Argument{call.integer("dim")});
  call.results(forward.gradients({{0, gradient}}, {"self"}));
}

void import_embedding_backward(Call& call) {
  Value* gradient = call.in("grad_output");
  if (gradient->type.rank() == 0) Call::refuse("type-error", "the gradient of an embedding is " + to_string(gradient->type));
  if (call.flag("scale_grad_by_freq")) Call::refuse("unsupported-attribute", "`scale_grad_by_freq` is True, lowered is False");
  Rebuilt forward(call, "embedding.default");
  forward.set_unread("weight", Type(gradient->type.dtype, {call.integer("num_weights"), shape_of(gradient).back()}));
  call.results(forward.gradients({{0, gradient}}, {"weight"}));
}

template <Text op, size_t spatial> void import_adaptive_pool_backward(Call& call) {
  const Shape shape = shape_of(call.in("grad_output"));
  if (shape.size() < spatial) Call::refuse("type-error", "the gradient of a pool is " + to_string(call.in("grad_output")->type));
  std::vector<Argument> sizes;
  for (size_t i = shape.size() - spatial; i < shape.size(); ++i) sizes.push_back({shape[i]});
  Rebuilt forward(call, op.value);
  forward.set("output_size", Argument{sizes});
  call.results(forward.gradients({{0, call.in("grad_output")}}, {"self"}));
}

// ---- convolutions, and all else whose mask says which gradients are wanted

void import_convolution_backward(Call& call) {
  Value *gradient = call.in("grad_output"), *weight = call.in("weight");
  Rebuilt forward(call, "convolution.default");
  if (weight->type.rank() < 3) Call::refuse("type-error", "a convolution's weight is " + to_string(weight->type));
  const Shape weights = shape_of(weight);
  const int64_t channels = call.flag("transposed") ? times(weights[1], call.integer("groups")) : weights[0];
  forward.set_unread("bias", Type(weight->type.dtype, {channels}));
  call.results(forward.gradients({{0, gradient}}, {"input", "weight", "bias"}, call.integers("output_mask")));
}

void import_linear_backward(Call& call) {
  Rebuilt forward(call, "linear.default");
  forward.set("input", call.in("self"));
  const Value* weight = call.in("weight");
  if (weight->type.rank() == 0) Call::refuse("type-error", "the weight of a linear layer is " + to_string(weight->type));
  forward.set_unread("bias", Type(weight->type.dtype, {shape_of(weight)[0]}));
  call.results(forward.gradients({{0, call.in("grad_output")}}, {"input", "weight", "bias"}, call.integers("output_mask")));
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"threshold_backward.default(grad_output, self, threshold)", import_threshold_backward},
    {"gelu_backward.default(grad_output, self, approximate='none')", import_backward<"gelu.default", "self">},
    {"silu_backward.default(grad_output, self)", import_backward<"silu.default", "self">},
    {"mish_backward.default(grad_output, self)", import_backward<"mish.default", "self">},
    {"hardswish_backward.default(grad_output, self)", import_backward<"hardswish.default", "self">},
    {"hardsigmoid_backward.default(grad_output, self)", import_backward<"hardsigmoid.default", "self">},
    {"hardtanh_backward.default(grad_output, self, min_val, max_val)", import_backward<"hardtanh.default", "self">},
    {"hardshrink_backward.default(grad_out, self, lambd)", import_hardshrink_backward},
    {"softshrink_backward.default(grad_output, self, lambd)", import_backward<"softshrink.default", "self">},
    {"softplus_backward.default(grad_output, self, beta, threshold)", import_backward<"softplus.default", "self">},
    {"logit_backward.default(grad_output, self, eps=None)", import_backward<"logit.default", "self">},
    {"log_sigmoid_backward.default(grad_output, self, buffer)", import_backward<"log_sigmoid.default", "self">},
    {"glu_backward.default(grad_output, self, dim)", import_backward<"glu.default", "self">},
    // Of the sign of the result there is that of the operand, and more the rule doesn't read.
    {"leaky_relu_backward.default(grad_output, self, negative_slope, self_is_result)", import_backward<"leaky_relu.default", "self">},
    {"elu_backward.default(grad_output, alpha, scale, input_scale, is_result, self_or_result)", import_elu_backward},
    {"_prelu_kernel_backward.default(grad_output, self, weight)", import_prelu_backward},
    {"sigmoid_backward.default(grad_output, output)", import_from_result<"sigmoid.default">},
    {"tanh_backward.default(grad_output, output)", import_from_result<"tanh.default">},
    {"native_dropout_backward.default(grad_output, mask, scale)", import_dropout_backward},
    {"select_backward.default(grad_output, input_sizes, dim, index)", import_of_shape<"select.int", "self", "input_sizes">},
    {"slice_backward.default(grad_output, input_sizes, dim, start, end, step)", import_of_shape<"slice.Tensor", "self", "input_sizes">},
    {"diagonal_backward.default(grad_output, input_sizes, offset, dim1, dim2)", import_of_shape<"diagonal.default", "self", "input_sizes">},
    {"unfold_backward.default(grad_in, input_sizes, dim, size, step)", import_unfold_backward},
    {"embedding_dense_backward.default(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)", import_embedding_backward},
    {"convolution_backward.default(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, "
     "output_mask)",
     import_convolution_backward},
    {"linear_backward.default(self, grad_output, weight, output_mask)", import_linear_backward},
    {"max_pool2d_with_indices_backward.default(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices)",
     import_backward<"max_pool2d_with_indices.default", "self">},
    {"max_pool3d_with_indices_backward.default(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices)",
     import_backward<"max_pool3d_with_indices.default", "self">},
    {"avg_pool2d_backward.default(grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)",
     import_backward<"avg_pool2d.default", "self">},
    {"avg_pool3d_backward.default(grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)",
     import_backward<"avg_pool3d.default", "self">},
    {"_adaptive_avg_pool2d_backward.default(grad_output, self)", import_adaptive_pool_backward<"_adaptive_avg_pool2d.default", 2>},
    {"_adaptive_avg_pool3d_backward.default(grad_output, self)", import_adaptive_pool_backward<"_adaptive_avg_pool3d.default", 3>},
    {"reflection_pad1d_backward.default(grad_output, self, padding)", import_backward<"reflection_pad1d.default", "self">},
    {"reflection_pad2d_backward.default(grad_output, self, padding)", import_backward<"reflection_pad2d.default", "self">},
    {"reflection_pad3d_backward.default(grad_output, self, padding)", import_backward<"reflection_pad3d.default", "self">},
    {"replication_pad1d_backward.default(grad_output, self, padding)", import_backward<"replication_pad1d.default", "self">},
    {"replication_pad2d_backward.default(grad_output, self, padding)", import_backward<"replication_pad2d.default", "self">},
    {"replication_pad3d_backward.default(grad_output, self, padding)", import_backward<"replication_pad3d.default", "self">},
    {"upsample_nearest1d_backward.default(grad_output, output_size, input_size, scales=None)",
     import_of_shape<"upsample_nearest1d.default", "self", "input_size">},
    {"upsample_nearest2d_backward.default(grad_output, output_size, input_size, scales_h=None, scales_w=None)",
     import_of_shape<"upsample_nearest2d.default", "self", "input_size">},
    {"upsample_nearest3d_backward.default(grad_output, output_size, input_size, scales_d=None, scales_h=None, scales_w=None)",
     import_of_shape<"upsample_nearest3d.default", "self", "input_size">},
    {"_upsample_nearest_exact1d_backward.default(grad_output, output_size, input_size, scales=None)",
     import_of_shape<"_upsample_nearest_exact1d.default", "self", "input_size">},
    {"_upsample_nearest_exact2d_backward.default(grad_output, output_size, input_size, scales_h=None, scales_w=None)",
     import_of_shape<"_upsample_nearest_exact2d.default", "self", "input_size">},
    {"upsample_linear1d_backward.default(grad_output, output_size, input_size, align_corners, scales=None)",
     import_of_shape<"upsample_linear1d.default", "self", "input_size">},
    {"upsample_bilinear2d_backward.default(grad_output, output_size, input_size, align_corners, scales_h=None, scales_w=None)",
     import_of_shape<"upsample_bilinear2d.default", "self", "input_size">},
    {"upsample_trilinear3d_backward.default(grad_output, output_size, input_size, align_corners, scales_d=None, scales_h=None, "
     "scales_w=None)",
     import_of_shape<"upsample_trilinear3d.default", "self", "input_size">},
    {"upsample_bicubic2d_backward.default(grad_output, output_size, input_size, align_corners, scales_h=None, scales_w=None)",
     import_of_shape<"upsample_bicubic2d.default", "self", "input_size">},
    {"_upsample_bilinear2d_aa_backward.default(grad_output, output_size, input_size, align_corners, scales_h=None, scales_w=None)",
     import_of_shape<"_upsample_bilinear2d_aa.default", "self", "input_size">},
    {"_upsample_bicubic2d_aa_backward.default(grad_output, output_size, input_size, align_corners, scales_h=None, scales_w=None)",
     import_of_shape<"_upsample_bicubic2d_aa.default", "self", "input_size">},
});

}  // namespace

std::span<const Handler> backward_handlers() { return kHandlers; }

}  // namespace tcc::fx
