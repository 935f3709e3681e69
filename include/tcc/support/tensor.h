// A dense, row-major tensor in host memory: weights, constants, inputs and the values of the interpreters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tcc/support/dtype.h"

namespace tcc {

using Shape = std::vector<int64_t>;

int64_t num_elements(std::span<const int64_t> shape);  ///< 1 for rank 0; saturates at INT64_MAX on overflow; 0 when an extent is 0 or less
int64_t storage_bytes(DType dtype, int64_t count);     ///< sub-byte types packed
std::vector<int64_t> row_major_strides(std::span<const int64_t> shape);  ///< in elements
std::string to_string(std::span<const int64_t> shape);                   ///< "[2, 3]"

// The rule of conversion between dtypes, the same in cast_to, in the `cast` prim and in generated code:
// - float to integer: truncates towards zero, saturates at the bounds of the integer, NaN becomes 0 (LLVM's fptosi.sat and fptoui.sat);
// - integer to a narrower integer, or of the other sign: the low bits (wraps);
// - anything to bool: whether it is not zero (NaN is true); bool to anything: 0 or 1;
// - to f32 and f64: rounded once, to nearest even; to a narrower float: rounded to f32 first, then from there (both targets can do that
//   at speed; f64 to f16 directly they can't). Overflow becomes infinity in f16, bf16 and f32, the largest finite value in the f8 kinds.

/// Bytes are shared and, once in a graph, never written: a copy of a Tensor is cheap and `data` may point into a mapped file.
class Tensor {
 public:
  Tensor() = default;
  /// Allocates, zero-filled, 64-byte aligned.
  Tensor(DType dtype, Shape shape);
  /// Views bytes that `owner` keeps alive (a mapped file).
  Tensor(DType dtype, Shape shape, const void* data, std::shared_ptr<const void> owner);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int rank() const { return static_cast<int>(shape_.size()); }
  int64_t count() const { return num_elements(shape_); }
  int64_t size_bytes() const { return storage_bytes(dtype_, count()); }
  bool defined() const { return data_ != nullptr; }

  const std::byte* bytes() const { return data_; }
  /// Only for a tensor made by the allocating constructor, before it is shared.
  std::byte* mutable_bytes();
  template <class T> const T* data() const { return reinterpret_cast<const T*>(data_); }
  template <class T> T* mutable_data() { return reinterpret_cast<T*>(mutable_bytes()); }

  /// The element at flat index i, converted. Any dtype; bool becomes 0 or 1.
  double as_double(int64_t i) const;
  int64_t as_int64(int64_t i) const;         ///< floats truncate towards zero; u64 beyond i64 wraps
  void set_double(int64_t i, double value);  ///< by the rule above, as from f64
  void set_int64(int64_t i, int64_t value);  ///< by the rule above, as from i64

  Tensor reshaped(Shape shape) const;          ///< same bytes, same count; not writable
  Tensor cast_to(DType dtype) const;           ///< element-wise, by the rule above
  bool same_bytes(const Tensor& other) const;  ///< dtype, shape and bytes equal

  static Tensor scalar(DType dtype, double value);
  static Tensor from_ints(std::vector<int64_t> values);  ///< i64, rank 1

 private:
  DType dtype_ = DType::f32;
  Shape shape_;
  const std::byte* data_ = nullptr;
  std::byte* writable_ = nullptr;
  std::shared_ptr<const void> owner_;
};

}  // namespace tcc
