// The values that --input gives, each with where it came from, so that what does not fit is told of the file that has it.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tcc/driver/array_files.h"
#include "tcc/support/diagnostics.h"

namespace tcc::driver {

class GivenInputs {
 public:
  /// `where` is for what is no file's fault. Both must stay as long as this.
  GivenInputs(const std::vector<ExpectedTensor>& expected, const std::string& where);

  const std::vector<std::string>& names() const { return names_; }

  /// `name=path`, or an archive, whose arrays go where their names belong; it may also hold arrays of the names `others`. False: neither, but
  /// a file for the next free place.
  bool give_by_name(const std::string& text, const std::set<std::string>& others);
  void give_next(const std::string& path);

  /// The values in order, empty where none was given. Error (usage) that tells all of another dtype or shape.
  std::vector<std::optional<Tensor>> finish();

 private:
  size_t index_of(const std::string& name) const;  ///< how many there are when it is none of them
  void give(size_t i, Tensor tensor, const std::string& file, const std::string& what);

  const std::vector<ExpectedTensor>& expected_;
  const std::string& where_;
  std::vector<std::string> names_;
  std::vector<std::optional<Tensor>> values_;
  std::vector<Diagnostic> misfits_;
};

}  // namespace tcc::driver
