// Packed, register-blocked matrix product (Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, section 4).
//
// A block of A [96 x 256] and one of B [256 x 512] are copied into panels of 4 rows and of two vectors' columns, zero-filled at the edges, so
// that the inner loop reads both in order and has no cases: it holds a 4 x 2-vector tile of C in registers. The loop is compiled twice, for
// any x86-64 and for AVX2 with FMA, and chosen at run time.

#include "rules/gemm.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tcc/support/integer_math.h"

namespace tcc::rules {
namespace {

constexpr int64_t kRows = 4;     // of a register tile
constexpr int64_t kDepth = 256;  // of a packed block: a panel of B and one of A stay in the first-level cache

template <class T> struct Tile {
  static constexpr int64_t kLanes = 32 / sizeof(T);
  static constexpr int64_t kColumns = 2 * kLanes;
  typedef T Vector __attribute__((vector_size(32), aligned(alignof(T)), may_alias));
};

template <class T>
__attribute__((always_inline)) inline void multiply_panels(int64_t depth, const T* __restrict a, const T* __restrict b,
                                                           T* __restrict tile) {
  using Vector = typename Tile<T>::Vector;
  constexpr int64_t lanes = Tile<T>::kLanes;
  Vector sum[kRows][2] = {};
  for (int64_t k = 0; k < depth; ++k) {
    const Vector left = *reinterpret_cast<const Vector*>(b + k * 2 * lanes);
    const Vector right = *reinterpret_cast<const Vector*>(b + k * 2 * lanes + lanes);
#pragma GCC unroll 4
    for (int64_t i = 0; i < kRows; ++i) {
      const T x = a[k * kRows + i];
      sum[i][0] += left * x;
      sum[i][1] += right * x;
    }
  }
  for (int64_t i = 0; i < kRows; ++i) {
    *reinterpret_cast<Vector*>(tile + i * 2 * lanes) = sum[i][0];
    *reinterpret_cast<Vector*>(tile + i * 2 * lanes + lanes) = sum[i][1];
  }
}

template <class T> using Kernel = void (*)(int64_t, const T*, const T*, T*);

template <class T> void kernel_any(int64_t depth, const T* a, const T* b, T* tile) { multiply_panels<T>(depth, a, b, tile); }

#if defined(__x86_64__)
template <class T> __attribute__((target("avx2,fma"))) void kernel_avx2(int64_t depth, const T* a, const T* b, T* tile) {
  multiply_panels<T>(depth, a, b, tile);
}
#endif

template <class T> Kernel<T> kernel() {
#if defined(__x86_64__)
  static const Kernel<T> chosen = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? kernel_avx2<T> : kernel_any<T>;
  return chosen;
#else
  return kernel_any<T>;
#endif
}

/// Rows of A as panels of kRows rows: element (i, k) of a panel at k * kRows + i.
template <class T> void pack_rows(int64_t m, int64_t depth, const T* a, int64_t lda, T* to) {
  for (int64_t first = 0; first < m; first += kRows, to += kRows * depth) {
    const int64_t rows = std::min(kRows, m - first);
    for (int64_t i = 0; i < kRows; ++i) {
      const T* row = a + (first + i) * lda;
      for (int64_t k = 0; k < depth; ++k) to[k * kRows + i] = i < rows ? row[k] : T(0);
    }
  }
}

template <class T> void pack_columns(int64_t n, int64_t depth, const T* b, int64_t ldb, T* to) {
  constexpr int64_t width = Tile<T>::kColumns;
  for (int64_t first = 0; first < n; first += width, to += width * depth) {
    const int64_t columns = std::min(width, n - first);
    for (int64_t k = 0; k < depth; ++k) {
      const T* row = b + k * ldb + first;
      T* packed = to + k * width;
      for (int64_t j = 0; j < columns; ++j) packed[j] = row[j];
      for (int64_t j = columns; j < width; ++j) packed[j] = T(0);
    }
  }
}

/// A matrix-vector product and the like: with so few rows packing B would cost more than reading it once.
template <class T> void few_rows(int64_t m, int64_t n, int64_t depth, const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc) {
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t i = 0; i < m; ++i) {
      const T x = a[i * lda + k];
      const T* row = b + k * ldb;
      T* out = c + i * ldc;
      for (int64_t j = 0; j < n; ++j) out[j] += x * row[j];
    }
  }
}

}  // namespace

template <class T> void gemm(int64_t m, int64_t n, int64_t depth, const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc) {
  constexpr int64_t width = Tile<T>::kColumns;
  if (m <= 2) return few_rows(m, n, depth, a, lda, b, ldb, c, ldc);
  const Kernel<T> multiply = kernel<T>();
  const int64_t row_block = std::min(kGemmRows, align_up(m, kRows));
  const int64_t column_block = std::min(kGemmColumns, align_up(n, width));
  const int64_t depth_block = std::min(kDepth, depth);
  std::vector<T> packed_a(static_cast<size_t>(row_block * depth_block));
  std::vector<T> packed_b(static_cast<size_t>(column_block * depth_block));
  T tile[kRows * width];
  for (int64_t j0 = 0; j0 < n; j0 += column_block) {
    const int64_t columns = std::min(column_block, n - j0);
    for (int64_t k0 = 0; k0 < depth; k0 += depth_block) {
      const int64_t ks = std::min(depth_block, depth - k0);
      pack_columns(columns, ks, b + k0 * ldb + j0, ldb, packed_b.data());
      for (int64_t i0 = 0; i0 < m; i0 += row_block) {
        const int64_t rows = std::min(row_block, m - i0);
        pack_rows(rows, ks, a + i0 * lda + k0, lda, packed_a.data());
        for (int64_t j = 0; j < columns; j += width) {
          for (int64_t i = 0; i < rows; i += kRows) {
            multiply(ks, packed_a.data() + i * ks, packed_b.data() + j * ks, tile);
            const int64_t tile_rows = std::min(kRows, rows - i), tile_columns = std::min(width, columns - j);
            for (int64_t r = 0; r < tile_rows; ++r) {
              T* out = c + (i0 + i + r) * ldc + j0 + j;
              for (int64_t s = 0; s < tile_columns; ++s) out[s] += tile[r * width + s];
            }
          }
        }
      }
    }
  }
}

template void gemm<float>(int64_t, int64_t, int64_t, const float*, int64_t, const float*, int64_t, float*, int64_t);
template void gemm<double>(int64_t, int64_t, int64_t, const double*, int64_t, const double*, int64_t, double*, int64_t);
template void gemm<uint64_t>(int64_t, int64_t, int64_t, const uint64_t*, int64_t, const uint64_t*, int64_t, uint64_t*, int64_t);

}  // namespace tcc::rules
