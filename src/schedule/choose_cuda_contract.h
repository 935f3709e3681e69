// Schedules for contractions (matmul, linear) on CUDA.
#pragma once

#include <string>

#include "schedule/chooser.h"

namespace tcc::schedule {

/// Schedules the nest whose first dim has this name when it is a contraction (one sum of products of two loads for each element, and any epilogue) for which
/// tensor cores, shared tiles or a warp a result pay. False, and nothing chosen, for other nests.
bool choose_cuda_contract(Chooser& chooser, const std::string& first_dim);

}  // namespace tcc::schedule
