// Which entries of an archive hold the program, and where its tensors lie.
#pragma once

#include <map>
#include <string>

#include "frontend/fx/archive.h"
#include "frontend/fx/program.h"
#include "tcc/support/diagnostics.h"

namespace tcc::fx {

/// A tensor of an archive: an entry of raw bytes, and how they are seen.
struct StoredTensor {
  std::string entry;  ///< "data/weights/weight_0"
  TensorMeta meta;
  std::vector<int64_t> strides;  ///< in elements
  int64_t offset = 0;            ///< in elements, into the entry
  bool pickled = false;
};

struct ArchiveIndex {
  std::string program;                          ///< the entry of the program's JSON
  std::string model;                            ///< the name that the archive has for it
  std::map<std::string, StoredTensor> tensors;  ///< by dotted name
};

/// Finds the program and the tables of its tensors. Errors (Error, exit code model): unsupported-format for zips that hold no program of torch.export
/// that tcc can read, malformed-file for tables that contradict themselves.
ArchiveIndex read_index(const Archive& archive, Diagnostics& diagnostics);

/// The tensor in row-major order: its bytes in the archive where they lie so, otherwise a copy. RuleError when they aren't there.
Tensor read_tensor(const Archive& archive, const StoredTensor& stored, const std::string& name);

}  // namespace tcc::fx
