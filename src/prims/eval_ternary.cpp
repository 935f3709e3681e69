// Evaluators of select, clamp, fma and check_index; operands broadcast as numpy does.

#include <cmath>
#include <type_traits>

#include "prims/working.h"
#include "tcc/support/extremes.h"

namespace tcc {
namespace {

template <class C, class T, class F> Tensor map(const Tensor& c, const Tensor& a, const Tensor& b, const Shape& shape, F f) {
  Tensor result(a.dtype(), shape);
  const int64_t count = result.count();
  const int64_t step_c = c.count() == count ? 1 : 0, step_a = a.count() == count ? 1 : 0, step_b = b.count() == count ? 1 : 0;
  const C* x = c.data<C>();
  const T* y = a.data<T>();
  const T* z = b.data<T>();
  T* to = result.mutable_data<T>();
  prims::for_chunks(count, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = f(x[i * step_c], y[i * step_a], z[i * step_b]);
  });
  return result;
}

/// NaN stays, and a NaN bound wins, as in max and min.
template <class T> T clamp(T x, T low, T high) { return smaller(larger(x, low), high); }

template <class T> T multiply_add(T x, T y, T z) {
  if constexpr (std::is_floating_point_v<T>) return std::fma(x, y, z);
  else return static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y) + static_cast<uint64_t>(z));
}

}  // namespace

std::vector<Tensor> eval_ternary(const EvalInput& input) {
  const Shape shape = prims::result_shape(input);
  auto sized = [&](const Tensor& x) { return x.count() == 1 ? x : prims::broadcast_to(x, shape); };
  const Tensor a = sized(prims::working(input, 1));
  const Tensor b = sized(prims::working(input, 2));
  if (input.node.op == Op::select_) {
    const Tensor condition = sized(input.operands[0]);
    return prims::finish(input, prims::visit_working(a.dtype(), [&](auto zero) {
                           using T = decltype(zero);
                           return map<uint8_t, T>(condition, a, b, shape, [](uint8_t c, T x, T y) { return c != 0 ? x : y; });
                         }));
  }
  const Tensor x = sized(prims::working(input, 0));
  return prims::finish(input, prims::visit_working(a.dtype(), [&](auto zero) {
                         using T = decltype(zero);
                         if (input.node.op == Op::clamp_)
                           return map<T, T>(x, a, b, shape, [](T v, T low, T high) { return clamp(v, low, high); });
                         return map<T, T>(x, a, b, shape, [](T v, T y, T z) { return multiply_add(v, y, z); });
                       }));
}

/// The value of x: reporting an index that is out of range is the library's.
std::vector<Tensor> eval_check_index(const EvalInput& input) {
  return {prims::broadcast_to(input.operands[0], prims::result_shape(input))};
}

}  // namespace tcc
