// Evaluators of select, clamp, fma and check_index; operands broadcast as numpy does.

#include "rules/working.h"
#include "tcc/ops/scalar_functions.h"

namespace tcc {
namespace {

/// In the shape of the result, or one element that stands for all.
Tensor sized(const Tensor& x, const Shape& shape) { return x.count() == 1 ? x : rules::broadcast_to(x, shape); }

template <class C, class T, class F> Tensor map(const Tensor& c, const Tensor& a, const Tensor& b, const Shape& shape, F f) {
  Tensor result(a.dtype(), shape);
  const int64_t count = result.count();
  const int64_t step_c = c.count() == count ? 1 : 0, step_a = a.count() == count ? 1 : 0, step_b = b.count() == count ? 1 : 0;
  const C* x = c.data<C>();
  const T* y = a.data<T>();
  const T* z = b.data<T>();
  T* to = result.mutable_data<T>();
  rules::for_chunks(count, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = f(x[i * step_c], y[i * step_a], z[i * step_b]);
  });
  return result;
}

}  // namespace

std::vector<Tensor> eval_select(const EvalInput& input) {
  const Shape shape = rules::result_shape(input);
  const Tensor condition = sized(input.operands[0], shape);
  const Tensor a = sized(rules::working(input, 1), shape), b = sized(rules::working(input, 2), shape);
  return rules::finish(input, rules::visit_working(a.dtype(), [&](auto zero) {
                         using T = decltype(zero);
                         return map<uint8_t, T>(condition, a, b, shape, [](uint8_t c, T x, T y) { return c != 0 ? x : y; });
                       }));
}

std::vector<Tensor> eval_ternary(const EvalInput& input) {
  const Shape shape = rules::result_shape(input);
  auto operand = [&](int i) { return sized(rules::working(input, i), shape); };
  const Tensor x = operand(0), y = operand(1), z = operand(2);
  return rules::finish(input, rules::visit_working(x.dtype(), [&](auto zero) {
                         using T = decltype(zero);
                         return with_function<3, T>(input.node.op, [&](auto f) { return map<T, T>(x, y, z, shape, f); });
                       }));
}

/// The value of x: reporting an index that is out of range is the library's.
std::vector<Tensor> eval_check_index(const EvalInput& input) {
  return {rules::broadcast_to(input.operands[0], rules::result_shape(input))};
}

}  // namespace tcc
