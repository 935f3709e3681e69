// Nests that read along one dim and write along another.
#pragma once

#include "schedule/chooser.h"

namespace tcc::schedule {

/// Schedules a pointwise nest that turns some of what it reads, through tiles in shared memory. False, with nothing chosen, for other nests.
bool choose_cuda_transpose(Chooser& chooser, const std::string& first_dim);

}  // namespace tcc::schedule
