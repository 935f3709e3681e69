// The state of an instance as a safetensors file: 8 bytes length of the header, little endian; the header, a JSON object of
// name -> {dtype, shape, data_offsets}; the data, without holes. Every other program that knows the format reads and writes it too.
#pragma once

#include "runtime/stub/instance.h"

namespace tcc::stub {

/// Parameters, statistics and optimizer state, into a file that takes the place of an earlier one when it is complete.
int save_state(tcc_instance* instance, const char* path);

/// All or nothing: the whole file is checked and read before anything of the instance changes. What is in it and what not: tcc_api.load_state.
int load_state(tcc_instance* instance, const char* path, bool parameters_only);

}  // namespace tcc::stub
