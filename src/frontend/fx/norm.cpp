// Normalisations and softmax. Batch norms are in batch_norm.cpp.
#include <algorithm>
#include <array>
#include <limits>

#include "frontend/fx/handlers.h"
#include "frontend/fx/norms.h"
#include "frontend/fx/rebuilt.h"

namespace tcc::fx {

namespace {

Value* ones(Call& call, DType dtype, const Shape& shape) { return call.constant(dtype, 1.0, shape); }
Value* zeros(Call& call, DType dtype, const Shape& shape) { return call.constant(dtype, 0.0, shape); }

/// The axis from which on `normalized_shape` reaches.
int64_t first_axis(Call& call, const Value* x) {
  const std::vector<int64_t> shape = call.integers("normalized_shape");
  const Shape found = shape_of(x);
  if (shape.empty() || shape.size() > found.size() || !std::equal(shape.rbegin(), shape.rend(), found.rbegin())) {
    Call::refuse("type-error",
                 "`normalized_shape` is " + to_string(std::span<const int64_t>(shape)) + ", the tensor is " + to_string(x->type));
  }
  return static_cast<int64_t>(found.size() - shape.size());
}

Node* layer_norm(Call& call, int num_results) {
  Value *x = call.in("input"), *scale = call.maybe("weight"), *bias = call.maybe("bias");
  const int64_t axis = first_axis(call, x);
  if (scale == nullptr) scale = ones(call, x->type.dtype, call.integers("normalized_shape"));
  std::vector<Value*> operands{x, scale};
  if (bias != nullptr) operands.push_back(bias);
  return call.build().emit_node(Op::layer_norm_, operands, {{"axis", axis}, {"epsilon", call.number("eps")}}, num_results);
}

void import_layer_norm(Call& call) { call.result(layer_norm(call, 1)->result()); }

/// The statistics, after the result 0.
void results_with_statistics(Call& call, const Node* node, int first) {
  std::vector<Value*> results{node->result(0)};
  for (int i = first; i < static_cast<int>(node->results.size()); ++i) results.push_back(call.as_declared(results.size(), node->result(i)));
  call.results(results);
}

void import_native_layer_norm(Call& call) { results_with_statistics(call, layer_norm(call, 3), 1); }

Node* rms_norm(Call& call, std::string_view scale_name, int num_results) {
  Value *x = call.in("input"), *scale = call.maybe(scale_name);
  const int64_t axis = first_axis(call, x);
  if (scale == nullptr) scale = ones(call, x->type.dtype, call.integers("normalized_shape"));
  // Without eps: the smallest step of the dtype above 1.
  const double smallest = x->type.dtype == DType::f64    ? 0x1p-52
                          : x->type.dtype == DType::f16  ? 0x1p-10
                          : x->type.dtype == DType::bf16 ? 0x1p-7
                                                         : 0x1p-23;
  return call.build().emit_node(Op::rms_norm_, {x, scale}, {{"axis", axis}, {"epsilon", call.maybe_number("eps").value_or(smallest)}},
                                num_results);
}

void import_rms_norm(Call& call) { call.result(rms_norm(call, "weight", 1)->result()); }
void import_fused_rms_norm(Call& call) { results_with_statistics(call, rms_norm(call, "weight", 2), 1); }

Node* group_norm(Call& call, int64_t groups, int num_results) {
  Value *x = call.in("input"), *scale = call.maybe("weight"), *bias = call.maybe("bias");
  if (x->type.rank() < 2) Call::refuse("type-error", "group norm of " + to_string(x->type) + ", [batch, channels, ...] was expected");
  const Shape channels{x->type.dims[1].bound};
  if (scale == nullptr) scale = ones(call, x->type.dtype, channels);
  if (bias == nullptr) bias = zeros(call, x->type.dtype, channels);
  return call.build().emit_node(Op::group_norm_, {x, scale, bias}, {{"epsilon", call.number("eps")}, {"num_groups", groups}}, num_results);
}

void import_group_norm(Call& call) { call.result(group_norm(call, call.integer("num_groups"), 1)->result()); }
void import_native_group_norm(Call& call) { results_with_statistics(call, group_norm(call, call.integer("group"), 3), 1); }

// ---- backward forms

void import_layer_norm_backward(Call& call) {
  Rebuilt forward(call, "native_layer_norm.default");
  forward.set("eps", Argument{0.0});  // what it went into is saved
  forward.save(1, call.in("mean"));
  forward.save(2, call.in("rstd"));
  std::vector<int64_t> mask = mask_of(call, 3);
  if (!call.has("bias")) mask[2] = 0;
  call.results(forward.gradients({{0, call.in("grad_out")}}, {"input", "weight", "bias"}, mask));
}

void import_rms_norm_backward(Call& call) {
  Rebuilt forward(call, "_fused_rms_norm.default");
  forward.set("eps", Argument{0.0});
  forward.save(1, call.in("rstd"));
  call.results(forward.gradients({{0, call.in("grad_out")}}, {"input", "weight"}, mask_of(call, 2)));
}

void import_group_norm_backward(Call& call) {
  Rebuilt forward(call, "native_group_norm.default");
  forward.set("eps", Argument{0.0});
  forward.set_unread("bias", channels_of(call));
  forward.save(1, call.in("mean"));
  forward.save(2, call.in("rstd"));
  call.results(forward.gradients({{0, call.in("grad_out")}}, {"input", "weight", "bias"}, mask_of(call, 3)));
}

/// What is saved is the result.
template <Text op> void import_softmax_backward(Call& call) {
  Value* y = call.in("output");
  if (y->type.rank() == 0) return call.result(call.filler(0, y->type));  // of one element: 1 whatever it is
  const DType dtype = call.maybe_dtype("input_dtype").value_or(y->type.dtype);
  Rebuilt forward(call, op.value);
  forward.set_unread("self", Type(dtype, shape_of(y)));
  forward.set("half_to_float", Argument{dtype != y->type.dtype});
  forward.save(0, y);
  call.results(forward.gradients({{0, call.in("grad_output")}}, {"self"}));
}

/// v scaled so that the norm of each of its slices along `dim` is g's.
void import_weight_norm(Call& call) {
  Value *v = call.in("v"), *g = call.in("g");
  const int64_t given = call.integer("dim"), axis = given == -1 ? -1 : Call::axis_of(given, v->type.rank());
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < v->type.rank(); ++i) {
    if (i != axis) axes.push_back(i);
  }
  Value* norm = call.emit(Op::reduce_, {v}, {{"op", "l2"}, {"axes", axes}, {"keepdims", true}});
  call.result(call.build().mul(v, call.build().div(g, norm)));
}

template <Op op> void softmax(Call& call, Value* x) {
  if (x->type.rank() == 0) {
    call.result(call.build().reshape(call.emit(op, {call.build().reshape(x, {1})}, {{"axis", int64_t{0}}}), {}));
    return;
  }
  call.result(call.emit(op, {x}, {{"axis", call.axis("dim", x)}}));
}

template <Op op> void import_softmax(Call& call) { softmax<op>(call, call.to_dtype(call.in("self"), call.maybe_dtype("dtype"))); }

/// `half_to_float`: f16 in, f32 out.
template <Op op> void import_native_softmax(Call& call) {
  softmax<op>(call, call.flag("half_to_float") ? call.build().cast(call.in("self"), DType::f32) : call.in("self"));
}

/// A row of negative infinities gives zeros.
void import_safe_softmax(Call& call) {
  Value* x = call.to_dtype(call.in("self"), call.maybe_dtype("dtype"));
  softmax<Op::softmax_>(call, x);
  if (x->type.rank() == 0) return;
  Builder& b = call.build();
  Value* lowest = call.constant(x->type.dtype, -std::numeric_limits<double>::infinity());
  Value* nothing = b.binary(Op::eq_, b.reduce_keep(Op::reduce_max_, x, {call.axis("dim", x)}), lowest);
  call.result(b.select(nothing, call.constant(x->type.dtype, 0.0), call.result_at(0)));
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"layer_norm.default(input, normalized_shape, weight=None, bias=None, eps=1e-05, cudnn_enable=True)", import_layer_norm},
    {"native_layer_norm.default(input, normalized_shape, weight, bias, eps)", import_native_layer_norm},
    {"rms_norm.default(input, normalized_shape, weight=None, eps=None)", import_rms_norm},
    {"group_norm.default(input, num_groups, weight=None, bias=None, eps=1e-05, cudnn_enabled=True)", import_group_norm},
    {"native_group_norm.default(input, weight, bias, N, C, HxW, group, eps)", import_native_group_norm},
    {"_fused_rms_norm.default(input, normalized_shape, weight, eps)", import_fused_rms_norm},
    {"native_layer_norm_backward.default(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)",
     import_layer_norm_backward},
    {"_fused_rms_norm_backward.default(grad_out, input, normalized_shape, rstd, weight, output_mask)", import_rms_norm_backward},
    {"native_group_norm_backward.default(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask)", import_group_norm_backward},
    {"_weight_norm.default(v, g, dim=0)", import_weight_norm},
    {"softmax.int(self, dim, dtype=None)", import_softmax<Op::softmax_>},
    {"log_softmax.int(self, dim, dtype=None)", import_softmax<Op::log_softmax_>},
    {"_softmax.default(self, dim, half_to_float)", import_native_softmax<Op::softmax_>},
    {"_log_softmax.default(self, dim, half_to_float)", import_native_softmax<Op::log_softmax_>},
    {"_safe_softmax.default(self, dim, dtype=None)", import_safe_softmax},
    {"_softmax_backward_data.default(grad_output, output, dim, input_dtype)", import_softmax_backward<"_softmax.default">},
    {"_log_softmax_backward_data.default(grad_output, output, dim, input_dtype)", import_softmax_backward<"_log_softmax.default">},
});

}  // namespace

std::span<const Handler> norm_handlers() { return kHandlers; }

}  // namespace tcc::fx
