// Tensors in bytes, seen by strides.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tcc/support/tensor.h"

namespace tcc::fx {

struct StridedView {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<int64_t> strides;  ///< in elements, one per axis
  int64_t offset = 0;            ///< in elements
};

/// The tensor in row-major order: those bytes where they lie aligned and so, otherwise a copy. RuleError "malformed-file", with the tensor's
/// name, when it reaches outside of the bytes.
Tensor read_strided(const StridedView& view, std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& name);

}  // namespace tcc::fx
