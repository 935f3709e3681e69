#include "frontend/base/beside_files.h"

#include "tcc/graph/graph.h"
#include "tcc/graph/rule_error.h"
#include "tcc/support/beside.h"

namespace tcc {

std::shared_ptr<const MappedFile> BesideFiles::open(const std::string& location) {
  std::shared_ptr<const MappedFile>& file = files_[location];
  if (file == nullptr) {
    const BesideFile beside = find_beside(location, folders_);
    if (!beside.fault.empty()) throw RuleError{"external-data", beside.fault};
    file = MappedFile::open(beside.path);
    if (files_read_ != nullptr) files_read_->push_back(beside.path);
  }
  return file;
}

FilePart BesideFiles::read(const std::string& location, int64_t offset, int64_t num_bytes) {
  const std::shared_ptr<const MappedFile> file = open(location);
  const auto size = static_cast<int64_t>(file->bytes().size());
  if (offset > size || num_bytes > size - offset) {
    throw RuleError{"malformed-file", "`" + location + "` has " + std::to_string(size) + " bytes, " + std::to_string(num_bytes) +
                                          " at offset " + std::to_string(offset) + " were expected"};
  }
  return {file, file->bytes().subspan(static_cast<size_t>(offset), static_cast<size_t>(num_bytes))};
}

}  // namespace tcc
