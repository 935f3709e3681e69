// Evaluator of dot_general: operands are brought to [batch, M, K] and [batch, K, N] (a copy only where they lie otherwise), then blocks of the
// result are shared out among the threads.

#include "rules/gemm.h"
#include "rules/working.h"

namespace tcc {
namespace {

std::vector<int64_t> free_axes(int rank, const std::vector<int64_t>& batch, const std::vector<int64_t>& contract) {
  std::vector<int64_t> axes;
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (std::find(batch.begin(), batch.end(), axis) == batch.end() && std::find(contract.begin(), contract.end(), axis) == contract.end()) {
      axes.push_back(axis);
    }
  }
  return axes;
}

std::vector<int64_t> joined(std::vector<int64_t> a, const std::vector<int64_t>& b, const std::vector<int64_t>& c) {
  a.insert(a.end(), b.begin(), b.end());
  a.insert(a.end(), c.begin(), c.end());
  return a;
}

int64_t extent_of(const Tensor& x, const std::vector<int64_t>& axes) {
  int64_t extent = 1;
  for (int64_t axis : axes) extent *= x.shape()[static_cast<size_t>(axis)];
  return extent;
}

template <class T> void batched(int64_t batch, int64_t m, int64_t n, int64_t depth, const T* a, const T* b, T* c) {
  const int64_t row_blocks = (m + rules::kGemmRows - 1) / rules::kGemmRows;
  const int64_t column_blocks = (n + rules::kGemmColumns - 1) / rules::kGemmColumns;
  const int64_t cost = std::min(m, rules::kGemmRows) * std::min(n, rules::kGemmColumns) * std::max<int64_t>(depth, 1) / 8 + 1;
  rules::for_chunks(batch * row_blocks * column_blocks, cost, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      // Blocks of rows vary fastest among neighbours in one chunk, so that the block of B is still in the cache.
      const int64_t i = item % row_blocks * rules::kGemmRows;
      const int64_t j = item / row_blocks % column_blocks * rules::kGemmColumns;
      const int64_t at = item / row_blocks / column_blocks;
      rules::gemm<T>(std::min(rules::kGemmRows, m - i), std::min(rules::kGemmColumns, n - j), depth, a + (at * m + i) * depth, depth,
                     b + at * depth * n + j, n, c + (at * m + i) * n + j, n);
    }
  });
}

}  // namespace

std::vector<Tensor> eval_dot_general(const EvalInput& input) {
  const Attrs& attrs = input.node.attrs;
  const DType dtype = rules::working_dtype(rules::held_dtype(input), input.f64);
  const Tensor& lhs = input.operands[0];
  const Tensor& rhs = input.operands[1];
  const std::vector<int64_t>& lhs_batch = attrs.get_ints("lhs_batch");
  const std::vector<int64_t>& rhs_batch = attrs.get_ints("rhs_batch");
  const std::vector<int64_t>& lhs_contract = attrs.get_ints("lhs_contract");
  const std::vector<int64_t>& rhs_contract = attrs.get_ints("rhs_contract");
  const std::vector<int64_t> lhs_free = free_axes(lhs.rank(), lhs_batch, lhs_contract);
  const std::vector<int64_t> rhs_free = free_axes(rhs.rank(), rhs_batch, rhs_contract);
  const Tensor a = rules::transpose(lhs, joined(lhs_batch, lhs_free, lhs_contract)).cast_to(dtype);
  const Tensor b = rules::transpose(rhs, joined(rhs_batch, rhs_contract, rhs_free)).cast_to(dtype);
  const int64_t batch = extent_of(lhs, lhs_batch), m = extent_of(lhs, lhs_free), n = extent_of(rhs, rhs_free),
                depth = extent_of(lhs, lhs_contract);

  Tensor result(dtype, rules::result_shape(input));
  rules::visit_working(dtype, [&](auto zero) {
    // Wrapping products are the same for signed and unsigned.
    using T = std::conditional_t<std::is_same_v<decltype(zero), int64_t>, uint64_t, decltype(zero)>;
    if (n == 1)
      batched<T>(batch, 1, m, depth, b.data<T>(), rules::transpose(a.reshaped({batch, m, depth}), {0, 2, 1}).template data<T>(),
                 result.mutable_data<T>());
    else batched<T>(batch, m, n, depth, a.data<T>(), b.data<T>(), result.mutable_data<T>());
  });
  return rules::finish(input, result);
}

}  // namespace tcc
