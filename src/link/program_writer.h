// The program's bytes from its description; layout: tcc/runtime/program.h.
#pragma once

#include "link/weights_layout.h"
#include "tcc/link/link.h"

namespace tcc::link {

inline constexpr uint64_t kImageAlignment = 64;

/// `input` is checked; `weights` is the layout of stored_tensors(input). Images lie one after the other in their blob, each at a multiple of kImageAlignment, PTX with a NUL behind it.
std::string write_program(const LinkInput& input, const WeightsLayout& weights);
uint64_t image_size_bytes(const CudaImage& image);

}  // namespace tcc::link
