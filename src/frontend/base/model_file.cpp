#include "frontend/base/model_file.h"

#include <filesystem>

#include "tcc/support/diagnostics.h"
#include "tcc/support/files.h"

namespace tcc {

namespace {

/// Where the model lies: the folder of its path, and when that is a symbolic link, also the folder of the file that it leads to.
std::vector<std::string> folders_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::vector<std::string> folders = {slash == std::string::npos ? "." : path.substr(0, slash + 1)};
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return folders;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  if (!error) folders.push_back(real.parent_path().string());
  return folders;
}

ModelFile read_standard_input() {
  const auto text = std::make_shared<const std::string>(read_stdin());
  return {"<stdin>", {"."}, std::as_bytes(std::span(*text)), text};
}

ModelFile map_file(const std::string& path) {
  const auto mapped = MappedFile::open(path);
  return {path, folders_of(path), mapped->bytes(), mapped};
}

}  // namespace

ModelFile open_model_file(const std::string& path) {
  ModelFile file = path == "-" ? read_standard_input() : map_file(path);
  if (file.bytes.empty()) throw Error(ExitCode::model, "malformed-file", file.name, "the file is empty, a model was expected");
  return file;
}

}  // namespace tcc
