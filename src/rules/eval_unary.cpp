// Evaluators of the unary prims.
#include "rules/working.h"
#include "tcc/ops/scalar_functions.h"

namespace tcc {
namespace {

template <class T, class R, class F> Tensor map(const Tensor& x, DType dtype, F f) {
  Tensor result(dtype, x.shape());
  const T* from = x.data<T>();
  R* to = result.mutable_data<R>();
  rules::for_chunks(x.count(), 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = f(from[i]);
  });
  return result;
}

}  // namespace

std::vector<Tensor> eval_unary(const EvalInput& input) {
  const Tensor x = rules::working(input, 0);
  const Op op = input.node.op;
  return rules::finish(input, rules::visit_working(x.dtype(), [&](auto zero) -> Tensor {
                         using T = decltype(zero);
                         if (op == Op::not_ && input.operands[0].dtype() == DType::boolean)
                           return map<T, T>(x, x.dtype(), [](T v) { return static_cast<T>(v == 0); });
                         return with_function<1, T>(op, [&](auto f) { return map<T, T>(x, x.dtype(), f); });
                       }));
}

std::vector<Tensor> eval_test(const EvalInput& input) {
  const Tensor x = rules::working(input, 0);
  return {rules::visit_working(x.dtype(), [&](auto zero) {
    return with_test(input.node.op, [&](auto f) { return map<decltype(zero), uint8_t>(x, DType::boolean, f); });
  })};
}

}  // namespace tcc
