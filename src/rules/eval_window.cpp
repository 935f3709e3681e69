// Evaluator of reduce_window. Max, min and sum over a box are separable, so the window is applied one axis at a time: a 3x3 pool reads six
// elements per result and not nine, and every axis is the same loop over [outer, extent, inner].

#include "rules/reducer.h"
#include "rules/working.h"

namespace tcc {
namespace {

struct AxisWindow {
  int64_t window, stride, low, high, dilation;
  bool trivial() const { return window == 1 && stride == 1 && low == 0 && high == 0; }
};

template <class Reducer, class From, class Accumulator>
Tensor along_axis(const Tensor& x, size_t axis, const AxisWindow& w, int64_t extent, Accumulator identity, DType dtype) {
  const rules::AxisView view = rules::around_axis(x.shape(), static_cast<int64_t>(axis));
  Shape shape = x.shape();
  shape[axis] = extent;
  Tensor result(dtype, shape);
  const From* from = x.data<From>();
  Accumulator* to = result.mutable_data<Accumulator>();
  rules::for_chunks(view.outer * extent, w.window * view.inner, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t o = item / extent, i = item % extent;
      Accumulator* out = to + item * view.inner;
      std::fill_n(out, view.inner, identity);
      for (int64_t k = 0; k < w.window; ++k) {
        const int64_t at = i * w.stride - w.low + k * w.dilation;
        if (at < 0 || at >= view.extent) continue;
        const From* row = from + (o * view.extent + at) * view.inner;
        for (int64_t j = 0; j < view.inner; ++j) out[j] = Reducer::fold(out[j], static_cast<Accumulator>(row[j]));
      }
    }
  });
  return result;
}

}  // namespace

std::vector<Tensor> eval_reduce_window(const EvalInput& input) {
  const Attrs& attrs = input.node.attrs;
  const Shape shape = rules::result_shape(input);
  const DType dtype = input.operands[0].dtype();
  const Tensor x = rules::working(input, 0);
  Tensor result;
  rules::visit_working(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    rules::visit_reducer<T>(rules::combiner_in(attrs, "op"), dtype, [&](auto reducer, auto identity) {
      using Reducer = decltype(reducer);
      using Accumulator = decltype(identity);
      const DType accumulated = std::is_same_v<Accumulator, double>     ? DType::f64
                                : std::is_same_v<Accumulator, uint64_t> ? DType::u64
                                                                        : x.dtype();
      result = x;
      for (size_t axis = shape.size(); axis-- > 0;) {
        const AxisWindow w{attrs.get_ints("window")[axis], attrs.get_ints("strides")[axis], attrs.get_ints("low")[axis],
                           attrs.get_ints("high")[axis], attrs.get_ints("dilations")[axis]};
        if (w.trivial()) continue;
        // The first axis changes the type from T to the accumulator's; where those are one type the two calls are the same.
        if (result.dtype() == x.dtype()) result = along_axis<Reducer, T>(result, axis, w, shape[axis], identity, accumulated);
        else result = along_axis<Reducer, Accumulator>(result, axis, w, shape[axis], identity, accumulated);
      }
    });
  });
  return rules::finish(input, result);
}

}  // namespace tcc
