// Finds the kind of a model file by its content, never by its name. Protobuf has no mark of its own: what has no other mark is for the ONNX
// parser to judge.
#include "tcc/frontend/import.h"

#include <filesystem>

#include "frontend/onnx/onnx.h"
#include "frontend/onnx/summary.h"
#include "tcc/frontend/file_kind.h"
#include "tcc/support/files.h"

namespace tcc {

namespace {

/// The bytes of a model, and what holds them.
struct Input {
  onnx::ModelFile file;
  std::shared_ptr<const MappedFile> mapped;
  std::string text;
};

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

std::unique_ptr<Input> open_model(const std::string& path) {
  auto input = std::make_unique<Input>();
  onnx::ModelFile& file = input->file;
  file.name = path == "-" ? "<stdin>" : path;
  if (path == "-") {
    input->text = read_stdin();
    file.bytes = input->text;
    file.folders = {"."};
  } else {
    input->mapped = MappedFile::open(path);
    file.bytes = input->mapped->text();
    file.folders = folders_of(path);
  }
  if (file.bytes.empty()) throw Error(ExitCode::model, "malformed-file", file.name, "the file is empty, a model was expected");
  if (const auto kind = foreign_kind(file.bytes)) {
    if (kind->format == FileFormat::other_model) {
      Diagnostics diagnostics;
      diagnostics.not_supported("unsupported-format", file.name, "this is " + kind->what);
      diagnostics.help(file.name, kind->remedy);
      diagnostics.checkpoint(ExitCode::model);
    }
    throw Error(ExitCode::model, "malformed-file", file.name, "this is " + kind->what, kind->remedy);
  }
  return input;
}

}  // namespace

std::unique_ptr<Graph> import_model(const std::string& path, const ImportOptions& options, Diagnostics& diagnostics) {
  return onnx::import(open_model(path)->file, options, diagnostics);
}

ModelSummary summarize_model(const std::string& path) { return onnx::summarize(open_model(path)->file); }

}  // namespace tcc
