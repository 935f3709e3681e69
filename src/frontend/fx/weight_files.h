// Tensors of a tcc.fx JSON file, in the files beside it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontend/base/beside_files.h"
#include "frontend/fx/fx_file.h"

namespace tcc::fx {

/// Each file is mapped once, and each tensor read once: functions that share a weight share its bytes.
class WeightFiles {
 public:
  /// `folders`: of the JSON file (tcc/support/beside.h). `files_read` (may be null) receives the path of each file that is opened.
  WeightFiles(const std::map<std::string, FileTensor>& tensors, std::vector<std::string> folders, std::vector<std::string>* files_read)
      : tensors_(tensors), files_(std::move(folders), files_read) {}

  bool has(const std::string& fqn) const { return tensors_.contains(fqn); }
  /// RuleError "external-data" for a file outside of the folder, "malformed-file" for a tensor outside of its file; Error (environment) for a
  /// file that can't be read.
  Tensor read(const std::string& fqn);

 private:
  const std::map<std::string, FileTensor>& tensors_;
  BesideFiles files_;
  std::map<std::string, Tensor> read_;
};

}  // namespace tcc::fx
