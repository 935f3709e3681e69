// Parameters of kernels as they lie in memory.
#pragma once

#include <cstring>

#include "tcc/loop/row_padding.h"

namespace tcc::codegen {

/// A copy of the tensor with the padding of rows, full of NaN: a kernel that uses it gives something else.
inline Tensor in_memory(const loop::Buffer& buffer, const Tensor& dense) {
  Tensor memory(buffer.dtype, buffer.padded_extents());
  std::memset(memory.mutable_bytes(), 0xff, static_cast<size_t>(memory.size_bytes()));
  loop::pad_rows(buffer, dense.bytes(), memory.mutable_bytes());
  return memory;
}

}  // namespace tcc::codegen
