// External data: a file beside the model, never one elsewhere. A model comes from strangers; if it could name /etc/shadow or ../../key,
// compiling it would copy that file into a library that is then given away. So the location must be relative, without `..`, and after all
// symbolic links are followed it must still be below the folder of the model. A model that is a link itself has two such folders: in a hub's
// cache, model and data are links with their own names into one folder of files named by hash.
#include "frontend/onnx/external_data.h"

#include <charconv>
#include <filesystem>

#include "tcc/graph/graph.h"

namespace tcc::onnx {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& message) { throw RuleError{"external-data", message}; }

int64_t number(const std::string& key, const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    refuse("external data: `" + key + "` is `" + text + "`, a decimal number was expected");
  }
  return value;
}

bool is_below(const fs::path& real, const std::string& folder) {
  std::error_code error;
  const fs::path inside = real.lexically_relative(fs::weakly_canonical(folder, error));
  return !inside.empty() && *inside.begin() != "..";
}

std::string safe_path(const std::string& location, const std::vector<std::string>& folders) {
  if (location.empty()) refuse("external data: `location` is missing");
  if (const size_t nul = location.find('\0'); nul != std::string::npos)
    refuse("external data: `" + location.substr(0, nul) + "` goes on after a NUL, which no file name has");
  const fs::path relative(location);
  if (relative.is_absolute()) refuse("external data: `" + location + "` is an absolute path, one relative to the model was expected");
  for (const fs::path& part : relative) {
    if (part == "..") refuse("external data: `" + location + "` leaves the folder of the model");
  }
  // The first that is there; when none is, the message names the place beside the model.
  std::error_code error;
  fs::path full = fs::path(folders.front()) / relative;
  for (size_t i = 1; i < folders.size() && !fs::exists(full, error); ++i) {
    if (const fs::path other = fs::path(folders[i]) / relative; fs::exists(other, error)) full = other;
  }
  const fs::path real = fs::weakly_canonical(full, error);
  for (const std::string& folder : folders) {
    if (is_below(real, folder)) return full.string();
  }
  refuse("external data: `" + location + "` is a symbolic link that leaves the folder of the model");
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
