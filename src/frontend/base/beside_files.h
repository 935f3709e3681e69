// The files that a model names: they lie beside it (tcc/support/beside.h).
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tcc/support/files.h"

namespace tcc {

/// Bytes of a mapped file, which `file` keeps.
struct FilePart {
  std::shared_ptr<const MappedFile> file;
  std::span<const std::byte> bytes;
};

/// Each file is mapped once.
class BesideFiles {
 public:
  /// `folders`: where the model lies; of a model that is a link, where the link lies and then where the file does. `files_read` (may be null)
  /// receives the path of each file that is opened.
  BesideFiles(std::vector<std::string> folders, std::vector<std::string>* files_read)
      : folders_(std::move(folders)), files_read_(files_read) {}

  /// RuleError "external-data" for a file outside of the folders; Error (environment) for one that can't be read.
  std::shared_ptr<const MappedFile> open(const std::string& location);
  /// The same, and RuleError "malformed-file" for bytes outside of the file. `offset` and `num_bytes` are not negative.
  FilePart read(const std::string& location, int64_t offset, int64_t num_bytes);

 private:
  std::vector<std::string> folders_;
  std::vector<std::string>* files_read_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;  // by location
};

}  // namespace tcc
