// What each pointwise prim computes, once, for every evaluator: `Scalar<Op::exp_>{}(x)`. A row of ops.def without a `Scalar` stops the build.
//
// T is one of the four types that evaluators compute in (float, double, int64_t, uint64_t). Integers wrap; narrower ones are wrapped by the caller, who
// keeps the low bits. A division or remainder by zero is 0. A shift by 64 or more shifts everything out, and a negative count is such a shift: of a
// narrower integer, extended to 64 bits, this is a shift by its width or more.
// Floats use the C library, whose functions are within an ulp or so: that is what generated code is held to.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "tcc/ops/pointwise.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/extremes.h"

namespace tcc {

template <Op op> struct Scalar;

template <class T> inline constexpr bool is_float_type = std::is_floating_point_v<T>;
/// Wrapping arithmetic is that of unsigned integers.
template <class T> using Wrapping = std::conditional_t<is_float_type<T>, T, uint64_t>;

#define TCC_UNARY(name, expression)                                                   \
  template <> struct Scalar<Op::name##_> {                                            \
    template <class T> T operator()(T x) const { return static_cast<T>(expression); } \
  };
#define TCC_BINARY(name, expression)                                                       \
  template <> struct Scalar<Op::name##_> {                                                 \
    template <class T> T operator()(T x, T y) const { return static_cast<T>(expression); } \
  };
#define TCC_TEST(name, expression)                       \
  template <> struct Scalar<Op::name##_> {               \
    template <class T> bool operator()(T x) const {      \
      if constexpr (is_float_type<T>) return expression; \
      else return Op::name##_ == Op::isfinite_;          \
    }                                                    \
  };
#define TCC_COMPARE(name, expression)                                         \
  template <> struct Scalar<Op::name##_> {                                    \
    template <class T> bool operator()(T x, T y) const { return expression; } \
  };

// ---- numbers
TCC_UNARY(neg, -static_cast<Wrapping<T>>(x))
template <> struct Scalar<Op::abs_> {
  template <class T> T operator()(T x) const {
    if constexpr (is_float_type<T>) return std::fabs(x);
    else return x < T(0) ? static_cast<T>(-static_cast<uint64_t>(x)) : x;
  }
};
TCC_UNARY(sign, x > T(0) ? T(1) : x < T(0) ? static_cast<T>(-1) : x)  // zeros keep their sign, NaN stays
TCC_UNARY(not, ~static_cast<uint64_t>(x))                             // of integers: the callers know bool

// ---- floats
TCC_UNARY(ceil, std::ceil(x))
TCC_UNARY(floor, std::floor(x))
TCC_UNARY(trunc, std::trunc(x))
TCC_UNARY(round_even, std::nearbyint(x))
TCC_UNARY(sqrt, std::sqrt(x))
TCC_UNARY(rsqrt, T(1) / std::sqrt(x))
TCC_UNARY(recip, T(1) / x)
TCC_UNARY(exp, std::exp(x))
TCC_UNARY(exp2, std::exp2(x))
TCC_UNARY(expm1, std::expm1(x))
TCC_UNARY(log, std::log(x))
TCC_UNARY(log2, std::log2(x))
TCC_UNARY(log1p, std::log1p(x))
TCC_UNARY(sin, std::sin(x))
TCC_UNARY(cos, std::cos(x))
TCC_UNARY(tan, std::tan(x))
TCC_UNARY(asin, std::asin(x))
TCC_UNARY(acos, std::acos(x))
TCC_UNARY(atan, std::atan(x))
TCC_UNARY(sinh, std::sinh(x))
TCC_UNARY(cosh, std::cosh(x))
TCC_UNARY(tanh, std::tanh(x))
TCC_UNARY(asinh, std::asinh(x))
TCC_UNARY(acosh, std::acosh(x))
TCC_UNARY(atanh, std::atanh(x))
TCC_UNARY(erf, std::erf(x))
TCC_BINARY(atan2, std::atan2(x, y))

// ---- tests; integers are finite
TCC_TEST(isnan, std::isnan(x))
TCC_TEST(isinf, std::isinf(x))
TCC_TEST(isfinite, std::isfinite(x))

// ---- two numbers
TCC_BINARY(add, static_cast<Wrapping<T>>(x) + static_cast<Wrapping<T>>(y))
TCC_BINARY(sub, static_cast<Wrapping<T>>(x) - static_cast<Wrapping<T>>(y))
TCC_BINARY(mul, static_cast<Wrapping<T>>(x) * static_cast<Wrapping<T>>(y))
TCC_BINARY(max, larger(x, y))
TCC_BINARY(min, smaller(x, y))
template <> struct Scalar<Op::div_> {
  template <class T> T operator()(T x, T y) const {
    if constexpr (is_float_type<T>) return x / y;
    else if (y == 0) return 0;
    else if (std::is_signed_v<T> && y == static_cast<T>(-1)) return static_cast<T>(-static_cast<uint64_t>(x));
    else return x / y;
  }
};
template <> struct Scalar<Op::rem_> {
  template <class T> T operator()(T x, T y) const {
    if constexpr (is_float_type<T>) return std::fmod(x, y);
    else if (y == 0 || (std::is_signed_v<T> && y == static_cast<T>(-1))) return 0;
    else return x % y;
  }
};
template <> struct Scalar<Op::mod_> {
  template <class T> T operator()(T x, T y) const {
    T r = Scalar<Op::rem_>{}(x, y);
    if (r != 0 && (r < T(0)) != (y < T(0))) r += y;
    if constexpr (is_float_type<T>) return r == 0 ? std::copysign(T(0), y) : r;
    else return r;
  }
};
template <> struct Scalar<Op::pow_> {
  template <class T> T operator()(T x, T y) const {
    if constexpr (is_float_type<T>) {
      return std::pow(x, y);
    } else {
      // 1 / x^n truncates to 0, and 1 / 0 is 0.
      if (std::is_signed_v<T> && y < T(0)) return x == T(1) ? T(1) : x == static_cast<T>(-1) ? static_cast<T>(y % 2 == 0 ? 1 : -1) : T(0);
      uint64_t result = 1, factor = static_cast<uint64_t>(x);
      for (uint64_t n = static_cast<uint64_t>(y); n != 0; n >>= 1, factor *= factor) result *= n & 1 ? factor : 1;
      return static_cast<T>(result);
    }
  }
};

