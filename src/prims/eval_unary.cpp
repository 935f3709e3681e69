// Evaluators of the unary prims. Floats use the C library in their working dtype; its functions are within an ulp or so, which is what
// generated code is held to.

#include <cmath>
#include <type_traits>

#include "prims/working.h"

namespace tcc {
namespace {

template <class T, class R, class F> Tensor map(const Tensor& x, DType dtype, F f) {
  Tensor result(dtype, x.shape());
  const T* from = x.data<T>();
  R* to = result.mutable_data<R>();
  prims::for_chunks(x.count(), 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = f(from[i]);
  });
  return result;
}

template <class T> Tensor float_unary(Op op, const Tensor& x) {
  const DType dtype = x.dtype();
  auto with = [&](auto f) { return map<T, T>(x, dtype, f); };
  switch (op) {
    case Op::neg_: return with([](T v) { return -v; });
    case Op::abs_: return with([](T v) { return std::fabs(v); });
    case Op::sign_: return with([](T v) { return v > 0 ? T(1) : v < 0 ? T(-1) : v; });  // zeros keep their sign, NaN stays
    case Op::ceil_: return with([](T v) { return std::ceil(v); });
    case Op::floor_: return with([](T v) { return std::floor(v); });
    case Op::trunc_: return with([](T v) { return std::trunc(v); });
    case Op::round_even_: return with([](T v) { return std::nearbyint(v); });
    case Op::sqrt_: return with([](T v) { return std::sqrt(v); });
    case Op::rsqrt_: return with([](T v) { return T(1) / std::sqrt(v); });
    case Op::recip_: return with([](T v) { return T(1) / v; });
    case Op::exp_: return with([](T v) { return std::exp(v); });
    case Op::exp2_: return with([](T v) { return std::exp2(v); });
    case Op::expm1_: return with([](T v) { return std::expm1(v); });
    case Op::log_: return with([](T v) { return std::log(v); });
    case Op::log2_: return with([](T v) { return std::log2(v); });
    case Op::log1p_: return with([](T v) { return std::log1p(v); });
    case Op::sin_: return with([](T v) { return std::sin(v); });
    case Op::cos_: return with([](T v) { return std::cos(v); });
    case Op::tan_: return with([](T v) { return std::tan(v); });
    case Op::asin_: return with([](T v) { return std::asin(v); });
    case Op::acos_: return with([](T v) { return std::acos(v); });
    case Op::atan_: return with([](T v) { return std::atan(v); });
    case Op::sinh_: return with([](T v) { return std::sinh(v); });
    case Op::cosh_: return with([](T v) { return std::cosh(v); });
    case Op::tanh_: return with([](T v) { return std::tanh(v); });
    case Op::asinh_: return with([](T v) { return std::asinh(v); });
    case Op::acosh_: return with([](T v) { return std::acosh(v); });
    case Op::atanh_: return with([](T v) { return std::atanh(v); });
    case Op::erf_: return with([](T v) { return std::erf(v); });
    default: internal_error("not a unary prim of floats");
  }
}

template <class T> Tensor integer_unary(Op op, const Tensor& x, bool is_bool) {
  auto with = [&](auto f) { return map<T, T>(x, x.dtype(), f); };
  switch (op) {
    case Op::neg_: return with([](T v) { return static_cast<T>(-static_cast<uint64_t>(v)); });
    case Op::abs_: return with([](T v) { return v < T(0) ? static_cast<T>(-static_cast<uint64_t>(v)) : v; });
    case Op::sign_: return with([](T v) { return v > T(0) ? T(1) : v < T(0) ? static_cast<T>(-1) : T(0); });
    case Op::not_: return is_bool ? with([](T v) { return T(v == 0); }) : with([](T v) { return static_cast<T>(~v); });
    default: internal_error("not a unary prim of integers");
  }
}

Tensor test(Op op, const Tensor& x) {
  return prims::visit_working(x.dtype(), [&](auto zero) -> Tensor {
    using T = decltype(zero);
    auto with = [&](auto f) { return map<T, uint8_t>(x, DType::boolean, f); };
    if constexpr (std::is_floating_point_v<T>) {
      if (op == Op::isnan_) return with([](T v) { return std::isnan(v); });
      if (op == Op::isinf_) return with([](T v) { return std::isinf(v); });
      return with([](T v) { return std::isfinite(v); });
    } else {
      const bool finite = op == Op::isfinite_;
      return with([finite](T) { return finite; });
    }
  });
}

}  // namespace

std::vector<Tensor> eval_unary(const EvalInput& input) {
  const Tensor x = prims::working(input, 0);
  const Op op = input.node.op;
  if (op == Op::isnan_ || op == Op::isinf_ || op == Op::isfinite_) return {test(op, x)};
  return prims::finish(input, prims::visit_working(x.dtype(), [&](auto zero) -> Tensor {
                         using T = decltype(zero);
                         if constexpr (std::is_floating_point_v<T>) return float_unary<T>(op, x);
                         else return integer_unary<T>(op, x, input.operands[0].dtype() == DType::boolean);
                       }));
}

}  // namespace tcc
