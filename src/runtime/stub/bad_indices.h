// Indices that were out of range. Each check of a program has a slot, a word that is 0 until a kernel finds a bad index there and stores it. Kernels on a CUDA
// device write to the same memory of the host, so reading it costs nothing; what they wrote is there when something has waited for them.
#pragma once

#include "runtime/stub/instance.h"

namespace tcc::stub {

/// Slots for all functions; on a CPU instance their memory too (cuda_create() makes its own).
int create_bad_indices(tcc_instance* instance);
/// TCC_OK, or TCC_INDEX_OUT_OF_RANGE with a message about the first check of a bad index; then all are forgotten.
int report_bad_index(tcc_instance* instance);

}  // namespace tcc::stub
