// Little-endian fields of file formats, and tensors made from the bytes of a file. Used by the readers beside this header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "tcc/support/tensor.h"

namespace tcc {

/// The unsigned integer at `offset`, which the caller has checked. The formats and the machines tcc runs on are little endian.
template <class Integer> Integer read_integer(std::span<const std::byte> bytes, size_t offset) {
  Integer value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <class Integer> void append_integer(std::string& text, Integer value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// A tensor over exactly its bytes in a file: a view, or a copy where the alignment is wrong or a bool is neither 0 nor 1.
Tensor tensor_from_file(DType dtype, Shape shape, std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

}  // namespace tcc
