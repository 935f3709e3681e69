// Functions of numbers, element by element, that are a few operations each.
#include <array>
#include <cfloat>
#include <cmath>
#include <numbers>

#include "frontend/fx/arguments.h"
#include "frontend/fx/handlers.h"

namespace tcc::fx {

namespace {

/// One operand as a float tensor; integers become f32.
Value* float_operand(Call& call) {
  const Operand x = call.operand("self");
  return as_tensor(call, x, promoted_to_float(std::array{x}));
}

struct Pair {
  Value *a, *b;
};

/// Both in their common dtype and shape.
Pair pair_of(Call& call, bool as_floats) {
  const Operand a = call.operand("self"), b = call.operand("other");
  const DType dtype = as_floats ? promoted_to_float(std::array{a, b}) : promoted(std::array{a, b});
  const std::vector<Value*> both = call.build().broadcast_together({as_tensor(call, a, dtype), as_tensor(call, b, dtype)});
  return {both[0], both[1]};
}

Value* number(Call& call, const Value* like, double value) { return call.build().full(like->type.dtype, {}, value); }

void import_degrees_to_radians(Call& call) { call.result(call.build().binary(Op::mul_, float_operand(call), std::numbers::pi / 180)); }
void import_radians_to_degrees(Call& call) { call.result(call.build().binary(Op::mul_, float_operand(call), 180 / std::numbers::pi)); }

void import_fraction(Call& call) {
  Value* x = call.in("self");
  call.result(call.build().sub(x, call.emit(Op::trunc_, {x})));
}

/// The sign of zeros and NaN counts: the highest bit.
Value* sign_bit(Call& call, Value* x) {
  Builder& b = call.build();
  if (x->type.dtype == DType::boolean) return b.full_int(DType::boolean, shape_of(x), 0);
  if (is_float(x->type.dtype)) {
    const int bits = size_bits(x->type.dtype);
    const DType integer = bits == 64 ? DType::i64 : bits == 32 ? DType::i32 : bits == 16 ? DType::i16 : DType::i8;
    x = call.emit(Op::bitcast_, {x}, {{"dtype", integer}});
  }
  return b.binary(Op::lt_, x, b.full_int(x->type.dtype, {}, 0));
}

void import_sign_bit(Call& call) { call.result(sign_bit(call, call.in("self"))); }

void import_copysign(Call& call) {
  const Pair pair = pair_of(call, true);
  Value* magnitude = call.emit(Op::abs_, {pair.a});
  call.result(call.build().select(sign_bit(call, pair.b), call.emit(Op::neg_, {magnitude}), magnitude));
}

/// sin(pi x) / (pi x), and 1 at 0.
void import_sinc(Call& call) {
  Builder& b = call.build();
  Value* x = float_operand(call);
  Value* is_zero = b.binary(Op::eq_, x, 0.0);
  Value* turned = b.binary(Op::mul_, b.select(is_zero, number(call, x, 1), x), std::numbers::pi);
  call.result(b.select(is_zero, number(call, x, 1), b.div(call.emit(Op::sin_, {turned}), turned)));
}

template <bool positive> void import_is_signed_infinity(Call& call) {
  Value* x = call.in("self");
  if (!is_float(x->type.dtype)) return call.result(call.build().full_int(DType::boolean, shape_of(x), 0));
  call.result(call.build().binary(Op::eq_, x, positive ? HUGE_VAL : -HUGE_VAL));
}

/// sqrt(a^2 + b^2) without overflow on the way: the larger times sqrt(1 + (smaller / larger)^2).
void import_hypot(Call& call) {
  Builder& b = call.build();
  const Pair pair = pair_of(call, true);
  Value *first = call.emit(Op::abs_, {pair.a}), *second = call.emit(Op::abs_, {pair.b});
  Value *large = b.max(first, second), *small = b.min(first, second);
  Value* is_plain = b.binary(Op::and_, b.binary(Op::ne_, large, 0.0), b.binary(Op::ne_, large, HUGE_VAL));
  Value* ratio = b.div(small, b.select(is_plain, large, number(call, large, 1)));
  Value* root = call.emit(Op::sqrt_, {b.binary(Op::add_, b.mul(ratio, ratio), 1.0)});
  call.result(b.select(is_plain, b.mul(large, root), large));
}

/// The larger (smaller) one; a number where the other is NaN.
template <Op op> void import_extreme_number(Call& call) {
  Builder& b = call.build();
  const Pair pair = pair_of(call, false);
  Value* extreme = b.binary(op, pair.a, pair.b);
  if (is_float(pair.a->type.dtype)) {
    extreme = b.select(call.emit(Op::isnan_, {pair.b}), pair.a, extreme);
    extreme = b.select(call.emit(Op::isnan_, {pair.a}), pair.b, extreme);
  }
  call.result(extreme);
}

void import_heaviside(Call& call) {
  Builder& b = call.build();
  Value *x = call.in("self"), *at_zero = b.cast(call.in("values"), x->type.dtype);
  Value* zero = call.constant(x->type.dtype, int64_t{0});
  call.result(b.select(b.binary(Op::eq_, x, zero), at_zero, b.cast(b.binary(Op::gt_, x, zero), x->type.dtype)));
}

/// log(exp(a) + exp(b)) = max + log(1 + exp(-|a - b|)); equal infinities are themselves. To base 2 likewise.
template <Op exponential, bool base_2> void import_log_add(Call& call) {
  Builder& b = call.build();
  const Pair pair = pair_of(call, true);
  Value* is_infinite = b.binary(Op::and_, call.emit(Op::isinf_, {pair.a}), b.binary(Op::eq_, pair.a, pair.b));
  Value* distance = call.emit(Op::abs_, {b.sub(pair.a, pair.b)});
  distance = b.select(is_infinite, number(call, distance, 0), distance);
  Value* power = call.emit(exponential, {call.emit(Op::neg_, {distance})});
  Value* log = call.emit(Op::log1p_, {power});
  if (base_2) log = b.binary(Op::mul_, log, std::numbers::log2e);
  call.result(b.select(is_infinite, pair.a, b.add(b.max(pair.a, pair.b), log)));
}

/// |a - b| <= atol + rtol * |b|, or equal; NaN equals NaN when asked for.
void import_is_close(Call& call) {
  Builder& b = call.build();
  const bool equal_nan = call.flag("equal_nan");
  const Pair pair = pair_of(call, true);
  Value* allowed = b.binary(Op::add_, b.binary(Op::mul_, call.emit(Op::abs_, {pair.b}), call.number("rtol")), call.number("atol"));
  Value* difference = call.emit(Op::abs_, {b.sub(pair.a, pair.b)});
  Value* near = b.binary(Op::and_, b.binary(Op::le_, difference, allowed), b.binary(Op::lt_, difference, HUGE_VAL));
  Value* close = b.binary(Op::or_, near, b.binary(Op::eq_, pair.a, pair.b));
  if (equal_nan) close = b.binary(Op::or_, close, b.binary(Op::and_, call.emit(Op::isnan_, {pair.a}), call.emit(Op::isnan_, {pair.b})));
  call.result(close);
}

double largest_finite(DType dtype) {
  switch (dtype) {
    case DType::f64: return DBL_MAX;
    case DType::f32: return FLT_MAX;
    case DType::f16: return 65504;
    case DType::bf16: return std::ldexp(255, 120);
    default: Call::refuse("unsupported-dtype", "nan_to_num of " + std::string(name_of(dtype)));
  }
}

void import_nan_to_num(Call& call) {
  Builder& b = call.build();
  Value* x = call.in("self");
  if (!is_float(x->type.dtype)) return call.result(call.emit(Op::identity_, {x}));
  const double largest = largest_finite(x->type.dtype);
  const auto given = [&](const char* name, double otherwise) { return number(call, x, call.maybe_number(name).value_or(otherwise)); };
  Value* result = b.select(call.emit(Op::isnan_, {x}), given("nan", 0), x);
  result = b.select(b.binary(Op::eq_, x, HUGE_VAL), given("posinf", largest), result);
  call.result(b.select(b.binary(Op::eq_, x, -HUGE_VAL), given("neginf", -largest), result));
}

/// In f64, whatever the operands are.
void import_float_power(Call& call) {
  call.result(call.build().binary(Op::pow_, as_tensor(call, call.operand("self"), DType::f64),
                                  as_tensor(call, call.operand("exponent"), DType::f64)));
}

void import_round_to_decimals(Call& call) {
  Builder& b = call.build();
  Value* x = call.in("self");
  if (!is_float(x->type.dtype)) return call.result(call.emit(Op::identity_, {x}));
  const int64_t decimals = call.integer("decimals");
  const double ten = std::pow(10.0, std::abs(static_cast<double>(decimals)));
  Value* scaled = b.binary(decimals < 0 ? Op::div_ : Op::mul_, x, ten);
  call.result(b.binary(decimals < 0 ? Op::mul_ : Op::div_, call.emit(Op::round_even_, {scaled}), ten));
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"deg2rad.default(self)", import_degrees_to_radians},
    {"rad2deg.default(self)", import_radians_to_degrees},
    {"frac.default(self)", import_fraction},
    {"signbit.default(self)", import_sign_bit},
    {"copysign.Tensor(self, other)", import_copysign},
    {"copysign.Scalar(self, other)", import_copysign},
    {"sinc.default(self)", import_sinc},
    {"isposinf.default(self)", import_is_signed_infinity<true>},
    {"isneginf.default(self)", import_is_signed_infinity<false>},
    {"hypot.default(self, other)", import_hypot},
    {"fmax.default(self, other)", import_extreme_number<Op::max_>},
    {"fmin.default(self, other)", import_extreme_number<Op::min_>},
    {"heaviside.default(self, values)", import_heaviside},
    {"logaddexp.default(self, other)", import_log_add<Op::exp_, false>},
    {"logaddexp2.default(self, other)", import_log_add<Op::exp2_, true>},
    {"isclose.default(self, other, rtol=1e-5, atol=1e-8, equal_nan=False)", import_is_close},
    {"nan_to_num.default(self, nan=None, posinf=None, neginf=None)", import_nan_to_num},
    {"float_power.Tensor_Scalar(self, exponent)", import_float_power},
    {"float_power.Tensor_Tensor(self, exponent)", import_float_power},
    {"float_power.Scalar(self, exponent)", import_float_power},
    {"round.decimals(self, decimals)", import_round_to_decimals},
});

}  // namespace

std::span<const Handler> function_handlers() { return kHandlers; }

}  // namespace tcc::fx
