#include "tcc/loop/row_padding.h"

#include <cstring>

#include "tcc/support/diagnostics.h"

namespace tcc::loop {

namespace {

struct Rows {
  size_t count, bytes, padded_bytes;
};

Rows rows_of(const Buffer& buffer) {
  if (buffer.row_padding() == 0) {
    const auto bytes = static_cast<size_t>(storage_bytes(buffer.dtype, buffer.count()));
    return {1, bytes, bytes};
  }
  if (buffer.count() == 0) return {0, 0, 0};
  check(size_bits(buffer.dtype) >= 8, "rows of a packed dtype have no padding");
  const auto element = static_cast<size_t>(size_bytes(buffer.dtype));
  const auto row = static_cast<size_t>(buffer.extents.back()), padding = static_cast<size_t>(buffer.row_padding());
  return {static_cast<size_t>(buffer.count()) / row, row * element, (row + padding) * element};
}

}  // namespace

void pad_rows(const Buffer& buffer, const std::byte* dense, std::byte* memory) {
  const Rows rows = rows_of(buffer);
  for (size_t row = 0; row < rows.count; ++row) std::memcpy(memory + row * rows.padded_bytes, dense + row * rows.bytes, rows.bytes);
}

void unpad_rows(const Buffer& buffer, const std::byte* memory, std::byte* dense) {
  const Rows rows = rows_of(buffer);
  for (size_t row = 0; row < rows.count; ++row) std::memcpy(dense + row * rows.bytes, memory + row * rows.padded_bytes, rows.bytes);
}

Tensor with_row_padding(const Buffer& buffer, const Tensor& dense) {
  if (buffer.row_padding() == 0) return dense;
  Tensor padded(buffer.dtype, buffer.padded_extents());
  pad_rows(buffer, dense.bytes(), padded.mutable_bytes());
  return padded;
}

Tensor without_row_padding(const Buffer& buffer, const Tensor& padded) {
  if (buffer.row_padding() == 0) return padded;
  Tensor dense(buffer.dtype, buffer.extents);
  unpad_rows(buffer, padded.bytes(), dense.mutable_bytes());
  return dense;
}

}  // namespace tcc::loop
