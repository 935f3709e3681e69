// Where the weights are in this process: inside the library, which the system maps from the file, or in a file of their own.
#pragma once

#include "runtime/stub/instance.h"

namespace tcc::stub {

/// Sets instance->weights. `path` is that of tcc_create_options, or null.
int map_weights(tcc_instance* instance, const char* path);
void unmap_weights(tcc_instance* instance);

}  // namespace tcc::stub
