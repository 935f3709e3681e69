// One matrix product for all contractions of the evaluators: C += A B, row-major, on one thread.
#pragma once

#include <cstdint>

namespace tcc::rules {

/// c[i * ldc + j] += sum over k of a[i * lda + k] * b[k * ldb + j] for i < m, j < n, k < depth. T: float, double, uint64_t (wrapping).
/// Sums run over k in blocks in a fixed order, so results don't depend on how a caller splits m and n; between machines they may differ
/// by whether multiply and add are fused.
template <class T> void gemm(int64_t m, int64_t n, int64_t depth, const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc);

extern template void gemm<float>(int64_t, int64_t, int64_t, const float*, int64_t, const float*, int64_t, float*, int64_t);
extern template void gemm<double>(int64_t, int64_t, int64_t, const double*, int64_t, const double*, int64_t, double*, int64_t);
extern template void gemm<uint64_t>(int64_t, int64_t, int64_t, const uint64_t*, int64_t, const uint64_t*, int64_t, uint64_t*, int64_t);

/// The block of C that is worth a thread's turn: callers split larger products into such blocks.
constexpr int64_t kGemmRows = 96;
constexpr int64_t kGemmColumns = 512;

}  // namespace tcc::rules
