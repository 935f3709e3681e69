// Evaluators of scatter_elements and scatter_nd. Updates are applied in row-major order of the indices on one thread: which of two updates
// of one element is last, and the order of float additions, are then the same in every run.

#include <cstring>
#include <string>
#include <type_traits>

#include "rules/working.h"
#include "tcc/ops/combiner.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/extremes.h"

namespace tcc {
namespace {

template <class T> void combine(Combiner combiner, T& element, T update) {
  constexpr bool wraps = std::is_integral_v<T>;
  switch (combiner) {
    case Combiner::assign: element = update; return;
    case Combiner::sum:
      element = wraps ? static_cast<T>(static_cast<uint64_t>(element) + static_cast<uint64_t>(update)) : element + update;
      return;
    case Combiner::prod:
      element = wraps ? static_cast<T>(static_cast<uint64_t>(element) * static_cast<uint64_t>(update)) : element * update;
      return;
    case Combiner::max: element = larger(element, update); return;
    case Combiner::min: element = smaller(element, update); return;
    case Combiner::and_:
    case Combiner::or_: break;
  }
  internal_error("a scatter by `" + std::string(name_of(combiner)) + "`");
}

Combiner combiner_of(const EvalInput& input) {
  const std::optional<Combiner> combiner = scatter_combiner_named(input.node.attrs.get_string("combiner"));
  check(combiner.has_value(), "a scatter whose combiner was checked");
  return *combiner;
}

Tensor copy_of(const Tensor& x) {
  Tensor result(x.dtype(), x.shape());
  std::memcpy(result.mutable_bytes(), x.bytes(), static_cast<size_t>(x.size_bytes()));
  return result;
}

}  // namespace

std::vector<Tensor> eval_scatter_elements(const EvalInput& input) {
  Tensor result = copy_of(rules::working(input, 0));
  const Tensor indices = input.operands[1].cast_to(DType::i64);
  const Tensor updates = rules::working(input, 2);
  const size_t axis = static_cast<size_t>(input.node.attrs.get_int("axis"));
  const Combiner combiner = combiner_of(input);
  const std::vector<int64_t> strides = row_major_strides(result.shape());
  const Shape& shape = indices.shape();
  rules::visit_working(result.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* to = result.mutable_data<T>();
    for (int64_t item = 0, count = indices.count(); item < count; ++item) {
      int64_t rest = item, offset = 0;
      for (size_t i = shape.size(); i-- > 0;) {
        if (i != axis) offset += rest % shape[i] * strides[i];
        rest /= shape[i];
      }
      int64_t at = indices.data<int64_t>()[item];
      if (at < 0) at += result.shape()[axis];
      if (at < 0 || at >= result.shape()[axis]) continue;
      combine<T>(combiner, to[offset + at * strides[axis]], updates.data<T>()[item]);
    }
  });
  return rules::finish(input, result);
}

std::vector<Tensor> eval_scatter_nd(const EvalInput& input) {
  Tensor result = copy_of(rules::working(input, 0));
  const Tensor indices = input.operands[1].cast_to(DType::i64);
  const Tensor updates = rules::working(input, 2);
  const Combiner combiner = combiner_of(input);
  const size_t depth = static_cast<size_t>(indices.shape().back());
  const std::vector<int64_t> strides = row_major_strides(result.shape());
  int64_t slice = 1;
  for (size_t i = depth; i < result.shape().size(); ++i) slice *= result.shape()[i];
  const int64_t tuples = num_elements(std::span(indices.shape()).first(indices.shape().size() - 1));
  rules::visit_working(result.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* to = result.mutable_data<T>();
    for (int64_t item = 0; item < tuples; ++item) {
      int64_t offset = 0;
      bool inside = true;
      for (size_t i = 0; i < depth; ++i) {
        int64_t at = indices.data<int64_t>()[item * static_cast<int64_t>(depth) + static_cast<int64_t>(i)];
        if (at < 0) at += result.shape()[i];
        inside = inside && at >= 0 && at < result.shape()[i];
        offset += at * strides[i];
      }
      if (!inside) continue;
      for (int64_t i = 0; i < slice; ++i) combine<T>(combiner, to[offset + i], updates.data<T>()[item * slice + i]);
    }
  });
  return rules::finish(input, result);
}

}  // namespace tcc
