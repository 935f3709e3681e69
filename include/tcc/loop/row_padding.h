// Parameters whose rows have padding behind them (Buffer::row_padding), between memory and tensors, which have none.
#pragma once

#include <cstddef>

#include "tcc/loop/loop.h"
#include "tcc/support/tensor.h"

namespace tcc::loop {

/// Copies the rows of a dense array to where they are in memory, and back. The padding in `memory` stays as it is.
void pad_rows(const Buffer& buffer, const std::byte* dense, std::byte* memory);
void unpad_rows(const Buffer& buffer, const std::byte* memory, std::byte* dense);

/// The same for whole tensors; the padded one has the shape padded_extents(), and zeros in the padding.
Tensor with_row_padding(const Buffer& buffer, const Tensor& dense);
Tensor without_row_padding(const Buffer& buffer, const Tensor& padded);

}  // namespace tcc::loop
