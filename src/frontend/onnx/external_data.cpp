// External data: a file beside the model, never one elsewhere (tcc/support/beside.h).
#include "frontend/onnx/external_data.h"

#include <charconv>

#include "tcc/graph/graph.h"
#include "tcc/support/beside.h"

namespace tcc::onnx {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw RuleError{"external-data", message}; }

int64_t number(const std::string& key, const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    refuse("external data: `" + key + "` is `" + text + "`, a decimal number was expected");
  }
  return value;
}

std::string safe_path(const std::string& location, const std::vector<std::string>& folders) {
  if (location.empty()) refuse("external data: `location` is missing");
  BesideFile file = find_beside(location, folders);
  if (!file.fault.empty()) refuse("external data: " + file.fault);
  return std::move(file.path);
}

}  // namespace

ExternalBytes ExternalFiles::read(const pb::TensorProto& proto, int64_t expected) {
  std::string location;
  int64_t offset = 0, length = -1;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = number("offset", entry.value());
    if (entry.key() == "length") length = number("length", entry.value());
  }
  std::shared_ptr<const MappedFile>& file = files_[location];
  if (!file) {
    const std::string path = safe_path(location, folders_);
    file = MappedFile::open(path);
    if (files_read_ != nullptr) files_read_->push_back(path);
  }
  ExternalBytes result;
  result.file = file;
  const auto size = static_cast<int64_t>(result.file->bytes().size());
  if (length >= 0 && length != expected) {
    throw RuleError{"malformed-file", "external data: `length` is " + std::to_string(length) + ", its type and shape need " +
                                          std::to_string(expected) + " bytes"};
  }
  if (offset > size || expected > size - offset) {
    throw RuleError{"malformed-file", "external data: `" + location + "` has " + std::to_string(size) + " bytes, " +
                                          std::to_string(expected) + " at offset " + std::to_string(offset) + " were expected"};
  }
  result.bytes = result.file->bytes().subspan(static_cast<size_t>(offset), static_cast<size_t>(expected));
  return result;
}

}  // namespace tcc::onnx
