// Activations. They keep the dtype of their operand, which is a float.
#include <array>

#include "frontend/fx/arguments.h"
#include "frontend/fx/handlers.h"

namespace tcc::fx {

namespace {

template <Op op> void import_plain(Call& call) { call.result(call.emit(op, {call.in("self")})); }

void import_gelu(Call& call) { call.result(call.emit(Op::gelu_, {call.in("self")}, {{"approximate", call.text("approximate")}})); }

void import_leaky_relu(Call& call) {
  call.result(call.emit(Op::leaky_relu_, {call.in("self")}, {{"alpha", call.number("negative_slope")}}));
}

/// scale * (x > 0 ? x : alpha * (exp(x * input_scale) - 1))
void import_elu(Call& call) {
  if (call.number("input_scale") != 1)
    Call::refuse("unsupported-attribute", "`input_scale` is " + std::to_string(call.number("input_scale")) + ", lowered is 1");
  Value* y = call.emit(Op::elu_, {call.in("self")}, {{"alpha", call.number("alpha")}});
  const double scale = call.number("scale");
  call.result(scale == 1 ? y : call.build().binary(Op::mul_, y, scale));
}

void import_celu(Call& call) { call.result(call.emit(Op::celu_, {call.in("self")}, {{"alpha", call.number("alpha")}})); }

void import_selu(Call& call) {
  call.result(call.emit(Op::selu_, {call.in("self")}, {{"alpha", 1.6732632423543772}, {"gamma", 1.0507009873554805}}));
}

Value* clip(Call& call, Value* x, double low, double high) {
  return call.emit(Op::clip_, {x, call.constant(x->type.dtype, low), call.constant(x->type.dtype, high)});
}

/// Not clip, which has the slope 1 at its bounds: this has none.
Value* hard_tanh(Call& call, Value* x, double low, double high) {
  Builder& b = call.build();
  Value *least = call.constant(x->type.dtype, low), *most = call.constant(x->type.dtype, high);
  return b.select(b.binary(Op::le_, x, least), least, b.select(b.binary(Op::ge_, x, most), most, x));
}

void import_hardtanh(Call& call) { call.result(hard_tanh(call, call.in("self"), call.number("min_val"), call.number("max_val"))); }
void import_relu6(Call& call) { call.result(hard_tanh(call, call.in("self"), 0, 6)); }

/// x where it lies outside of [-lambd, lambd], else 0; NaN stays.
void import_hardshrink(Call& call) {
  Builder& b = call.build();
  Value *x = call.in("self"), *bound = call.constant(x->type.dtype, call.number("lambd"));
  call.result(b.select(b.binary(Op::le_, call.emit(Op::abs_, {x}), bound), call.constant(x->type.dtype, 0.0), x));
}

/// Towards zero by lambd, where zero is not reached.
void import_softshrink(Call& call) {
  Builder& b = call.build();
  Value* x = call.in("self");
  const double by = call.number("lambd");
  Value *above = b.binary(Op::gt_, x, call.constant(x->type.dtype, by)), *below = b.binary(Op::lt_, x, call.constant(x->type.dtype, -by));
  Value* inside = b.mul(x, call.constant(x->type.dtype, 0.0));  // NaN stays
  call.result(b.select(above, b.binary(Op::add_, x, -by), b.select(below, b.binary(Op::add_, x, by), inside)));
}

/// log(x / (1 - x)), x within [eps, 1 - eps] when there is an eps.
void import_logit(Call& call) {
  Builder& b = call.build();
  const Operand operand = call.operand("self");
  Value* x = as_tensor(call, operand, promoted_to_float(std::array{operand}));
  if (const auto eps = call.maybe_number("eps"); eps && *eps >= 0) x = clip(call, x, *eps, 1 - *eps);
  call.result(call.emit(Op::log_, {b.div(x, b.sub(call.constant(x->type.dtype, 1.0), x))}));
}

void import_hardsigmoid(Call& call) { call.result(call.emit(Op::hard_sigmoid_, {call.in("self")}, {{"alpha", 1.0 / 6}, {"beta", 0.5}})); }

/// log(1 + exp(beta x)) / beta; the identity above the threshold, where they are the same to the last bit.
void import_softplus(Call& call) {
  const double beta = call.number("beta"), threshold = call.number("threshold");
  Value* x = call.in("self");
  Value* scaled = beta == 1 ? x : call.build().binary(Op::mul_, x, beta);
  Value* y = call.emit(Op::softplus_, {scaled});
  if (beta != 1) y = call.build().binary(Op::div_, y, beta);
  Value* is_large = call.build().binary(Op::gt_, scaled, call.constant(x->type.dtype, threshold));
  call.result(call.build().select(is_large, x, y));
}

/// -log(1 + exp(-x))
void import_log_sigmoid(Call& call) {
  Value* x = call.in("self");
  call.result(call.emit(Op::neg_, {call.emit(Op::softplus_, {call.emit(Op::neg_, {x})})}));
}

/// One slope, or one per channel (axis 1).
void import_prelu(Call& call) {
  Value *x = call.in("self"), *slope = call.in("weight");
  if (slope->type.rank() == 1 && slope->type.dims[0].bound != 1 && x->type.rank() > 2) {
    Shape shape(static_cast<size_t>(x->type.rank()), 1);
    shape[1] = slope->type.dims[0].bound;
    slope = call.build().reshape(slope, shape);
  }
  call.result(call.emit(Op::prelu_, {x, slope}));
}

void import_log_sigmoid_forward(Call& call) {
  import_log_sigmoid(call);
  Value *x = call.in("self"), *y = call.result_at(0);
  const Type buffer = call.declared(1).value_or(x->type);  // of some devices it is empty
  call.results({y, buffer == x->type ? call.emit(Op::exp_, {call.emit(Op::neg_, {call.emit(Op::abs_, {x})})}) : call.filler(1, buffer)});
}

void import_threshold(Call& call) {
  Value* x = call.in("self");
  // By `le`, which is false for NaN: that stays.
  Value* below = call.build().binary(Op::le_, x, call.constant(x->type.dtype, call.scalar("threshold")));
  call.result(call.build().select(below, call.constant(x->type.dtype, call.scalar("value")), x));
}

/// The first half of the axis times the sigmoid of the second.
void import_glu(Call& call) {
  Value* x = call.in("self");
  const int64_t axis = call.axis("dim", x);
  const Shape shape = shape_of(x);
  std::vector<int64_t> starts(shape.size(), 0), limits = shape;
  limits[static_cast<size_t>(axis)] /= 2;
  Value* first = call.build().slice(x, starts, limits);
  starts[static_cast<size_t>(axis)] = limits[static_cast<size_t>(axis)];
  call.result(call.build().mul(first, call.emit(Op::sigmoid_, {call.build().slice(x, starts, shape)})));
}

void import_sigmoid(Call& call) {
  const Operand x = call.operand("self");
  call.result(call.emit(Op::sigmoid_, {as_tensor(call, x, promoted_to_float(std::array{x}))}));
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"relu.default(self)", import_plain<Op::relu_>},
    {"relu6.default(self)", import_relu6},
    {"sigmoid.default(self)", import_sigmoid},
    {"silu.default(self)", import_plain<Op::silu_>},
    {"mish.default(self)", import_plain<Op::mish_>},
    {"hardswish.default(self)", import_plain<Op::hard_swish_>},
    {"softsign.default(self)", import_plain<Op::softsign_>},
    {"hardsigmoid.default(self)", import_hardsigmoid},
    {"hardshrink.default(self, lambd=0.5)", import_hardshrink},
    {"softshrink.default(self, lambd=0.5)", import_softshrink},
    {"logit.default(self, eps=None)", import_logit},
    {"special_logit.default(self, eps=None)", import_logit},
    {"log_sigmoid_forward.default(self)", import_log_sigmoid_forward},
    {"hardtanh.default(self, min_val=-1, max_val=1)", import_hardtanh},
    {"gelu.default(self, approximate='none')", import_gelu},
    {"leaky_relu.default(self, negative_slope=0.01)", import_leaky_relu},
    {"elu.default(self, alpha=1, scale=1, input_scale=1)", import_elu},
    {"celu.default(self, alpha=1)", import_celu},
    {"selu.default(self)", import_selu},
    {"softplus.default(self, beta=1, threshold=20)", import_softplus},
    {"log_sigmoid.default(self)", import_log_sigmoid},
    {"prelu.default(self, weight)", import_prelu},
    {"_prelu_kernel.default(self, weight)", import_prelu},
    {"threshold.default(self, threshold, value)", import_threshold},
    {"glu.default(self, dim=-1)", import_glu},
});

}  // namespace

std::span<const Handler> activation_handlers() { return kHandlers; }

}  // namespace tcc::fx
