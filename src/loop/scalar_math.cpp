// One value at a time: slow and plain, the oracle of what the emitters make.
#include "loop/scalar_math.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "tcc/support/diagnostics.h"
#include "tcc/support/extremes.h"
#include "tcc/support/tensor.h"

namespace tcc::loop {
namespace {

enum class Class {
  same,
  same_float,
  same_bits_only,
  test,
  binary,
  binary_float,
  binary_bits,
  shift,
  compare,
  select,
  clamp,
  fma,
  check_index,
  none
};

Class class_of(Op op) {
  switch (op) {
    case Op::neg_:
    case Op::abs_:
    case Op::sign_: return Class::same;
    case Op::ceil_:
    case Op::floor_:
    case Op::trunc_:
    case Op::round_even_:
    case Op::sqrt_:
    case Op::rsqrt_:
    case Op::recip_:
    case Op::exp_:
    case Op::exp2_:
    case Op::expm1_:
    case Op::log_:
    case Op::log2_:
    case Op::log1p_:
    case Op::sin_:
    case Op::cos_:
    case Op::tan_:
    case Op::asin_:
    case Op::acos_:
    case Op::atan_:
    case Op::sinh_:
    case Op::cosh_:
    case Op::tanh_:
    case Op::asinh_:
    case Op::acosh_:
    case Op::atanh_:
    case Op::erf_: return Class::same_float;
    case Op::not_: return Class::same_bits_only;
    case Op::isnan_:
    case Op::isinf_:
    case Op::isfinite_: return Class::test;
    case Op::add_:
    case Op::sub_:
    case Op::mul_:
    case Op::div_:
    case Op::rem_:
    case Op::mod_:
    case Op::pow_:
    case Op::max_:
    case Op::min_: return Class::binary;
    case Op::atan2_: return Class::binary_float;
    case Op::and_:
    case Op::or_:
    case Op::xor_: return Class::binary_bits;
    case Op::shl_:
    case Op::shr_: return Class::shift;
    case Op::eq_:
    case Op::ne_:
    case Op::lt_:
    case Op::le_:
    case Op::gt_:
    case Op::ge_: return Class::compare;
    case Op::select_: return Class::select;
    case Op::clamp_: return Class::clamp;
    case Op::fma_: return Class::fma;
    case Op::check_index_: return Class::check_index;
    default: return Class::none;
  }
}

template <class T> T float_unary(Op op, T v) {
  switch (op) {
    case Op::neg_: return -v;
    case Op::abs_: return std::fabs(v);
    case Op::sign_: return v > 0 ? T(1) : v < 0 ? T(-1) : v;
    case Op::ceil_: return std::ceil(v);
    case Op::floor_: return std::floor(v);
    case Op::trunc_: return std::trunc(v);
    case Op::round_even_: return std::nearbyint(v);
    case Op::sqrt_: return std::sqrt(v);
    case Op::rsqrt_: return T(1) / std::sqrt(v);
    case Op::recip_: return T(1) / v;
    case Op::exp_: return std::exp(v);
    case Op::exp2_: return std::exp2(v);
    case Op::expm1_: return std::expm1(v);
    case Op::log_: return std::log(v);
    case Op::log2_: return std::log2(v);
    case Op::log1p_: return std::log1p(v);
    case Op::sin_: return std::sin(v);
    case Op::cos_: return std::cos(v);
    case Op::tan_: return std::tan(v);
    case Op::asin_: return std::asin(v);
    case Op::acos_: return std::acos(v);
    case Op::atan_: return std::atan(v);
    case Op::sinh_: return std::sinh(v);
    case Op::cosh_: return std::cosh(v);
    case Op::tanh_: return std::tanh(v);
    case Op::asinh_: return std::asinh(v);
    case Op::acosh_: return std::acosh(v);
    case Op::atanh_: return std::atanh(v);
    case Op::erf_: return std::erf(v);
    default: internal_error("`" + std::string(name_of(op)) + "` is not a unary prim of floats");
  }
}

template <class T> T float_mod(T a, T b) {
  T r = std::fmod(a, b);
  if (r != 0 && (r < 0) != (b < 0)) r += b;
  return r == 0 ? std::copysign(T(0), b) : r;
}

template <class T> T float_binary(Op op, T a, T b) {
  switch (op) {
    case Op::add_: return a + b;
    case Op::sub_: return a - b;
    case Op::mul_: return a * b;
    case Op::div_: return a / b;
    case Op::rem_: return std::fmod(a, b);
    case Op::mod_: return float_mod(a, b);
    case Op::pow_: return std::pow(a, b);
    case Op::atan2_: return std::atan2(a, b);
    case Op::max_: return larger(a, b);
    case Op::min_: return smaller(a, b);
    default: internal_error("`" + std::string(name_of(op)) + "` is not a binary prim of floats");
  }
}

template <class T> bool compare(Op op, T a, T b) {
  switch (op) {
    case Op::eq_: return a == b;
    case Op::ne_: return a != b;
    case Op::lt_: return a < b;
    case Op::le_: return a <= b;
    case Op::gt_: return a > b;
    case Op::ge_: return a >= b;
    default: internal_error("`" + std::string(name_of(op)) + "` is not a comparison");
  }
}

template <class T> T integer_pow(T base, T exponent) {
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  }
  uint64_t result = 1, factor = static_cast<uint64_t>(base);
  for (uint64_t n = static_cast<uint64_t>(exponent); n != 0; n >>= 1, factor *= factor) result *= n & 1 ? factor : 1;
  return static_cast<T>(result);
}

template <class T> bool is_minus_one(T b) { return std::is_signed_v<T> && b == static_cast<T>(-1); }
template <class T> T integer_rem(T a, T b) { return b == 0 || is_minus_one(b) ? 0 : a % b; }
template <class T> T integer_div(T a, T b) {
  if (b == 0) return 0;
  return is_minus_one(b) ? static_cast<T>(-static_cast<uint64_t>(a)) : a / b;
}
template <class T> T integer_mod(T a, T b) {
  const T r = integer_rem(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/// T is int64_t, or uint64_t for the unsigned kinds. `bits`: the width of the dtype, which ends a shift.
template <class T> T integer_op(Op op, bool is_bool, int bits, T a, T b) {
  using U = uint64_t;
  switch (op) {
    case Op::neg_: return static_cast<T>(-static_cast<U>(a));
    case Op::abs_: return a < T(0) ? static_cast<T>(-static_cast<U>(a)) : a;
    case Op::sign_: return a > T(0) ? T(1) : a < T(0) ? static_cast<T>(-1) : T(0);
    case Op::not_: return is_bool ? T(a == 0) : static_cast<T>(~a);
    case Op::add_: return static_cast<T>(U(a) + U(b));
    case Op::sub_: return static_cast<T>(U(a) - U(b));
    case Op::mul_: return static_cast<T>(U(a) * U(b));
    case Op::div_: return integer_div(a, b);
    case Op::rem_: return integer_rem(a, b);
    case Op::mod_: return integer_mod(a, b);
    case Op::pow_: return integer_pow(a, b);
    case Op::max_: return larger(a, b);
    case Op::min_: return smaller(a, b);
    case Op::and_: return a & b;
    case Op::or_: return a | b;
    case Op::xor_: return a ^ b;
    case Op::shl_: return U(b) >= U(bits) ? T(0) : static_cast<T>(U(a) << U(b));
    case Op::shr_: return U(b) >= U(bits) ? (a < T(0) ? static_cast<T>(-1) : T(0)) : a >> b;
    default: internal_error("`" + std::string(name_of(op)) + "` is not a prim of integers");
  }
}

bool is_unsigned(DType dtype) { return is_unsigned_integer(dtype) || dtype == DType::boolean; }

/// Calls f with values of the type that `dtype` is computed in.
template <class F> ScalarValue in_float(DType dtype, F f) {
  if (dtype == DType::f64) return ScalarValue::of_float(f(double{}));
  return ScalarValue::of_float(round_to(dtype, static_cast<double>(f(float{}))));
}

}  // namespace

std::optional<DType> result_dtype(Op op, std::span<const DType> operands) {
  const Class kind = class_of(op);
  auto has = [&](size_t count) { return operands.size() == count; };
  const DType first = operands.empty() ? DType::f32 : operands[0];
  const bool bits = is_integer(first) || first == DType::boolean;
  auto pair = [&] { return has(2) && operands[1] == first; };
  auto when = [](bool ok, DType dtype) { return ok ? std::optional(dtype) : std::nullopt; };
  switch (kind) {
    case Class::same: return when(has(1) && first != DType::boolean, first);
    case Class::same_float: return when(has(1) && is_float(first), first);
    case Class::same_bits_only: return when(has(1) && bits, first);
    case Class::test: return when(has(1), DType::boolean);
    case Class::binary: return when(pair(), first);
    case Class::binary_float: return when(pair() && is_float(first), first);
    case Class::binary_bits: return when(pair() && bits, first);
    case Class::shift: return when(pair() && is_integer(first), first);
    case Class::compare: return when(pair(), DType::boolean);
    case Class::select: return when(has(3) && first == DType::boolean && operands[1] == operands[2], has(3) ? operands[1] : first);
    case Class::clamp:
    case Class::fma: return when(has(3) && operands[1] == first && operands[2] == first, first);
    case Class::check_index: {
      const bool integers =
          operands.size() == 5 && std::all_of(operands.begin() + 1, operands.end(), [](DType d) { return d == DType::i64; });
      return integers ? std::optional(operands[0]) : std::nullopt;
    }
    case Class::none: return std::nullopt;
  }
  return std::nullopt;
}

ScalarValue evaluate_scalar(Op op, DType dtype, DType operand_dtype, std::span<const ScalarValue> args) {
  const ScalarValue a = args[0], b = args.size() > 1 ? args[1] : ScalarValue::of_int(0);
  switch (class_of(op)) {
    case Class::select: return a.i ? args[1] : args[2];
    case Class::check_index: return a;
    case Class::test: {
      if (!is_float(operand_dtype)) return ScalarValue::of_int(op == Op::isfinite_);
      return ScalarValue::of_int(op == Op::isnan_ ? std::isnan(a.f) : op == Op::isinf_ ? std::isinf(a.f) : std::isfinite(a.f));
    }
    case Class::compare:
      if (is_float(operand_dtype)) return ScalarValue::of_int(compare(op, a.f, b.f));
      if (is_unsigned(operand_dtype)) return ScalarValue::of_int(compare(op, static_cast<uint64_t>(a.i), static_cast<uint64_t>(b.i)));
      return ScalarValue::of_int(compare(op, a.i, b.i));
    case Class::clamp: {
      const ScalarValue low[] = {a, b};
      const ScalarValue raised[] = {evaluate_scalar(Op::max_, dtype, operand_dtype, low), args[2]};
      return evaluate_scalar(Op::min_, dtype, operand_dtype, raised);
    }
    case Class::fma:
      if (is_float(dtype)) {
        return in_float(dtype, [&]<class T>(T) { return std::fma(static_cast<T>(a.f), static_cast<T>(b.f), static_cast<T>(args[2].f)); });
      }
      return ScalarValue::of_int(
          wrap_to(dtype, static_cast<int64_t>(static_cast<uint64_t>(a.i) * static_cast<uint64_t>(b.i) + static_cast<uint64_t>(args[2].i))));
    default: break;
  }
  if (is_float(dtype)) {
    if (args.size() == 1) return in_float(dtype, [&]<class T>(T) { return float_unary(op, static_cast<T>(a.f)); });
    return in_float(dtype, [&]<class T>(T) { return float_binary(op, static_cast<T>(a.f), static_cast<T>(b.f)); });
  }
  const bool is_bool = dtype == DType::boolean;
  const int bits = is_bool ? 1 : size_bits(dtype);
  if (is_unsigned(dtype)) {
    return ScalarValue::of_int(wrap_to(
        dtype, static_cast<int64_t>(integer_op<uint64_t>(op, is_bool, bits, static_cast<uint64_t>(a.i), static_cast<uint64_t>(b.i)))));
  }
  return ScalarValue::of_int(wrap_to(dtype, integer_op<int64_t>(op, false, bits, a.i, b.i)));
}

ScalarValue cast_scalar(ScalarValue value, DType from, DType to) {
  if (from == to) return value;
  Tensor one(to, {});  // Tensor's setters are the one place that knows the rule
  if (is_float(from)) one.set_double(0, value.f);
  else if (from == DType::u64 && is_float(to))
    one.set_double(
        0, to == DType::f64 ? static_cast<double>(static_cast<uint64_t>(value.i)) : static_cast<float>(static_cast<uint64_t>(value.i)));
  else one.set_int64(0, value.i);
  return is_float(to) ? ScalarValue::of_float(one.as_double(0)) : ScalarValue::of_int(one.as_int64(0));
}

ScalarValue bitcast_scalar(ScalarValue value, DType from, DType to) {
  Tensor one(from, {});
  if (is_float(from)) one.set_double(0, value.f);
  else one.set_int64(0, value.i);
  const Tensor other(to, {}, one.bytes(), nullptr);
  return is_float(to) ? ScalarValue::of_float(other.as_double(0)) : ScalarValue::of_int(other.as_int64(0));
}

double round_to(DType dtype, double value) {
  if (dtype == DType::f64) return value;
  if (dtype == DType::f32) return static_cast<double>(static_cast<float>(value));
  return cast_scalar(ScalarValue::of_float(value), DType::f64, dtype).f;
}

int64_t wrap_to(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::boolean: return value != 0;
    case DType::i8: return static_cast<int8_t>(value);
    case DType::i16: return static_cast<int16_t>(value);
    case DType::i32: return static_cast<int32_t>(value);
    case DType::u8: return static_cast<uint8_t>(value);
    case DType::u16: return static_cast<uint16_t>(value);
    case DType::u32: return static_cast<uint32_t>(value);
    case DType::i4: return static_cast<int64_t>(static_cast<uint64_t>(value) << 60) >> 60;
    case DType::u4: return value & 15;
    default: return value;
  }
}

}  // namespace tcc::loop
