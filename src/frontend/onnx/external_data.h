// Tensors whose bytes are in another file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "frontend/onnx/proto.h"
#include "tcc/support/files.h"

namespace tcc::onnx {

struct ExternalBytes {
  std::shared_ptr<const MappedFile> file;
  std::span<const std::byte> bytes;
};

/// The external files of one model; each is mapped once.
class ExternalFiles {
 public:
  /// `folders`: where the model lies; of a model that is a link, where the link lies and then where the file does. `files_read` (may be null)
  /// receives the path of each file that is opened.
  ExternalFiles(std::vector<std::string> folders, std::vector<std::string>* files_read)
      : folders_(std::move(folders)), files_read_(files_read) {}
  /// The bytes that `location`, `offset` and `length` of a tensor name, in a file at or below one of the folders. `expected` is the size that the
  /// type needs: `length` must be exactly that. Errors: RuleError "external-data" for a place outside the folder, "malformed-file" for one
  /// outside the file; Error(environment) for a file that can't be read.
  ExternalBytes read(const pb::TensorProto& proto, int64_t expected);

 private:
  std::vector<std::string> folders_;
  std::vector<std::string>* files_read_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace tcc::onnx
