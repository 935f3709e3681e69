// Evaluator of topk. NaN counts as larger than every number, so that the order is total; equal elements keep the order of their indices.

#include <numeric>

#include "rules/working.h"

namespace tcc {

std::vector<Tensor> eval_topk(const EvalInput& input) {
  const Tensor x = rules::working(input, 0);
  const rules::AxisView view = rules::around_axis(x.shape(), input.node.attrs.get_int("axis"));
  const int64_t k = input.node.attrs.get_int("k");
  const bool largest = input.node.attrs.get_bool("largest");
  Tensor values(x.dtype(), rules::result_shape(input));
  Tensor indices(DType::i64, rules::result_shape(input));
  rules::visit_working(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* value_to = values.mutable_data<T>();
    int64_t* index_to = indices.mutable_data<int64_t>();
    rules::for_chunks(view.outer * view.inner, view.extent * 16, [&](int64_t begin, int64_t end) {
      std::vector<int64_t> order(static_cast<size_t>(view.extent));
      for (int64_t item = begin; item < end; ++item) {
        const T* line = x.data<T>() + item / view.inner * view.extent * view.inner + item % view.inner;
        auto less = [&](T a, T b) { return a < b || (a == a && b != b); };
        auto before = [&](int64_t i, int64_t j) {
          const T a = line[i * view.inner], b = line[j * view.inner];
          if (less(a, b)) return !largest;
          if (less(b, a)) return largest;
          return i < j;
        };
        std::iota(order.begin(), order.end(), 0);
        std::partial_sort(order.begin(), order.begin() + k, order.end(), before);
        for (int64_t i = 0; i < k; ++i) {
          const int64_t at = (item / view.inner * k + i) * view.inner + item % view.inner;
          value_to[at] = line[order[static_cast<size_t>(i)] * view.inner];
          index_to[at] = order[static_cast<size_t>(i)];
        }
      }
    });
  });
  return {values.cast_to(rules::held_dtype(input)), indices};
}

}  // namespace tcc
