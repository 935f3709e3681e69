// Batch norms and instance norms: in evaluation form by their running statistics, in training form by those of the batch, which the running ones then
// follow:
//
//   running = (1 - momentum) * running + momentum * of the batch        the variance unbiased, by n - 1
//
// An operator in training form changes the running statistics itself, or returns what they become (`_functional`).
#include <algorithm>
#include <array>

#include "frontend/fx/handlers.h"
#include "frontend/fx/norms.h"
#include "frontend/fx/rebuilt.h"

namespace tcc::fx {

namespace {

// ---- batch norms. They differ in how arguments are named, in what is written in place, and in which results there are

struct BatchNorm {
  Value *x, *scale, *bias, *mean, *variance;  ///< the last two are the running ones, null without
  double epsilon, momentum;
};

BatchNorm read_batch_norm(Call& call, std::string_view epsilon, std::string_view momentum, bool has_running = true) {
  Value *x = call.in("input"), *scale = call.maybe("weight"), *bias = call.maybe("bias");
  if (x->type.rank() < 2) Call::refuse("type-error", "batch norm of " + to_string(x->type) + ", [batch, channels, ...] was expected");
  const Shape channels{x->type.dims[1].bound};
  if (scale == nullptr) scale = call.constant(x->type.dtype, 1.0, channels);
  if (bias == nullptr) bias = call.constant(x->type.dtype, 0.0, channels);
  Value *mean = has_running ? call.maybe("running_mean") : nullptr, *variance = has_running ? call.maybe("running_var") : nullptr;
  return {x, scale, bias, mean, variance, call.number(epsilon), momentum.empty() ? 0 : call.number(momentum)};
}

/// By the running statistics.
Value* evaluate(Call& call, const BatchNorm& norm) {
  if (norm.mean == nullptr || norm.variance == nullptr)
    Call::refuse("unsupported-attribute", "`training` is False, and there are no running statistics");
  return call.emit(Op::batch_norm_, {norm.x, norm.scale, norm.bias, norm.mean, norm.variance}, {{"epsilon", norm.epsilon}});
}

struct Trained {
  Value *y, *mean, *inverse;               ///< by the statistics of the batch
  Value *running_mean, *running_variance;  ///< what these become; null without
};

/// Statistics per channel, in f32 or wider.
struct Statistics {
  Value *mean, *variance;
  double count;  ///< elements that each is over
};

DType wide(DType dtype) { return size_bits(dtype) < 32 ? DType::f32 : dtype; }

/// Over the axes behind the channels and over the batch: together with those (a batch norm), or the mean of what each instance has. The nodes are
/// those of the norm itself, and merge with them.
Statistics statistics_of(Call& call, Value* x, bool of_instances) {
  Builder& b = call.build();
  x = b.cast(x, wide(x->type.dtype));
  std::vector<int64_t> axes;
  if (!of_instances) axes.push_back(0);
  for (int64_t axis = 2; axis < x->type.rank(); ++axis) axes.push_back(axis);
  double count = 1;
  for (const int64_t axis : axes) count *= static_cast<double>(x->type.dims[static_cast<size_t>(axis)].bound);
  const auto mean_over = [&](Value* value, const std::vector<int64_t>& which) {
    return call.emit(Op::reduce_, {value}, {{"op", "mean"}, {"axes", which}, {"keepdims", true}});
  };
  Value* mean = mean_over(x, axes);
  Value* centred = b.sub(x, mean);
  Value* variance = mean_over(b.mul(centred, centred), axes);
  if (of_instances) {
    mean = mean_over(mean, {0});
    variance = mean_over(variance, {0});
  }
  const Shape channels{x->type.dims[1].bound};
  return {b.reshape(mean, channels), b.reshape(variance, channels), count};
}

/// (1 - momentum) * running + momentum * now
Value* follow(Call& call, Value* running, Value* now, double momentum) {
  Builder& b = call.build();
  Value* kept = b.binary(Op::mul_, b.cast(running, now->type.dtype), 1 - momentum);
  return b.cast(b.add(kept, b.binary(Op::mul_, now, momentum)), running->type.dtype);
}

/// The running variance follows that of a sample: by n - 1 in the place of n.
Value* follow_variance(Call& call, Value* running, const Statistics& now, double momentum) {
  return follow(call, running, call.build().binary(Op::mul_, now.variance, now.count / std::max(now.count - 1, 1.0)), momentum);
}

Trained train(Call& call, const BatchNorm& norm) {
  const Shape channels{norm.x->type.dims[1].bound};
  const bool running = norm.mean != nullptr && norm.variance != nullptr;
  const DType dtype = wide(norm.x->type.dtype);
  Value* mean = running ? norm.mean : call.constant(dtype, 0.0, channels);
  Value* variance = running ? norm.variance : call.constant(dtype, 1.0, channels);
  const Node* node = call.build().emit_node(Op::batch_norm_train_, {norm.x, norm.scale, norm.bias, mean, variance},
                                            {{"epsilon", norm.epsilon}, {"momentum", 1 - norm.momentum}}, 5);
  Trained result{node->result(0), node->result(3), node->result(4), nullptr, nullptr};
  if (!running) return result;
  const Statistics now = statistics_of(call, norm.x, false);
  result.running_mean = follow(call, norm.mean, now.mean, norm.momentum);
  result.running_variance = follow_variance(call, norm.variance, now, norm.momentum);
  return result;
}

void update_running(Call& call, const Trained& trained) {
  if (trained.running_mean == nullptr) return;
  call.update("running_mean", trained.running_mean);
  call.update("running_var", trained.running_variance);
}

void import_batch_norm(Call& call) {
  const BatchNorm norm = read_batch_norm(call, "eps", "momentum");
  if (!call.flag("training")) return call.result(evaluate(call, norm));
  const Trained trained = train(call, norm);
  update_running(call, trained);
  call.result(trained.y);
}

/// Statistics of the batch that an evaluation form doesn't have are empty; some devices give the running ones.
std::vector<Value*> evaluated(Call& call, const BatchNorm& norm) {
  Value* y = evaluate(call, norm);
  std::vector<Value*> results{y};
  for (size_t i = 1; i <= 2; ++i) {
    const Type empty(y->type.dtype, {0});
    if (call.declared(i).value_or(empty).count() == 0) {
      results.push_back(call.filler(i, empty));
      continue;
    }
    Value* root = call.emit(Op::rsqrt_, {call.build().binary(Op::add_, norm.variance, norm.epsilon)});
    results.push_back(call.as_declared(i, i == 1 ? norm.mean : root));
  }
  return results;
}

enum class Update { none, in_place, result };

/// y, mean, inverse deviation; then, where the form has them, `num_fillers` results that count for nothing and the running statistics.
void batch_norm_with_statistics(Call& call, const BatchNorm& norm, bool training, Update update, size_t num_fillers = 0) {
  const Trained trained = training ? train(call, norm) : Trained{nullptr, nullptr, nullptr, norm.mean, norm.variance};
  std::vector<Value*> results;
  if (training) results = {trained.y, call.as_declared(1, trained.mean), call.as_declared(2, trained.inverse)};
  else results = evaluated(call, norm);
  for (size_t i = 0; i < num_fillers; ++i) results.push_back(call.filler(results.size(), Type(DType::u8, {0})));
  if (update == Update::in_place && training) update_running(call, trained);
  if (update == Update::result) results.insert(results.end(), {trained.running_mean, trained.running_variance});
  call.results(results);
}

template <Update update> void import_native_batch_norm(Call& call) {
  batch_norm_with_statistics(call, read_batch_norm(call, "eps", "momentum"), call.flag("training"), update);
}

void import_batch_norm_no_training(Call& call) {
  batch_norm_with_statistics(call, read_batch_norm(call, "eps", "momentum"), false, Update::none);
}

void import_batch_norm_no_stats(Call& call) {
  if (!call.flag("training")) Call::refuse("unsupported-attribute", "`training` is False, and there are no running statistics");
  batch_norm_with_statistics(call, read_batch_norm(call, "eps", "momentum", false), true, Update::none);
}

void import_cudnn_batch_norm(Call& call) {
  const BatchNorm norm = read_batch_norm(call, "epsilon", "exponential_average_factor");
  batch_norm_with_statistics(call, norm, call.flag("training"), Update::in_place, 1);
}

template <bool training, Update update> void import_batch_norm_with_reserve(Call& call) {
  batch_norm_with_statistics(call, read_batch_norm(call, "eps", "momentum"), training, update, 1);
}

void import_instance_norm(Call& call) {
  const BatchNorm norm = read_batch_norm(call, "eps", "momentum");
  if (!call.flag("use_input_stats")) return call.result(evaluate(call, norm));
  Value* y = call.emit(Op::instance_norm_, {norm.x, norm.scale, norm.bias}, {{"epsilon", norm.epsilon}});
  if (norm.mean != nullptr && norm.variance != nullptr) {
    const Statistics now = statistics_of(call, norm.x, true);
    call.update("running_mean", follow(call, norm.mean, now.mean, norm.momentum));
    call.update("running_var", follow_variance(call, norm.variance, now, norm.momentum));
  }
  call.result(y);
}

// ---- backward forms

/// `inverse`: the name under which the inverse deviation was saved.
void batch_norm_backward(Call& call, bool training, std::string_view gradient, std::string_view inverse, std::string_view epsilon,
                         const std::vector<int64_t>& mask) {
  Rebuilt forward(call, training ? "_native_batch_norm_legit.no_stats" : "_native_batch_norm_legit_no_training.default");
  forward.set("eps", Argument{call.number(epsilon)});
  forward.set("momentum", Argument{0.0});
  if (training) forward.set("training", Argument{true});
  forward.set_unread("bias", channels_of(call));
  if (training) {
    forward.save(1, call.in("save_mean"));
    forward.save(2, call.in(inverse));
  }
  call.results(forward.gradients({{0, call.in(gradient)}}, {"input", "weight", "bias"}, mask));
}

void import_native_batch_norm_backward(Call& call) {
  batch_norm_backward(call, call.flag("train"), "grad_out", "save_invstd", "eps", mask_of(call, 3));
}

void import_batch_norm_backward(Call& call) {
  batch_norm_backward(call, call.flag("update"), "grad_out", "save_var", "eps", mask_of(call, 3));
}

void import_cudnn_batch_norm_backward(Call& call) { batch_norm_backward(call, true, "grad_output", "save_var", "epsilon", {1, 1, 1}); }

constexpr auto kHandlers = std::to_array<Handler>({
    {"batch_norm.default(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled)", import_batch_norm},
    {"_native_batch_norm_legit_no_training.default(input, weight, bias, running_mean, running_var, momentum, eps)",
     import_batch_norm_no_training},
    {"_native_batch_norm_legit.no_stats(input, weight, bias, training, momentum, eps)", import_batch_norm_no_stats},
    {"_native_batch_norm_legit.default(input, weight, bias, running_mean, running_var, training, momentum, eps)",
     import_native_batch_norm<Update::in_place>},
    {"native_batch_norm.default(input, weight, bias, running_mean, running_var, training, momentum, eps)",
     import_native_batch_norm<Update::in_place>},
    {"_native_batch_norm_legit_functional.default(input, weight, bias, running_mean, running_var, training, momentum, eps)",
     import_native_batch_norm<Update::result>},
    {"cudnn_batch_norm.default(input, weight, bias, running_mean, running_var, training, exponential_average_factor, epsilon)",
     import_cudnn_batch_norm},
    {"_batch_norm_with_update.default(input, weight, bias, running_mean, running_var, momentum, eps)",
     import_batch_norm_with_reserve<true, Update::in_place>},
    {"_batch_norm_with_update_functional.default(input, weight, bias, running_mean, running_var, momentum, eps)",
     import_batch_norm_with_reserve<true, Update::result>},
    {"_batch_norm_no_update.default(input, weight, bias, running_mean, running_var, momentum, eps)",
     import_batch_norm_with_reserve<false, Update::none>},
    {"native_batch_norm_backward.default(grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, "
     "output_mask)",
     import_native_batch_norm_backward},
    {"batch_norm_backward.default(grad_out, input, weight, running_mean, running_var, save_mean, save_var, update, eps, output_mask, "
     "reserve)",
     import_batch_norm_backward},
    {"cudnn_batch_norm_backward.default(input, grad_output, weight, running_mean, running_var, save_mean, save_var, epsilon, "
     "reserveSpace)",
     import_cudnn_batch_norm_backward},
    {"instance_norm.default(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled)",
     import_instance_norm},
});

}  // namespace

std::span<const Handler> batch_norm_handlers() { return kHandlers; }

}  // namespace tcc::fx
