// The header of a state file, read against what the library keeps.
#pragma once

#include "runtime/stub/instance.h"

namespace tcc::stub {

/// "F32"; null for a dtype that safetensors files cannot hold.
const char* safetensors_dtype(uint32_t dtype);

/// Where a tensor's bytes are in the data of a file.
struct FileTensor {
  uint64_t begin, end;
  const program::StateTensor* tensor;  ///< null: of no interest
};

struct FileHeader {
  FileTensor* tensors = nullptr;  ///< from malloc; in the order of their places
  size_t num_tensors = 0;
  bool has_optimizer = false;  ///< there is a tensor of an optimizer, this library's or another's
  bool whole = false;          ///< optimizer state is taken too
};

/// Checks all of it: syntax, names, dtypes, shapes, places; that every tensor asked for is there once, and none that the library does not
/// know. `json` may hold anything. `path` is for messages. Sets header->tensors, to be freed by the caller, also when it fails.
int read_header(const ProgramView& view, const char* path, const char* json, size_t json_bytes, uint64_t data_bytes, bool parameters_only,
                FileHeader* header);

}  // namespace tcc::stub
