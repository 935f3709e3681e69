// Where `tcc run --save` puts tensors: files of a folder, or one .npz under their names.
#pragma once

#include <map>
#include <string>

#include "tcc/support/tensor.h"

namespace tcc::cli {

class SavedTensors {
 public:
  /// "" saves nothing. Makes the folder, so that one that can't be made is told before the work.
  explicit SavedTensors(const std::string& path);
  /// Refuses (usage) what an archive can't hold, before the work too.
  void check(const std::string& name, DType dtype) const;
  /// `file` is its name in a folder, without ending. Returns the path, or "" where nothing is saved.
  std::string add(const std::string& name, const std::string& file, const Tensor& tensor);
  /// Writes the archive.
  void finish() const;

 private:
  std::string path_;
  bool is_archive_;
  std::map<std::string, Tensor> arrays_;
};

}  // namespace tcc::cli
