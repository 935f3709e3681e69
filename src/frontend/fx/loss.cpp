// Losses and their backward forms. `reduction`: 0 none, 1 mean, 2 sum.
#include <array>

#include "frontend/fx/arguments.h"
#include "frontend/fx/handlers.h"
#include "frontend/fx/rebuilt.h"

namespace tcc::fx {

namespace {

Value* sum_all(Call& call, Value* x) {
  std::vector<int64_t> axes;
  for (int64_t axis = 0; axis < x->type.rank(); ++axis) axes.push_back(axis);
  return call.emit(Op::reduce_, {x}, {{"op", "sum"}, {"axes", axes}, {"keepdims", false}});
}

int64_t reduction_of(Call& call) {
  const int64_t reduction = call.integer("reduction");
  if (reduction < 0 || reduction > 2)
    Call::refuse("malformed-file", "`reduction` is " + std::to_string(reduction) + ", expected is 0, 1 or 2");
  return reduction;
}

Value* reduced(Call& call, Value* loss) {
  const int64_t reduction = reduction_of(call);
  if (reduction == 0) return loss;
  Value* sum = sum_all(call, loss);
  return reduction == 2 ? sum : call.build().binary(Op::div_, sum, static_cast<double>(loss->type.count()));
}

}  // namespace

Value* reduced_loss(Call& call, Value* loss) { return reduced(call, loss); }

namespace {

/// The operands in one dtype and shape.
struct Pair {
  Value *x, *target;
};

Pair pair_of(Call& call) {
  const std::array<Operand, 2> operands{call.operand("self"), call.operand("target")};
  const DType dtype = promoted(operands);
  const std::vector<Value*> both =
      call.build().broadcast_together({as_tensor(call, operands[0], dtype), as_tensor(call, operands[1], dtype)});
  return {both[0], both[1]};
}

Value* difference_of(Call& call) {
  const Pair pair = pair_of(call);
  return call.build().sub(pair.x, pair.target);
}

void import_mse(Call& call) {
  Value* difference = difference_of(call);
  call.result(reduced(call, call.build().mul(difference, difference)));
}

void import_l1(Call& call) { call.result(reduced(call, call.emit(Op::abs_, {difference_of(call)}))); }

/// |d| < limit ? factor * d^2 / 2 : slope * (|d| - limit / 2)
void piecewise(Call& call, double limit, double factor, double slope, Op inside) {
  Builder& b = call.build();
  Value* difference = difference_of(call);
  Value* distance = call.emit(Op::abs_, {difference});
  Value* square = b.binary(Op::mul_, b.mul(difference, difference), 0.5 * factor);
  Value* line = b.binary(Op::add_, distance, -0.5 * limit);
  if (slope != 1) line = b.binary(Op::mul_, line, slope);
  call.result(reduced(call, b.select(b.binary(inside, distance, limit), square, line)));
}

void import_smooth_l1(Call& call) {
  const double beta = call.number("beta");
  if (beta == 0) return import_l1(call);
  piecewise(call, beta, 1 / beta, 1, Op::lt_);
}

void import_huber(Call& call) {
  const double delta = call.number("delta");
  piecewise(call, delta, 1, delta, Op::le_);
}

/// log(1 + exp(-target * x))
void import_soft_margin(Call& call) {
  const Pair pair = pair_of(call);
  call.result(reduced(call, call.emit(Op::softplus_, {call.emit(Op::neg_, {call.build().mul(pair.x, pair.target)})})));
}

/// target * (log(target) - x), where a target of 0 gives 0; with `log_target` exp(target) * (target - x).
void import_margin_ranking(Call& call) {
  Builder& b = call.build();
  Value* ahead = b.mul(call.in("target"), b.sub(call.in("input1"), call.in("input2")));
  call.result(reduced(call, b.binary(Op::max_, b.binary(Op::add_, call.emit(Op::neg_, {ahead}), call.number("margin")), 0.0)));
}

/// Where the target is 1 the distance, where it is -1 what lacks of the margin, else both.
Value* hinge(Call& call, Value* target, Value* near, Value* far) {
  Builder& b = call.build();
  const auto unless = [&](double value, Value* loss) {
    return b.select(b.binary(Op::ne_, target, call.constant(target->type.dtype, value)), loss, call.constant(loss->type.dtype, 0.0));
  };
  return b.add(unless(1, far), unless(-1, near));
}

void import_hinge_embedding(Call& call) {
  Builder& b = call.build();
  Value* x = call.in("self");
  Value* lacking = b.binary(Op::max_, b.sub(call.constant(x->type.dtype, call.number("margin")), x), 0.0);
  call.result(reduced(call, hinge(call, call.in("target"), x, lacking)));
}

constexpr double kNormFloor = 1e-12;

void import_cosine_embedding(Call& call) {
  Builder& b = call.build();
  const std::vector<Value*> both = b.broadcast_together({call.in("input1"), call.in("input2")});
  Value* target = call.in("target");
  const auto sum_of_products = [&](Value* x, Value* y) {
    return b.reduce(Op::reduce_sum_, b.mul(x, y), {Call::axis_of(-1, x->type.rank())});
  };
  const auto square = [&](Value* x) { return b.binary(Op::add_, sum_of_products(x, x), kNormFloor); };
  Value* norms = call.emit(Op::sqrt_, {b.mul(square(both[0]), square(both[1]))});
  Value* cosine = b.div(sum_of_products(both[0], both[1]), norms);
  Value* near = b.sub(call.constant(cosine->type.dtype, 1.0), cosine);
  Value* far = b.binary(Op::max_, b.binary(Op::sub_, cosine, call.number("margin")), 0.0);
  // Each counts for its target alone.
  const auto where = [&](double value, Value* loss) {
    return b.select(b.binary(Op::eq_, target, call.constant(target->type.dtype, value)), loss, call.constant(loss->type.dtype, 0.0));
  };
  call.result(reduced(call, b.add(where(1, near), where(-1, far))));
}

void import_kl_div(Call& call) {
  Builder& b = call.build();
  const Pair pair = pair_of(call);
  if (call.flag("log_target")) return call.result(reduced(call, b.mul(call.emit(Op::exp_, {pair.target}), b.sub(pair.target, pair.x))));
  Value* is_zero = b.binary(Op::eq_, pair.target, call.constant(pair.target->type.dtype, 0.0));
  Value* safe = b.select(is_zero, call.constant(pair.target->type.dtype, 1.0), pair.target);
  Value* entropy = b.mul(pair.target, call.emit(Op::log_, {safe}));
  call.result(reduced(call, b.sub(entropy, b.mul(pair.target, pair.x))));
}

// ---- of two classes

Value* weighted(Call& call, Value* loss) {
  return call.has("weight") ? call.build().mul(loss, call.build().cast(call.in("weight"), loss->type.dtype)) : loss;
}

Value* one_minus(Call& call, Value* x) { return call.build().sub(call.constant(x->type.dtype, 1.0), x); }

/// -(target * log(x) + (1 - target) * log(1 - x)), the logarithms not below -100.
void import_binary_cross_entropy(Call& call) {
  Builder& b = call.build();
  const Pair pair = pair_of(call);
  const auto log_of = [&](Value* x) { return b.binary(Op::max_, call.emit(Op::log_, {x}), -100.0); };
  Value* of_other = b.mul(one_minus(call, pair.target), log_of(one_minus(call, pair.x)));
  Value* loss = call.emit(Op::neg_, {b.add(b.mul(pair.target, log_of(pair.x)), of_other)});
  call.result(reduced(call, weighted(call, loss)));
}

/// grad * weight * (x - target) / max((1 - x) * x, 1e-12): what the framework defines, finite where the loss has no derivative.
void import_binary_cross_entropy_backward(Call& call) {
  Builder& b = call.build();
  const Pair pair = pair_of(call);
  Value* divisor = b.binary(Op::max_, b.mul(one_minus(call, pair.x), pair.x), 1e-12);
  Value* gradient = b.div(b.mul(call.in("grad_output"), b.sub(pair.x, pair.target)), divisor);
  gradient = weighted(call, gradient);
  if (reduction_of(call) == 1) gradient = b.binary(Op::div_, gradient, static_cast<double>(pair.x->type.count()));
  call.result(gradient);
}

/// (1 - target) * x + (1 + (pos_weight - 1) * target) * log(1 + exp(-x))
void import_binary_cross_entropy_with_logits(Call& call) {
  Builder& b = call.build();
  const Pair pair = pair_of(call);
  Value* log = call.emit(Op::softplus_, {call.emit(Op::neg_, {pair.x})});
  if (call.has("pos_weight")) {
    Value* more = b.binary(Op::add_, b.cast(call.in("pos_weight"), pair.x->type.dtype), -1.0);
    log = b.mul(log, b.binary(Op::add_, b.mul(more, pair.target), 1.0));
  }
  call.result(reduced(call, weighted(call, b.add(b.mul(one_minus(call, pair.target), pair.x), log))));
}

// ---- of many classes

struct ClassLoss {
  Value *loss, *total_weight;
};

/// -weight[target] * x[target], x being log-probabilities with the classes along axis 1 (the only axis of rank 1). A target `ignore_index` gives 0.
/// The class is picked by comparing it with a position: that fuses with what makes x, and its gradient is a comparison too, no scatter.
ClassLoss class_loss(Call& call, Value* x, Value* target) {
  Builder& b = call.build();
  const int64_t axis = x->type.rank() == 1 ? 0 : 1;
  Shape shape = shape_of(x), picked = shape;
  if (shape.empty()) Call::refuse("type-error", "a loss over classes of " + to_string(x->type));
  const int64_t classes = shape[static_cast<size_t>(axis)];
  picked.erase(picked.begin() + axis);
  if (shape_of(target) != picked)
    Call::refuse("type-error", "`target` is " + to_string(target->type) + ", of " + to_string(x->type) + " one of " +
                                   to_string(std::span<const int64_t>(picked)) + " was expected");
  target = b.cast(target, DType::i64);
  Value* counts = b.binary(Op::ne_, target, b.full_int(DType::i64, {}, call.integer("ignore_index")));
  Value* safe = b.select(counts, target, b.full_int(DType::i64, {}, 0));
  Shape apart = picked;
  apart.insert(apart.begin() + axis, 1);
  Value* hot = b.binary(Op::eq_, b.iota(DType::i64, shape, axis), b.reshape(safe, apart));
  Value* zero = call.constant(x->type.dtype, 0.0);
  const auto pick = [&](Value* of) {
    return call.emit(Op::reduce_, {b.select(hot, of, zero)}, {{"op", "sum"}, {"axes", std::vector<int64_t>{axis}}, {"keepdims", false}});
  };
  Value* loss = call.emit(Op::neg_, {pick(x)});
  if (classes > 0) loss = call.emit(Op::check_index_, {loss, safe}, {{"extent", classes}});
  Value* weight = b.full(x->type.dtype, picked, 1);
  if (call.has("weight")) {
    Shape own(shape.size(), 1);
    own[static_cast<size_t>(axis)] = classes;
    weight = pick(b.broadcast_to(b.reshape(b.cast(call.in("weight"), x->type.dtype), own), shape));
    loss = b.mul(loss, weight);
  }
  loss = b.select(counts, loss, zero);
  return {loss, b.select(counts, weight, zero)};
}

/// The loss and the sum of the weights, which the mean divides by; 0 without a reduction.
ClassLoss reduced_class_loss(Call& call, Value* x, Value* target) {
  ClassLoss each = class_loss(call, x, target);
  const int64_t reduction = reduction_of(call);
  if (reduction == 0) return {each.loss, call.constant(x->type.dtype, 0.0)};
  Value *sum = sum_all(call, each.loss), *total = sum_all(call, each.total_weight);
  return {reduction == 2 ? sum : call.build().div(sum, total), total};
}

void import_nll_loss_forward(Call& call) {
  const ClassLoss loss = reduced_class_loss(call, call.in("self"), call.in("target"));
  call.results({loss.loss, loss.total_weight});
}

void import_nll_loss(Call& call) { call.result(reduced_class_loss(call, call.in("self"), call.in("target")).loss); }

/// Targets of classes, or of probabilities, which have the shape of the logits.
void import_cross_entropy(Call& call) {
  Builder& b = call.build();
  Value *x = call.in("self"), *target = call.in("target");
  if (x->type.rank() == 0) Call::refuse("type-error", "a loss over classes of " + to_string(x->type));
  const int64_t axis = x->type.rank() == 1 ? 0 : 1;
  const double smoothing = call.number("label_smoothing"), classes = static_cast<double>(x->type.dims[static_cast<size_t>(axis)].bound);
  Value* log = call.emit(Op::log_softmax_, {x}, {{"axis", axis}});
  Value* weight = nullptr;
  if (call.has("weight")) {
    Shape own(static_cast<size_t>(x->type.rank()), 1);
    own[static_cast<size_t>(axis)] = x->type.dims[static_cast<size_t>(axis)].bound;
    weight = b.reshape(b.cast(call.in("weight"), x->type.dtype), own);
  }
  const auto over_classes = [&](Value* value) {
    return call.emit(Op::reduce_, {value}, {{"op", "sum"}, {"axes", std::vector<int64_t>{axis}}, {"keepdims", false}});
  };
  const int64_t reduction = reduction_of(call);
  if (is_float(target->type.dtype)) {
    if (shape_of(target) != shape_of(x))
      Call::refuse("type-error", "`target` is " + to_string(target->type) + ", the logits " + to_string(x->type));
    target = b.cast(target, x->type.dtype);
    if (smoothing != 0) target = b.binary(Op::add_, b.binary(Op::mul_, target, 1 - smoothing), smoothing / classes);
    Value* terms = b.mul(log, target);
    Value* loss = call.emit(Op::neg_, {over_classes(weight == nullptr ? terms : b.mul(terms, weight))});
    if (reduction == 0) return call.result(loss);
    Value* sum = sum_all(call, loss);
    const double count = static_cast<double>(loss->type.count());
    return call.result(reduction == 2 ? sum : b.binary(Op::div_, sum, count));
  }
  ClassLoss each = class_loss(call, log, target);
  Value* loss = each.loss;
  if (smoothing != 0) {
    Value* all = call.emit(Op::neg_, {over_classes(weight == nullptr ? log : b.mul(log, weight))});
    Value* counts = b.binary(Op::ne_, b.cast(target, DType::i64), b.full_int(DType::i64, {}, call.integer("ignore_index")));
    all = b.select(counts, all, call.constant(x->type.dtype, 0.0));
    loss = b.add(b.binary(Op::mul_, loss, 1 - smoothing), b.binary(Op::mul_, all, smoothing / classes));
  }
  if (reduction == 0) return call.result(loss);
  Value* sum = sum_all(call, loss);
  call.result(reduction == 2 ? sum : b.div(sum, sum_all(call, each.total_weight)));
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"mse_loss.default(self, target, reduction=1)", import_mse},
    {"l1_loss.default(self, target, reduction=1)", import_l1},
    {"smooth_l1_loss.default(self, target, reduction=1, beta=1)", import_smooth_l1},
    {"huber_loss.default(self, target, reduction=1, delta=1)", import_huber},
    {"soft_margin_loss.default(self, target, reduction=1)", import_soft_margin},
    {"margin_ranking_loss.default(input1, input2, target, margin=0, reduction=1)", import_margin_ranking},
    {"hinge_embedding_loss.default(self, target, margin=1, reduction=1)", import_hinge_embedding},
    {"cosine_embedding_loss.default(input1, input2, target, margin=0, reduction=1)", import_cosine_embedding},
    {"kl_div.default(self, target, reduction=1, log_target=False)", import_kl_div},
    {"binary_cross_entropy.default(self, target, weight=None, reduction=1)", import_binary_cross_entropy},
    {"binary_cross_entropy_with_logits.default(self, target, weight=None, pos_weight=None, reduction=1)",
     import_binary_cross_entropy_with_logits},
    {"nll_loss.default(self, target, weight=None, reduction=1, ignore_index=-100)", import_nll_loss},
    {"nll_loss_nd.default(self, target, weight=None, reduction=1, ignore_index=-100)", import_nll_loss},
    {"nll_loss2d.default(self, target, weight=None, reduction=1, ignore_index=-100)", import_nll_loss},
    {"nll_loss_forward.default(self, target, weight, reduction, ignore_index)", import_nll_loss_forward},
    {"nll_loss2d_forward.default(self, target, weight, reduction, ignore_index)", import_nll_loss_forward},
    {"cross_entropy_loss.default(self, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0)", import_cross_entropy},
    {"mse_loss_backward.default(grad_output, self, target, reduction)", import_backward<"mse_loss.default", "self">},
    {"smooth_l1_loss_backward.default(grad_output, self, target, reduction, beta)", import_backward<"smooth_l1_loss.default", "self">},
    {"huber_loss_backward.default(grad_output, self, target, reduction, delta)", import_backward<"huber_loss.default", "self">},
    {"soft_margin_loss_backward.default(grad_output, self, target, reduction)", import_backward<"soft_margin_loss.default", "self">},
    {"binary_cross_entropy_backward.default(grad_output, self, target, weight=None, reduction=1)", import_binary_cross_entropy_backward},
    {"nll_loss_backward.default(grad_output, self, target, weight, reduction, ignore_index, total_weight)",
     import_backward<"nll_loss_forward.default", "self">},
    {"nll_loss2d_backward.default(grad_output, self, target, weight, reduction, ignore_index, total_weight)",
     import_backward<"nll_loss2d_forward.default", "self">},
});

}  // namespace

std::span<const Handler> loss_handlers() { return kHandlers; }

}  // namespace tcc::fx
