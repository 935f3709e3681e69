// Arithmetic, comparison, logic: operands are promoted to one dtype and broadcast.
#include <array>

#include "frontend/fx/arguments.h"
#include "frontend/fx/handlers.h"

namespace tcc::fx {

namespace {

Value* broadcast_binary(Call& call, Op op, Value* a, Value* b) { return call.build().binary(op, a, b); }

// ---- one operand

/// A function of floats; integers become f32.
template <Op op> void import_float(Call& call) {
  const Operand x = call.operand("self");
  call.result(call.emit(op, {as_tensor(call, x, promoted_to_float(std::array{x}))}));
}

template <Op op> void import_same(Call& call) { call.result(call.emit(op, {call.in("self")})); }

/// Rounding leaves integers as they are.
template <Op op> void import_rounding(Call& call) {
  Value* x = call.in("self");
  call.result(is_float(x->type.dtype) ? call.emit(op, {x}) : call.emit(Op::identity_, {x}));
}

/// Integers are never NaN or infinite.
template <Op op, bool of_integers> void import_test(Call& call) {
  Value* x = call.in("self");
  call.result(is_float(x->type.dtype) ? call.emit(op, {x}) : call.build().full_int(DType::boolean, shape_of(x), of_integers ? 1 : 0));
}

void import_log10(Call& call) {
  const Operand x = call.operand("self");
  Value* value = as_tensor(call, x, promoted_to_float(std::array{x}));
  call.result(call.build().binary(Op::mul_, call.emit(Op::log_, {value}), 0.43429448190325182765));
}

void import_erfc(Call& call) {
  const Operand x = call.operand("self");
  Value* value = as_tensor(call, x, promoted_to_float(std::array{x}));
  call.result(call.build().sub(call.constant(value->type.dtype, 1.0), call.emit(Op::erf_, {value})));
}

void import_square(Call& call) {
  Value* x = call.in("self");
  call.result(call.build().mul(x, x));
}

// ---- two operands

struct Pair {
  Value *a, *b;
  DType dtype;
};

Pair promoted_pair(Call& call, std::string_view first = "self", std::string_view second = "other") {
  const Operand a = call.operand(first), b = call.operand(second);
  const DType dtype = promoted(std::array{a, b});
  return {as_tensor(call, a, dtype), as_tensor(call, b, dtype), dtype};
}

template <Op op> void import_binary(Call& call) {
  const Pair pair = promoted_pair(call);
  call.result(broadcast_binary(call, op, pair.a, pair.b));
}

/// Both as floats: atan2, true division.
template <Op op> void import_float_binary(Call& call) {
  const Operand a = call.operand("self"), b = call.operand("other");
  const DType dtype = promoted_to_float(std::array{a, b});
  call.result(broadcast_binary(call, op, as_tensor(call, a, dtype), as_tensor(call, b, dtype)));
}

/// self + alpha * other, and with `reversed` other - alpha * self.
template <Op op, bool reversed = false> void import_scaled(Call& call) {
  const Operand a = call.operand("self"), b = call.operand("other");
  const Number alpha = call.scalar("alpha");
  DType dtype = promoted(std::array{a, b});
  if (dtype == DType::boolean && op == Op::add_) {  // the sum of truth values is their disjunction
    call.result(broadcast_binary(call, Op::or_, as_tensor(call, a, dtype), as_tensor(call, b, dtype)));
    return;
  }
  Value *first = as_tensor(call, reversed ? b : a, dtype), *second = as_tensor(call, reversed ? a : b, dtype);
  if (to_double(alpha) != 1) second = call.build().mul(second, call.constant(dtype, alpha));
  call.result(broadcast_binary(call, op, first, second));
}

void import_mul(Call& call) {
  const Pair pair = promoted_pair(call);
  call.result(broadcast_binary(call, pair.dtype == DType::boolean ? Op::and_ : Op::mul_, pair.a, pair.b));
}

/// floor(a / b) of integers: the truncated quotient of what is left when the remainder (of the divisor's sign) is gone.
Value* floor_divide(Call& call, const Pair& pair) {
  if (is_float(pair.dtype)) return call.emit(Op::floor_, {broadcast_binary(call, Op::div_, pair.a, pair.b)});
  Value* rest = broadcast_binary(call, Op::mod_, pair.a, pair.b);
  return broadcast_binary(call, Op::div_, broadcast_binary(call, Op::sub_, pair.a, rest), pair.b);
}

void import_floor_divide(Call& call) { call.result(floor_divide(call, promoted_pair(call))); }

void import_div_mode(Call& call) {
  if (!call.has("rounding_mode")) return import_float_binary<Op::div_>(call);
  const std::string mode = call.text("rounding_mode");
  const Pair pair = promoted_pair(call);
  if (mode == "floor") return call.result(floor_divide(call, pair));
  if (mode != "trunc") Call::refuse("unsupported-attribute", "`rounding_mode` is '" + mode + "', lowered are 'floor' and 'trunc'");
  Value* quotient = broadcast_binary(call, Op::div_, pair.a, pair.b);
  call.result(is_float(pair.dtype) ? call.emit(Op::trunc_, {quotient}) : quotient);
}

void import_pow(Call& call) {
  const Operand base = call.operand("self"), exponent = call.operand("exponent");
  const DType dtype = promoted(std::array{base, exponent});
  Value* x = as_tensor(call, base, dtype);
  if (!exponent.is_tensor() && to_double(exponent.number) == 2) return call.result(call.build().mul(x, x));
  call.result(broadcast_binary(call, Op::pow_, x, as_tensor(call, exponent, dtype)));
}

void import_atan2_out(Call& call) {
  import_float_binary<Op::atan2_>(call);
  call.write("out", call.result_at(0));
}

template <Op op> void import_compare(Call& call) {
  const Pair pair = promoted_pair(call);
  call.result(broadcast_binary(call, op, pair.a, pair.b));
}

Value* truth(Call& call, Value* x) { return call.build().cast(x, DType::boolean); }

template <Op op> void import_logical(Call& call) {
  call.result(broadcast_binary(call, op, truth(call, call.in("self")), truth(call, call.in("other"))));
}

void import_logical_not(Call& call) { call.result(call.emit(Op::not_, {truth(call, call.in("self"))})); }

// ---- three operands

void import_where(Call& call) {
  const Pair pair = promoted_pair(call);
  call.result(call.build().select(truth(call, call.in("condition")), pair.a, pair.b));
}

/// self * log(other), and 0 where self is 0 and other no NaN.
template <bool plus_one> void import_xlogy(Call& call) {
  Builder& b = call.build();
  const Operand x = call.operand("self"), y = call.operand("other");
  const DType dtype = promoted_to_float(std::array{x, y});
  const std::vector<Value*> both = b.broadcast_together({as_tensor(call, x, dtype), as_tensor(call, y, dtype)});
  Value* is_zero =
      b.binary(Op::and_, b.binary(Op::eq_, both[0], call.constant(dtype, 0.0)), call.emit(Op::not_, {call.emit(Op::isnan_, {both[1]})}));
  Value* product = b.mul(both[0], call.emit(plus_one ? Op::log1p_ : Op::log_, {both[1]}));
  call.result(b.select(is_zero, call.constant(dtype, 0.0), product));
}

void import_masked_fill(Call& call) {
  Value *x = call.in("self"), *mask = call.in("mask");
  Value* value = as_tensor(call, call.operand("value"), x->type.dtype);
  call.result(call.build().select(mask, value, x));
}

/// Bounds that are numbers, or tensors; NaN stays.
void import_clamp(Call& call) {
  std::vector<Operand> operands{call.operand("self")};
  for (const char* bound : {"min", "max"}) {
    if (call.has(bound)) operands.push_back(call.operand(bound));
  }
  const DType dtype = promoted(operands);
  Value* x = as_tensor(call, operands[0], dtype);
  Value* low = call.has("min") ? as_tensor(call, call.operand("min"), dtype) : nullptr;
  Value* high = call.has("max") ? as_tensor(call, call.operand("max"), dtype) : nullptr;
  if (low == nullptr && high == nullptr) Call::refuse("malformed-file", "clamp has neither `min` nor `max`");
  const bool are_numbers = (low == nullptr || low->type.rank() == 0) && (high == nullptr || high->type.rank() == 0);
  if (are_numbers) return call.result(call.emit(Op::clip_, {x, low, high}));
  if (low != nullptr) x = call.build().max(x, low);
  if (high != nullptr) x = call.build().min(x, high);
  call.result(x);
}

void import_clamp_min(Call& call) {
  const Pair pair = promoted_pair(call, "self", "min");
  call.result(broadcast_binary(call, Op::max_, pair.a, pair.b));
}

void import_clamp_max(Call& call) {
  const Pair pair = promoted_pair(call, "self", "max");
  call.result(broadcast_binary(call, Op::min_, pair.a, pair.b));
}

/// self + value * tensor1 * tensor2, or tensor1 / tensor2.
template <Op op> void import_addc(Call& call) {
  const Operand x = call.operand("self"), a = call.operand("tensor1"), b = call.operand("tensor2");
  const DType dtype = promoted(std::array{x, a, b});
  Value* term = broadcast_binary(call, op, as_tensor(call, a, dtype), as_tensor(call, b, dtype));
  if (to_double(call.scalar("value")) != 1) term = call.build().mul(term, call.constant(dtype, call.scalar("value")));
  call.result(call.build().add(as_tensor(call, x, dtype), term));
}

/// start + weight * (end - start)
void import_lerp(Call& call) {
  const Operand a = call.operand("self"), b = call.operand("end"), w = call.operand("weight");
  const DType dtype = promoted(std::array{a, b});
  Value *start = as_tensor(call, a, dtype), *end = as_tensor(call, b, dtype);
  call.result(call.build().add(start, call.build().mul(as_tensor(call, w, dtype), call.build().sub(end, start))));
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"abs.default(self)", import_same<Op::abs_>},
    {"neg.default(self)", import_same<Op::neg_>},
    {"sign.default(self)", import_same<Op::sign_>},
    {"sgn.default(self)", import_same<Op::sign_>},
    {"bitwise_not.default(self)", import_same<Op::not_>},
    {"ceil.default(self)", import_rounding<Op::ceil_>},
    {"floor.default(self)", import_rounding<Op::floor_>},
    {"trunc.default(self)", import_rounding<Op::trunc_>},
    {"round.default(self)", import_rounding<Op::round_even_>},
    {"sqrt.default(self)", import_float<Op::sqrt_>},
    {"rsqrt.default(self)", import_float<Op::rsqrt_>},
    {"reciprocal.default(self)", import_float<Op::recip_>},
    {"exp.default(self)", import_float<Op::exp_>},
    {"exp2.default(self)", import_float<Op::exp2_>},
    {"expm1.default(self)", import_float<Op::expm1_>},
    {"log.default(self)", import_float<Op::log_>},
    {"log2.default(self)", import_float<Op::log2_>},
    {"log1p.default(self)", import_float<Op::log1p_>},
    {"log10.default(self)", import_log10},
    {"sin.default(self)", import_float<Op::sin_>},
    {"cos.default(self)", import_float<Op::cos_>},
    {"tan.default(self)", import_float<Op::tan_>},
    {"asin.default(self)", import_float<Op::asin_>},
    {"acos.default(self)", import_float<Op::acos_>},
    {"atan.default(self)", import_float<Op::atan_>},
    {"sinh.default(self)", import_float<Op::sinh_>},
    {"cosh.default(self)", import_float<Op::cosh_>},
    {"tanh.default(self)", import_float<Op::tanh_>},
    {"asinh.default(self)", import_float<Op::asinh_>},
    {"acosh.default(self)", import_float<Op::acosh_>},
    {"atanh.default(self)", import_float<Op::atanh_>},
    {"erf.default(self)", import_float<Op::erf_>},
    {"erfc.default(self)", import_erfc},
    {"square.default(self)", import_square},
    {"isnan.default(self)", import_test<Op::isnan_, false>},
    {"isinf.default(self)", import_test<Op::isinf_, false>},
    {"isfinite.default(self)", import_test<Op::isfinite_, true>},
    {"add.Tensor(self, other, alpha=1)", import_scaled<Op::add_>},
    {"add.Scalar(self, other, alpha=1)", import_scaled<Op::add_>},
    {"sub.Tensor(self, other, alpha=1)", import_scaled<Op::sub_>},
    {"sub.Scalar(self, other, alpha=1)", import_scaled<Op::sub_>},
    {"rsub.Tensor(self, other, alpha=1)", import_scaled<Op::sub_, true>},
    {"rsub.Scalar(self, other, alpha=1)", import_scaled<Op::sub_, true>},
    {"mul.Tensor(self, other)", import_mul},
    {"mul.Scalar(self, other)", import_mul},
    {"div.Tensor(self, other)", import_float_binary<Op::div_>},
    {"div.Scalar(self, other)", import_float_binary<Op::div_>},
    {"div.Tensor_mode(self, other, rounding_mode=None)", import_div_mode},
    {"div.Scalar_mode(self, other, rounding_mode=None)", import_div_mode},
    {"floor_divide.default(self, other)", import_floor_divide},
    {"floor_divide.Scalar(self, other)", import_floor_divide},
    {"remainder.Tensor(self, other)", import_binary<Op::mod_>},
    {"remainder.Scalar(self, other)", import_binary<Op::mod_>},
    {"fmod.Tensor(self, other)", import_binary<Op::rem_>},
    {"fmod.Scalar(self, other)", import_binary<Op::rem_>},
    {"atan2.default(self, other)", import_float_binary<Op::atan2_>},
    {"atan2.out(self, other, out)", import_atan2_out},
    {"maximum.default(self, other)", import_binary<Op::max_>},
    {"minimum.default(self, other)", import_binary<Op::min_>},
    {"max.other(self, other)", import_binary<Op::max_>},
    {"min.other(self, other)", import_binary<Op::min_>},
    {"pow.Tensor_Scalar(self, exponent)", import_pow},
    {"pow.Tensor_Tensor(self, exponent)", import_pow},
    {"pow.Scalar(self, exponent)", import_pow},
    {"bitwise_and.Tensor(self, other)", import_binary<Op::and_>},
    {"bitwise_and.Scalar(self, other)", import_binary<Op::and_>},
    {"bitwise_or.Tensor(self, other)", import_binary<Op::or_>},
    {"bitwise_or.Scalar(self, other)", import_binary<Op::or_>},
    {"bitwise_xor.Tensor(self, other)", import_binary<Op::xor_>},
    {"bitwise_xor.Scalar(self, other)", import_binary<Op::xor_>},
    {"__and__.Tensor(self, other)", import_binary<Op::and_>},
    {"__and__.Scalar(self, other)", import_binary<Op::and_>},
    {"__or__.Tensor(self, other)", import_binary<Op::or_>},
    {"__or__.Scalar(self, other)", import_binary<Op::or_>},
    {"__xor__.Tensor(self, other)", import_binary<Op::xor_>},
    {"eq.Tensor(self, other)", import_compare<Op::eq_>},
    {"eq.Scalar(self, other)", import_compare<Op::eq_>},
    {"ne.Tensor(self, other)", import_compare<Op::ne_>},
    {"ne.Scalar(self, other)", import_compare<Op::ne_>},
    {"lt.Tensor(self, other)", import_compare<Op::lt_>},
    {"lt.Scalar(self, other)", import_compare<Op::lt_>},
    {"le.Tensor(self, other)", import_compare<Op::le_>},
    {"le.Scalar(self, other)", import_compare<Op::le_>},
    {"gt.Tensor(self, other)", import_compare<Op::gt_>},
    {"gt.Scalar(self, other)", import_compare<Op::gt_>},
    {"ge.Tensor(self, other)", import_compare<Op::ge_>},
    {"ge.Scalar(self, other)", import_compare<Op::ge_>},
    {"logical_and.default(self, other)", import_logical<Op::and_>},
    {"logical_or.default(self, other)", import_logical<Op::or_>},
    {"logical_xor.default(self, other)", import_logical<Op::xor_>},
    {"logical_not.default(self)", import_logical_not},
    {"where.self(condition, self, other)", import_where},
    {"where.ScalarOther(condition, self, other)", import_where},
    {"where.ScalarSelf(condition, self, other)", import_where},
    {"where.Scalar(condition, self, other)", import_where},
    {"xlogy.Tensor(self, other)", import_xlogy<false>},
    {"xlogy.Scalar_Self(self, other)", import_xlogy<false>},
    {"xlogy.Scalar_Other(self, other)", import_xlogy<false>},
    {"special_xlog1py.default(self, other)", import_xlogy<true>},
    {"masked_fill.Scalar(self, mask, value)", import_masked_fill},
    {"masked_fill.Tensor(self, mask, value)", import_masked_fill},
    {"clamp.default(self, min=None, max=None)", import_clamp},
    {"clamp.Tensor(self, min=None, max=None)", import_clamp},
    {"clamp_min.default(self, min)", import_clamp_min},
    {"clamp_min.Tensor(self, min)", import_clamp_min},
    {"clamp_max.default(self, max)", import_clamp_max},
    {"clamp_max.Tensor(self, max)", import_clamp_max},
    {"addcmul.default(self, tensor1, tensor2, value=1)", import_addc<Op::mul_>},
    {"addcdiv.default(self, tensor1, tensor2, value=1)", import_addc<Op::div_>},
    {"lerp.Scalar(self, end, weight)", import_lerp},
    {"lerp.Tensor(self, end, weight)", import_lerp},
});

}  // namespace

std::span<const Handler> pointwise_handlers() { return kHandlers; }

}  // namespace tcc::fx
