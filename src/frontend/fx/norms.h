// What the backward forms of norms share: their results are the gradients of input, weight and bias, as far as a mask asks for them.
#pragma once

#include <vector>

#include "frontend/fx/call.h"

namespace tcc::fx {

/// Rank-1 weights of a norm over axis 1 of `input`.
Type channels_of(Call& call);

/// `output_mask`, of `count` truth values, false for a weight that there is none of.
std::vector<int64_t> mask_of(Call& call, size_t count);

}  // namespace tcc::fx
