// Normalisations and softmax.
#include <algorithm>
#include <array>

#include "frontend/fx/handlers.h"

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

void import_native_layer_norm(Call& call) {
  const Node* node = layer_norm(call, 3);
  call.results({node->result(0), node->result(1), node->result(2)});
}

void import_rms_norm(Call& call) {
  Value *x = call.in("input"), *scale = call.maybe("weight");
  const int64_t axis = first_axis(call, x);
  if (scale == nullptr) scale = ones(call, x->type.dtype, call.integers("normalized_shape"));
  // Without eps: the smallest step of the dtype above 1.
  const double smallest = x->type.dtype == DType::f64    ? 0x1p-52
                          : x->type.dtype == DType::f16  ? 0x1p-10
                          : x->type.dtype == DType::bf16 ? 0x1p-7
                                                         : 0x1p-23;
  call.result(call.emit(Op::rms_norm_, {x, scale}, {{"axis", axis}, {"epsilon", call.maybe_number("eps").value_or(smallest)}}));
}

void group_norm(Call& call, int64_t groups) {
  Value *x = call.in("input"), *scale = call.maybe("weight"), *bias = call.maybe("bias");
  const Shape channels{x->type.dims[1].bound};
  if (scale == nullptr) scale = ones(call, x->type.dtype, channels);
  if (bias == nullptr) bias = zeros(call, x->type.dtype, channels);
  call.result(call.emit(Op::group_norm_, {x, scale, bias}, {{"epsilon", call.number("eps")}, {"num_groups", groups}}));
}

void import_group_norm(Call& call) { group_norm(call, call.integer("num_groups")); }

/// With the mean and the inverse deviation of each group, [batch, groups].
void import_native_group_norm(Call& call) {
  group_norm(call, call.integer("group"));
  Value* y = call.result_at(0);
  Value* x = call.in("input");
  Builder& b = call.build();
  const Shape groups{x->type.dims[0].bound, call.integer("group")};
  const int64_t count = groups[0] * groups[1] == 0 ? 0 : x->type.count() / (groups[0] * groups[1]);
  Value* flat = b.reshape(x, {groups[0], groups[1], count});
  const auto mean_of = [&](Value* value, bool keep) {
    return call.emit(Op::reduce_, {value}, {{"op", "mean"}, {"axes", std::vector<int64_t>{2}}, {"keepdims", keep}});
  };
  Value* centred = b.sub(flat, mean_of(flat, true));
  Value* variance = mean_of(b.mul(centred, centred), false);
  call.results({y, mean_of(flat, false), call.emit(Op::rsqrt_, {b.binary(Op::add_, variance, call.number("eps"))})});
}

/// Evaluation form: by the running statistics.
Value* batch_norm(Call& call) {
  Value *x = call.in("input"), *scale = call.maybe("weight"), *bias = call.maybe("bias");
  if (x->type.rank() < 2) Call::refuse("type-error", "batch norm of " + to_string(x->type) + ", [batch, channels, ...] was expected");
  const Shape channels{x->type.dims[1].bound};
  if (scale == nullptr) scale = ones(call, x->type.dtype, channels);
  if (bias == nullptr) bias = zeros(call, x->type.dtype, channels);
  return call.emit(Op::batch_norm_, {x, scale, bias, call.in("running_mean"), call.in("running_var")}, {{"epsilon", call.number("eps")}});
}

void import_batch_norm(Call& call) {
  if (call.flag("training"))
    Call::refuse("unsupported-attribute",
                 "`training` is True: the program changes its running statistics; export the model after model.eval()");
  call.result(batch_norm(call));
}

/// The last two results, statistics of the batch, are empty in evaluation form.
void import_batch_norm_no_training(Call& call) {
  Value* y = batch_norm(call);
  call.results({y, zeros(call, y->type.dtype, {0}), zeros(call, y->type.dtype, {0})});
}

/// By the statistics of the batch, and no running ones: y, mean, inverse deviation.
void import_batch_norm_no_stats(Call& call) {
  Builder& b = call.build();
  Value *x = call.in("input"), *scale = call.maybe("weight"), *bias = call.maybe("bias");
  if (!call.flag("training")) Call::refuse("unsupported-attribute", "`training` is False, and there are no running statistics");
  std::vector<int64_t> axes{0};
  Shape own(static_cast<size_t>(x->type.rank()), 1);
  for (int64_t axis = 2; axis < x->type.rank(); ++axis) axes.push_back(axis);
  own[1] = x->type.dims[1].bound;
  const auto mean_of = [&](Value* value) { return call.emit(Op::reduce_, {value}, {{"op", "mean"}, {"axes", axes}, {"keepdims", true}}); };
  Value* mean = mean_of(x);
  Value* centred = b.sub(x, mean);
  Value* inverse = call.emit(Op::rsqrt_, {b.binary(Op::add_, mean_of(b.mul(centred, centred)), call.number("eps"))});
  Value* y = b.mul(centred, inverse);
  if (scale != nullptr) y = b.mul(y, b.reshape(scale, own));
  if (bias != nullptr) y = b.add(y, b.reshape(bias, own));
  call.results({y, b.reshape(mean, {own[1]}), b.reshape(inverse, {own[1]})});
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

void import_instance_norm(Call& call) {
  if (!call.flag("use_input_stats")) Call::refuse("unsupported-attribute", "`use_input_stats` is False, lowered is True");
  Value *x = call.in("input"), *scale = call.maybe("weight"), *bias = call.maybe("bias");
  const Shape channels{x->type.dims[1].bound};
  if (scale == nullptr) scale = ones(call, x->type.dtype, channels);
  if (bias == nullptr) bias = zeros(call, x->type.dtype, channels);
  call.result(call.emit(Op::instance_norm_, {x, scale, bias}, {{"epsilon", call.number("eps")}}));
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

constexpr auto kHandlers = std::to_array<Handler>({
    {"layer_norm.default(input, normalized_shape, weight=None, bias=None, eps=1e-05, cudnn_enable=True)", import_layer_norm},
    {"native_layer_norm.default(input, normalized_shape, weight, bias, eps)", import_native_layer_norm},
    {"rms_norm.default(input, normalized_shape, weight=None, eps=None)", import_rms_norm},
    {"group_norm.default(input, num_groups, weight=None, bias=None, eps=1e-05, cudnn_enabled=True)", import_group_norm},
    {"native_group_norm.default(input, weight, bias, N, C, HxW, group, eps)", import_native_group_norm},
    {"batch_norm.default(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled)", import_batch_norm},
    {"_native_batch_norm_legit_no_training.default(input, weight, bias, running_mean, running_var, momentum, eps)",
     import_batch_norm_no_training},
    {"_native_batch_norm_legit.no_stats(input, weight, bias, training, momentum, eps)", import_batch_norm_no_stats},
    {"_weight_norm.default(v, g, dim=0)", import_weight_norm},
    {"instance_norm.default(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled)",
     import_instance_norm},
    {"softmax.int(self, dim, dtype=None)", import_softmax<Op::softmax_>},
    {"log_softmax.int(self, dim, dtype=None)", import_softmax<Op::log_softmax_>},
    {"_softmax.default(self, dim, half_to_float)", import_native_softmax<Op::softmax_>},
    {"_log_softmax.default(self, dim, half_to_float)", import_native_softmax<Op::log_softmax_>},
});

}  // namespace

std::span<const Handler> norm_handlers() { return kHandlers; }

}  // namespace tcc::fx
