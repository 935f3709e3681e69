// Where the weights are in this process: inside the library, which the system maps from the file, or in a file of their own.
#pragma once

#include "runtime/stub/instance.h"

namespace tcc::stub {

/// Sets instance->weights: from the library, the file or the memory that the options name.
int map_weights(tcc_instance* instance, const tcc_create_options& options);
/// Reads all of them: fails when they are not those that the compiler wrote.
int check_weights(const tcc_instance* instance, const tcc_create_options& options);
void unmap_weights(tcc_instance* instance);

/// Where the weights lie that some code of a target uses, when they are packed one after the other, equal ones once, each at a multiple of
/// 256; the compiler counts those of the functions so (src/link/planned_memory). The CPU and CUDA plans use weights of their own, since each
/// may have packed some.
struct PackedWeights {
  uint64_t* offsets = nullptr;  ///< per weight
  bool* stored = nullptr;       ///< per weight: it has bytes of its own there
  uint64_t size_bytes = 0;
};
int pack_weights(tcc_instance* instance, Rows<program::FunctionCode> codes, PackedWeights* packed);

}  // namespace tcc::stub
