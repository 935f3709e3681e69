#include "frontend/fx/strided.h"

#include <algorithm>
#include <cstring>

#include "tcc/graph/graph.h"
#include "tcc/graph/rule_error.h"
#include "tcc/rules/limits.h"

namespace tcc::fx {

namespace {

[[noreturn]] void lies_outside(const std::string& name) {
  throw RuleError{"malformed-file", "the tensor `" + name + "` lies outside of its bytes"};
}

/// The number of elements from the first to the last that strides reach; RuleError when that is more than there can be.
int64_t span_of(const Shape& shape, const std::vector<int64_t>& strides, const std::string& name) {
  int64_t last = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t reach = 0;
    if (strides[i] < 0 || shape[i] < 0) lies_outside(name);
    if (shape[i] == 0) return 0;
    if (__builtin_mul_overflow(shape[i] - 1, strides[i], &reach) || __builtin_add_overflow(last, reach, &last)) lies_outside(name);
  }
  return last + 1;
}

/// Gathers elements of `size` bytes by strides into row-major order.
void gather(std::byte* to, const std::byte* from, const Shape& shape, const std::vector<int64_t>& strides, size_t size, size_t axis) {
  if (axis == shape.size()) {
    std::memcpy(to, from, size);
    return;
  }
  int64_t inner = static_cast<int64_t>(size);
  for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  for (int64_t i = 0; i < shape[axis]; ++i)
    gather(to + i * inner, from + i * strides[axis] * static_cast<int64_t>(size), shape, strides, size, axis + 1);
}

}  // namespace

Tensor read_strided(const StridedView& view, std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& name) {
  const auto& [dtype, shape, strides, offset] = view;
  const int64_t count = span_of(shape, strides, name);
  int64_t first = 0, end = 0;
  if (offset < 0 || __builtin_mul_overflow(offset, size_bytes(dtype), &first) || __builtin_mul_overflow(count, size_bytes(dtype), &end) ||
      __builtin_add_overflow(end, first, &end) || end > static_cast<int64_t>(bytes.size()))
    lies_outside(name);
  if (count == 0) return Tensor(dtype, shape);
  const std::byte* data = bytes.data() + first;
  const bool is_aligned = reinterpret_cast<uintptr_t>(data) % static_cast<size_t>(size_bytes(dtype)) == 0;
  bool is_dense = true;
  const std::vector<int64_t> dense = row_major_strides(shape);
  for (size_t i = 0; i < shape.size(); ++i) is_dense = is_dense && (shape[i] == 1 || strides[i] == dense[i]);
  if (is_dense && is_aligned) return Tensor(dtype, shape, data, std::move(owner));
  // Strides of 0 make any number of elements out of one.
  int64_t copied = 0;
  if (__builtin_mul_overflow(num_elements(shape), size_bytes(dtype), &copied) ||
      copied > std::max(kMaxFoldedBytes, static_cast<int64_t>(bytes.size())))
    throw RuleError{"too-large", "the tensor `" + name + "` repeats its bytes to " + size_text(copied)};
  Tensor tensor(dtype, shape);
  gather(tensor.mutable_bytes(), data, shape, strides, static_cast<size_t>(size_bytes(dtype)), 0);
  return tensor;
}

}  // namespace tcc::fx