// ---- bool and integers
TCC_BINARY(and, static_cast<uint64_t>(x) & static_cast<uint64_t>(y))
TCC_BINARY(or, static_cast<uint64_t>(x) | static_cast<uint64_t>(y))
TCC_BINARY(xor, static_cast<uint64_t>(x) ^ static_cast<uint64_t>(y))
template <> struct Scalar<Op::shl_> {
  template <class T> T operator()(T x, T y) const {
    return static_cast<uint64_t>(y) > 63 ? T(0) : static_cast<T>(static_cast<uint64_t>(x) << static_cast<uint64_t>(y));
  }
};
template <> struct Scalar<Op::shr_> {
  template <class T> T operator()(T x, T y) const {
    if (static_cast<uint64_t>(y) > 63) return x < T(0) ? static_cast<T>(-1) : T(0);
    if constexpr (is_float_type<T>) return x;
    else return x >> y;
  }
};

// ---- comparisons
TCC_COMPARE(eq, x == y)
TCC_COMPARE(ne, x != y)
TCC_COMPARE(lt, x < y)
TCC_COMPARE(le, x <= y)
TCC_COMPARE(gt, x > y)
TCC_COMPARE(ge, x >= y)

// ---- three numbers
template <> struct Scalar<Op::clamp_> {
  /// NaN stays, and a NaN bound wins, as in max and min.
  template <class T> T operator()(T x, T low, T high) const { return smaller(larger(x, low), high); }
};
template <> struct Scalar<Op::fma_> {
  template <class T> T operator()(T x, T y, T z) const {
    if constexpr (is_float_type<T>) return std::fma(x, y, z);
    else return static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y) + static_cast<uint64_t>(z));
  }
};

#undef TCC_UNARY
#undef TCC_BINARY
#undef TCC_TEST
#undef TCC_COMPARE

/// How many operands `Scalar` of a class takes; 0 for classes whose ops are more than a function of numbers.
constexpr int function_operands(ScalarClass scalar_class) {
  switch (scalar_class) {
    case ScalarClass::unary:
    case ScalarClass::unary_float:
    case ScalarClass::unary_bits: return 1;
    case ScalarClass::binary:
    case ScalarClass::binary_float:
    case ScalarClass::binary_bits:
    case ScalarClass::shift: return 2;
    case ScalarClass::ternary: return 3;
    case ScalarClass::none:
    case ScalarClass::test:
    case ScalarClass::compare:
    case ScalarClass::select:
    case ScalarClass::convert:
    case ScalarClass::check: return 0;
  }
  return 0;
}
/// `op`, known only when F is: what is not wanted below is then not looked up.
template <class F, Op op> inline constexpr Op when_called = op;

/// Calls f(Scalar<op>{}) for the op of one of the classes that `wanted` (a constant function of a class) accepts; internal error for others.
template <auto wanted, class F> decltype(auto) with_scalar(Op op, F&& f) {
  check(pointwise(op).has_value(), "only pointwise prims are functions of numbers");
  switch (*pointwise(op)) {
#define TCC_POINTWISE(name, scalar_class, cost, gradient, precision, attributes)                      \
  case PointwiseOp::name##_:                                                                          \
    if constexpr (wanted(ScalarClass::scalar_class)) return f(Scalar<when_called<F, Op::name##_>>{}); \
    else break;
#include "tcc/ops/ops.def"
  }
  internal_error("no evaluator of this kind for `" + std::string(name_of(op)) + "`");
}

/// with_scalar() for functions of `operands` values of type T.
template <int operands, class T, class F> decltype(auto) with_function(Op op, F&& f) {
  return with_scalar<[](ScalarClass c) {
    return function_operands(c) == operands && (is_float_type<T> ? takes_floats(c) : takes_integers(c));
  }>(op, f);
}
template <class F> decltype(auto) with_test(Op op, F&& f) {
  return with_scalar<[](ScalarClass c) { return c == ScalarClass::test; }>(op, f);
}
template <class F> decltype(auto) with_comparison(Op op, F&& f) {
  return with_scalar<[](ScalarClass c) { return c == ScalarClass::compare; }>(op, f);
}

}  // namespace tcc
