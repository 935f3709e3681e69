// Evaluators of the binary prims; operands broadcast as numpy does.
//
// Integers: the results wrap; a division or remainder by zero gives 0; a shift by the width or more shifts everything out, and a negative
// count is such a shift.

#include <cmath>
#include <type_traits>

#include "prims/working.h"
#include "tcc/support/extremes.h"

namespace tcc {
namespace {

/// Both operands have the result's shape, or one element each stands for all.
template <class T, class R, class F> Tensor map(const Tensor& a, const Tensor& b, const Shape& shape, DType dtype, F f) {
  Tensor result(dtype, shape);
  const int64_t count = result.count();
  const int64_t step_a = a.count() == count ? 1 : 0;
  const int64_t step_b = b.count() == count ? 1 : 0;
  const T* x = a.data<T>();
  const T* y = b.data<T>();
  R* to = result.mutable_data<R>();
  prims::for_chunks(count, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = f(x[i * step_a], y[i * step_b]);
  });
  return result;
}

template <class T> T float_mod(T a, T b) {
  T r = std::fmod(a, b);
  if (r != 0 && (r < 0) != (b < 0)) r += b;
  return r == 0 ? std::copysign(T(0), b) : r;
}

template <class T> T integer_pow(T base, T exponent) {
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) {
      if (base == 1) return 1;
      if (base == -1) return exponent % 2 == 0 ? 1 : -1;
      return 0;  // 1 / base^n truncates to 0, and 1 / 0 is 0
    }
  }
  uint64_t result = 1, factor = static_cast<uint64_t>(base);
  for (uint64_t n = static_cast<uint64_t>(exponent); n != 0; n >>= 1) {
    if (n & 1) result *= factor;
    factor *= factor;
  }
  return static_cast<T>(result);
}

template <class T> T integer_div(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return static_cast<T>(-static_cast<uint64_t>(a));
  }
  return a / b;
}

template <class T> T integer_rem(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return a % b;
}

template <class T> T integer_mod(T a, T b) {
  const T r = integer_rem(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

template <class T> T shift_left(T a, T b) { return static_cast<uint64_t>(b) > 63 ? 0 : static_cast<T>(static_cast<uint64_t>(a) << b); }
template <class T> T shift_right(T a, T b) {
  if (static_cast<uint64_t>(b) > 63) return a < 0 ? static_cast<T>(-1) : 0;
  return a >> b;
}

template <class T> Tensor arithmetic(Op op, const Tensor& a, const Tensor& b, const Shape& shape) {
  auto with = [&](auto f) { return map<T, T>(a, b, shape, a.dtype(), f); };
  if constexpr (std::is_floating_point_v<T>) {
    switch (op) {
      case Op::add_: return with([](T x, T y) { return x + y; });
      case Op::sub_: return with([](T x, T y) { return x - y; });
      case Op::mul_: return with([](T x, T y) { return x * y; });
      case Op::div_: return with([](T x, T y) { return x / y; });
      case Op::rem_: return with([](T x, T y) { return std::fmod(x, y); });
      case Op::mod_: return with([](T x, T y) { return float_mod(x, y); });
      case Op::pow_: return with([](T x, T y) { return std::pow(x, y); });
      case Op::atan2_: return with([](T x, T y) { return std::atan2(x, y); });
      case Op::max_: return with([](T x, T y) { return larger(x, y); });
      case Op::min_: return with([](T x, T y) { return smaller(x, y); });
      default: internal_error("not a binary prim of floats");
    }
  } else {
    using U = uint64_t;
    switch (op) {
      case Op::add_: return with([](T x, T y) { return static_cast<T>(U(x) + U(y)); });
      case Op::sub_: return with([](T x, T y) { return static_cast<T>(U(x) - U(y)); });
      case Op::mul_: return with([](T x, T y) { return static_cast<T>(U(x) * U(y)); });
      case Op::div_: return with([](T x, T y) { return integer_div(x, y); });
      case Op::rem_: return with([](T x, T y) { return integer_rem(x, y); });
      case Op::mod_: return with([](T x, T y) { return integer_mod(x, y); });
      case Op::pow_: return with([](T x, T y) { return integer_pow(x, y); });
      case Op::max_: return with([](T x, T y) { return larger(x, y); });
      case Op::min_: return with([](T x, T y) { return smaller(x, y); });
      case Op::and_: return with([](T x, T y) { return x & y; });
      case Op::or_: return with([](T x, T y) { return x | y; });
      case Op::xor_: return with([](T x, T y) { return x ^ y; });
      case Op::shl_: return with([](T x, T y) { return shift_left(x, y); });
      case Op::shr_: return with([](T x, T y) { return shift_right(x, y); });
      default: internal_error("not a binary prim of integers");
    }
  }
}

template <class T> Tensor comparison(Op op, const Tensor& a, const Tensor& b, const Shape& shape) {
  auto with = [&](auto f) { return map<T, uint8_t>(a, b, shape, DType::boolean, f); };
  switch (op) {
    case Op::eq_: return with([](T x, T y) { return x == y; });
    case Op::ne_: return with([](T x, T y) { return x != y; });
    case Op::lt_: return with([](T x, T y) { return x < y; });
    case Op::le_: return with([](T x, T y) { return x <= y; });
    case Op::gt_: return with([](T x, T y) { return x > y; });
    default: return with([](T x, T y) { return x >= y; });
  }
}

}  // namespace

std::vector<Tensor> eval_binary(const EvalInput& input) {
  const Op op = input.node.op;
  const Shape shape = prims::result_shape(input);
  auto operand = [&](int i) {
    const Tensor x = prims::working(input, i);
    return x.count() == 1 ? x : prims::broadcast_to(x, shape);
  };
  const Tensor a = operand(0);
  const Tensor b = operand(1);
  check(a.dtype() == b.dtype(), "a binary prim has operands of two dtypes");
  const bool compares = op == Op::eq_ || op == Op::ne_ || op == Op::lt_ || op == Op::le_ || op == Op::gt_ || op == Op::ge_;
  return prims::visit_working(a.dtype(), [&](auto zero) -> std::vector<Tensor> {
    using T = decltype(zero);
    if (compares) return {comparison<T>(op, a, b, shape)};
    return prims::finish(input, arithmetic<T>(op, a, b, shape));
  });
}

}  // namespace tcc
