// A nest read as a contraction: which of its dims are m, n, k and batch; then as a matmul, or as a convolution with its window, if it is one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedule/analysis.h"

namespace tcc::schedule {

/// One of the two factors.
struct Factor {
  loop::BufferRef buffer;
  std::vector<loop::Index> indices;
  bool guarded = false;           ///< load with `else 0`
  std::optional<DType> narrowed;  ///< what the elements are cast to before they are multiplied, where that is not the dtype of the sum
  /// What is multiplied is computed of the element and of others that are the same for several, such as a zero point and a scale; `narrowed` is its dtype.
  bool computed = false;
  bool dilated = false;                     ///< zero where a condition on the dims says so: its elements have zeros between them
  int axis_of(const loop::Var* var) const;  ///< the one axis whose index is var + things without it; -1
  /// Bits of an element in memory.
  int64_t bits() const { return size_bits(buffer->dtype); }
  bool is_contiguous(int axis) const { return axis == static_cast<int>(indices.size()) - 1; }
  bool uses(const loop::Var* var) const;
  DType dtype() const { return narrowed.value_or(buffer->dtype); }  ///< of what is multiplied
};

/// r[batch..., m..., n...] = epilogue(sum over k... of a[batch..., m..., k...] * b[batch..., n..., k...])
struct Contraction {
  std::string accumulator;
  DType dtype = DType::f32;          ///< of the sum: f32, or i32 of integers
  std::vector<loop::VarRef> dims;    ///< of the map, in order
  std::vector<loop::VarRef> k_dims;  ///< of the reduce, in order
  Factor a, b;
  std::vector<loop::VarRef> m_dims, n_dims, batch_dims;  ///< dims of the map that a alone, b alone, or both and neither use
  loop::VarRef contiguous;  ///< dim with stride 1 in the first store, one of `n_dims` if a factor alone uses it; null when there is none

  int64_t results() const { return iterations(dims); }
  int64_t length() const { return iterations(k_dims); }  ///< of the sum
};

/// Nothing, with a reason, for another nest: several reduces, other combiners or accumulators than sums in f32 or i32, factors that are no loads.
/// `masked`: a sum whose mask leaves terms out is one, too, and results some of which a mask leaves out.
std::optional<Contraction> as_contraction(const loop::Stmt& stmt, std::string* why_not = nullptr, bool masked = false);

/// A contraction that is a matmul for each batch index: one summed dim, a dim of rows and one of columns; others count as batch.
struct Matmul {
  loop::VarRef m, n, k;
  std::vector<loop::VarRef> batch;
  int a_m = 0, a_k = 0, b_n = 0, b_k = 0;  ///< axes of the factors

  int64_t batches() const { return iterations(batch); }
};
std::optional<Matmul> as_matmul(const Contraction& c, std::string* why_not = nullptr);

/// A contraction whose factor b is read through a window: n is pixels, k is input channels and the positions of the window.
struct Convolution {
  loop::VarRef out_channels, images, rows, columns;  ///< `images` and `rows` may be null
  loop::VarRef in_channels;                          ///< summed, with each position of the window
  std::vector<loop::VarRef> batch;                   ///< dims with blocks of their own: groups, depth
  std::vector<loop::VarRef> window;                  ///< summed positions of the kernel
  int64_t positions = 1;                             ///< of the window
  int64_t base_dilation = 1;                         ///< the images' elements are that far apart, zeros between them
};
std::optional<Convolution> as_convolution(const Contraction& c, std::string* why_not = nullptr);

}  // namespace tcc::schedule
