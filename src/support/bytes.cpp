// Tensors made from the bytes of a file.

#include "support/bytes.h"

#include <algorithm>
#include <utility>

#include "tcc/support/diagnostics.h"

namespace tcc {

Tensor tensor_from_file(DType dtype, Shape shape, std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  check(static_cast<int64_t>(bytes.size()) == storage_bytes(dtype, num_elements(shape)), "a tensor's bytes don't fit its shape");
  const auto is_bool = [](std::byte byte) { return std::to_integer<int>(byte) <= 1; };
  const bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % static_cast<size_t>(size_bytes(dtype)) == 0;
  if (aligned && (dtype != DType::boolean || std::all_of(bytes.begin(), bytes.end(), is_bool))) {
    return Tensor(dtype, std::move(shape), bytes.data(), std::move(owner));
  }
  Tensor copy(dtype, std::move(shape));
  if (dtype == DType::boolean) {
    std::transform(bytes.begin(), bytes.end(), copy.mutable_bytes(),
                   [](std::byte byte) { return byte == std::byte{0} ? byte : std::byte{1}; });
  } else if (!bytes.empty()) {
    std::memcpy(copy.mutable_bytes(), bytes.data(), bytes.size());
  }
  return copy;
}

}  // namespace tcc
