// Evaluators of the binary prims; operands broadcast as numpy does.
#include "rules/working.h"
#include "tcc/ops/scalar_functions.h"

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
  rules::for_chunks(count, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = f(x[i * step_a], y[i * step_b]);
  });
  return result;
}

struct Operands {
  explicit Operands(const EvalInput& input) : shape(rules::result_shape(input)), a(sized(input, 0)), b(sized(input, 1)) {
    check(a.dtype() == b.dtype(), "a binary prim has operands of two dtypes");
  }
  Tensor sized(const EvalInput& input, int i) const {
    const Tensor x = rules::working(input, i);
    return x.count() == 1 ? x : rules::broadcast_to(x, shape);
  }

  Shape shape;
  Tensor a, b;
};

}  // namespace

std::vector<Tensor> eval_binary(const EvalInput& input) {
  const Operands operands(input);
  return rules::finish(input, rules::visit_working(operands.a.dtype(), [&](auto zero) {
                         using T = decltype(zero);
                         return with_function<2, T>(input.node.op, [&](auto f) {
                           return map<T, T>(operands.a, operands.b, operands.shape, operands.a.dtype(), f);
                         });
                       }));
}

std::vector<Tensor> eval_compare(const EvalInput& input) {
  const Operands operands(input);
  return {rules::visit_working(operands.a.dtype(), [&](auto zero) {
    return with_comparison(input.node.op,
                           [&](auto f) { return map<decltype(zero), uint8_t>(operands.a, operands.b, operands.shape, DType::boolean, f); });
  })};
}

}  // namespace tcc
