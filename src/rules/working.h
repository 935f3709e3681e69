// What the evaluators of prims share: the dtype they compute in, dense results, and the one strided copy behind all views.
//
// Every evaluator computes in one of four types, so that its loops exist four times and not once for each dtype:
//   f64                  f64, and every float in f64 mode
//   f32                  f32, and f16, bf16 and the f8 kinds, rounded once when the result is stored
//   i64, u64             signed integers; unsigned integers and bool. Storing keeps the low bits, which is wrapping arithmetic
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tcc/rules/eval.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/parallel.h"
#include "tcc/support/tensor.h"

namespace tcc::rules {

constexpr int64_t kGrain = 8192;  ///< elements of work below which another thread costs more than it saves

/// The dtype that values of `dtype` are computed in.
DType working_dtype(DType dtype, bool f64);
/// Operand i in its working dtype.
Tensor working(const EvalInput& input, int i);
/// The dtype that result i is held in: its type's, or f64 for floats in f64 mode.
DType held_dtype(const EvalInput& input, int i = 0);
Shape result_shape(const EvalInput& input, int i = 0);
/// The result from a tensor in its working dtype.
std::vector<Tensor> finish(const EvalInput& input, const Tensor& result);

/// Calls f(T{}) with the C++ type of a working dtype.
template <class F> decltype(auto) visit_working(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    case DType::i64: return f(int64_t{});
    case DType::u64: return f(uint64_t{});
    default: internal_error("not a working dtype");
  }
}

/// A view of memory: where its first element lies, and the distance between neighbours along each axis, both in elements.
struct Strided {
  int64_t offset = 0;
  std::vector<int64_t> strides;
};
/// Copies `shape` elements of `element_bytes` each; source strides may be zero or negative. Threaded.
void copy_strided(const Shape& shape, std::byte* destination, const Strided& to, const std::byte* source, const Strided& from,
                  int element_bytes);
/// A dense tensor of `shape` whose element at an index is source[from.offset + index * from.strides]. Any dtype.
Tensor gather_strided(const Tensor& source, const Shape& shape, const Strided& from);
/// Numpy broadcast to `shape`; the tensor itself when it has that shape.
Tensor broadcast_to(const Tensor& x, const Shape& shape);
Tensor transpose(const Tensor& x, const std::vector<int64_t>& permutation);  ///< x itself for the identity
Tensor unpacked(const Tensor& x);  ///< sub-byte elements in a byte each; other tensors as they are

/// shape as [outer, extent of axis, inner].
struct AxisView {
  int64_t outer = 1, extent = 1, inner = 1;
};
AxisView around_axis(std::span<const int64_t> shape, int64_t axis);

/// Calls body(begin, end) over the elements in [0, count), several threads when that pays; `cost` is the work of one element.
template <class F> void for_chunks(int64_t count, int64_t cost, F&& body) {
  parallel_for(count, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, cost)), body);
}

}  // namespace tcc::rules
