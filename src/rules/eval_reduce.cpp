// Evaluators of reductions, of argmax and argmin, and of cumulative.
//
// A reduction over several groups of neighbouring axes goes one group at a time, innermost last, each as [outer, extent, inner] -> [outer, inner]
// in the accumulator's type: rows when inner is 1, whole vectors added otherwise, so memory is always read in order.

#include "rules/reducer.h"
#include "rules/working.h"

#include "tcc/support/integer_math.h"

namespace tcc {
namespace {

using rules::AxisView;

template <class Reducer, class From, class Accumulator>
void reduce_middle(const AxisView& view, const From* from, Accumulator* to, Accumulator identity) {
  if (view.inner == 1) {
    rules::for_chunks(view.outer, view.extent, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const From* row = from + o * view.extent;
        // Four partial results hide the latency of one addition.
        Accumulator part[4] = {identity, identity, identity, identity};
        int64_t i = 0;
        for (; i + 4 <= view.extent; i += 4) {
          for (int j = 0; j < 4; ++j) part[j] = Reducer::fold(part[j], static_cast<Accumulator>(row[i + j]));
        }
        for (; i < view.extent; ++i) part[0] = Reducer::fold(part[0], static_cast<Accumulator>(row[i]));
        to[o] = Reducer::fold(Reducer::fold(part[0], part[1]), Reducer::fold(part[2], part[3]));
      }
    });
    return;
  }
  // Threads share out [outer x blocks of inner].
  constexpr int64_t kBlock = 512;
  const int64_t blocks = ceil_div(view.inner, kBlock);
  rules::for_chunks(view.outer * blocks, view.extent * std::min(kBlock, view.inner), [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t o = item / blocks, first = item % blocks * kBlock;
      const int64_t size = std::min(kBlock, view.inner - first);
      Accumulator* out = to + o * view.inner + first;
      std::fill_n(out, size, identity);
      for (int64_t i = 0; i < view.extent; ++i) {
        const From* row = from + (o * view.extent + i) * view.inner + first;
        for (int64_t j = 0; j < size; ++j) out[j] = Reducer::fold(out[j], static_cast<Accumulator>(row[j]));
      }
    }
  });
}

template <class Reducer, class T, class Accumulator>
Tensor reduce(const Tensor& x, const std::vector<int64_t>& axes, Accumulator identity, const Shape& result_shape) {
  constexpr DType dtype = std::is_same_v<Accumulator, double>    ? DType::f64
                          : std::is_same_v<Accumulator, float>   ? DType::f32
                          : std::is_same_v<Accumulator, int64_t> ? DType::i64
                                                                 : DType::u64;
  std::vector<bool> reduced(x.shape().size(), false);
  for (int64_t axis : axes) reduced[static_cast<size_t>(axis)] = true;
  Shape shape = x.shape();
  Tensor current = x;
  bool first = true;
  for (size_t end = shape.size(); end > 0;) {
    if (!reduced[end - 1]) {
      --end;
      continue;
    }
    size_t begin = end;
    while (begin > 0 && reduced[begin - 1]) --begin;
    AxisView view;
    for (size_t i = 0; i < shape.size(); ++i) (i < begin ? view.outer : i < end ? view.extent : view.inner) *= shape[i];
    for (size_t i = begin; i < end; ++i) shape[i] = 1;
    Tensor next(dtype, shape);
    if (first) reduce_middle<Reducer>(view, current.data<T>(), next.mutable_data<Accumulator>(), identity);
    else reduce_middle<Reducer>(view, current.data<Accumulator>(), next.mutable_data<Accumulator>(), identity);
    current = next;
    first = false;
    end = begin;
  }
  if (first) current = current.cast_to(dtype);  // no axes
  return current.reshaped(result_shape);
}

}  // namespace

std::vector<Tensor> eval_reduce(const EvalInput& input) {
  const Tensor x = rules::working(input, 0);
  Tensor result;
  rules::visit_working(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    rules::visit_reducer<T>(combiner_of(input.node.op), input.operands[0].dtype(), [&](auto reducer, auto identity) {
      result = reduce<decltype(reducer), T>(x, input.node.attrs.get_ints("axes"), identity, rules::result_shape(input));
    });
  });
  return rules::finish(input, result);
}

std::vector<Tensor> eval_argmax(const EvalInput& input) {
  const Tensor x = rules::working(input, 0);
  const AxisView view = rules::around_axis(x.shape(), input.node.attrs.get_int("axis"));
  const bool last = input.node.attrs.get_bool("last");
  const bool largest = input.node.op == Op::argmax_;
  Tensor result(DType::i64, rules::result_shape(input));
  rules::visit_working(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.data<T>();
    int64_t* to = result.mutable_data<int64_t>();
    auto better = [&](T candidate, T best) {
      if (best != best) return last && candidate != candidate;  // NaN wins over all but a later NaN
      if (candidate != candidate) return true;
      return (largest ? candidate > best : candidate < best) || (last && candidate == best);
    };
    rules::for_chunks(view.outer * view.inner, view.extent, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const T* line = from + item / view.inner * view.extent * view.inner + item % view.inner;
        int64_t best = 0;
        for (int64_t i = 1; i < view.extent; ++i) {
          if (better(line[i * view.inner], line[best * view.inner])) best = i;
        }
        to[item] = best;
      }
    });
  });
  return {result};
}

std::vector<Tensor> eval_cumulative(const EvalInput& input) {
  const Tensor x = rules::working(input, 0);
  const AxisView view = rules::around_axis(x.shape(), input.node.attrs.get_int("axis"));
  const bool reverse = input.node.attrs.get_bool("reverse");
  const bool exclusive = input.node.attrs.get_bool("exclusive");
  Tensor result(x.dtype(), x.shape());
  rules::visit_working(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.data<T>();
    T* to = result.mutable_data<T>();
    rules::visit_reducer<T>(rules::combiner_in(input.node.attrs, "op"), input.operands[0].dtype(), [&](auto reducer, auto identity) {
      rules::for_chunks(view.outer * view.inner, view.extent, [&](int64_t begin, int64_t end) {
        for (int64_t item = begin; item < end; ++item) {
          const int64_t offset = item / view.inner * view.extent * view.inner + item % view.inner;
          auto accumulator = identity;
          for (int64_t i = 0; i < view.extent; ++i) {
            const int64_t at = offset + (reverse ? view.extent - 1 - i : i) * view.inner;
            const auto next = reducer.fold(accumulator, static_cast<decltype(accumulator)>(from[at]));
            to[at] = static_cast<T>(exclusive ? accumulator : next);
            accumulator = next;
          }
        }
      });
    });
  });
  return rules::finish(input, result);
}

}  // namespace tcc
