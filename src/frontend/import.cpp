// Finds the kind of a model file by its content, never by its name.
//   onnx         a protobuf message whose first bytes are a field of ModelProto
//   pt2          a zip archive
//   JSON         `{` first; a program of torch.export or tcc.fx
#include "tcc/frontend/import.h"

#include <filesystem>

#include "frontend/onnx/onnx.h"
#include "tcc/support/files.h"

namespace tcc {
namespace {

enum class Kind { onnx, archive, json };

Kind kind_of(std::string_view bytes) {
  if (bytes.starts_with("PK\x03\x04")) return Kind::archive;
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && bytes[first] == '{') return Kind::json;
  return Kind::onnx;  // protobuf has no mark of its own: the parser says whether it is a model
}

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

}  // namespace

std::unique_ptr<Graph> import_model(const std::string& path, const ImportOptions& options, Diagnostics& diagnostics) {
  onnx::ModelFile file;
  file.name = path == "-" ? "<stdin>" : path;
  std::shared_ptr<const MappedFile> mapped;
  std::string text;
  if (path == "-") {
    text = read_stdin();
    file.bytes = text;
    file.folders = {"."};
  } else {
    mapped = MappedFile::open(path);
    file.bytes = mapped->text();
    file.folders = folders_of(path);
  }
  if (file.bytes.empty()) { throw Error(ExitCode::model, "malformed-file", file.name, "the file is empty, a model was expected"); }
  switch (kind_of(file.bytes)) {
    case Kind::onnx: return onnx::import(file, options, diagnostics);
    case Kind::archive:
      diagnostics.not_supported("unsupported-format", file.name, "this is a torch.export archive (.pt2)");
      diagnostics.help(file.name, "export the model with torch.onnx.export");
      break;
    case Kind::json:
      diagnostics.not_supported("unsupported-format", file.name, "this is JSON (a torch.export program or tcc.fx)");
      diagnostics.help(file.name, "export the model with torch.onnx.export");
      break;
  }
  diagnostics.checkpoint(ExitCode::model);
  internal_error("a model kind without an importer was accepted");
}

}  // namespace tcc
