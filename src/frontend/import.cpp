// Finds the kind of a model file by its content, never by its name. Protobuf has no mark of its own: what has no other mark is for the ONNX
// parser to judge.
#include "tcc/frontend/import.h"

#include <filesystem>

#include "frontend/fx/fx.h"
#include "frontend/onnx/onnx.h"
#include "frontend/onnx/summary.h"
#include "tcc/frontend/file_kind.h"
#include "tcc/support/files.h"

namespace tcc {

namespace {

/// The bytes of a model, and what holds them.
struct Input {
  onnx::ModelFile file;
  std::shared_ptr<const void> owner;
  FileFormat format = FileFormat::other;  ///< torch_archive, torch_json, fx_json; other: ONNX
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

bool is_of_torch(FileFormat format) {
  return format == FileFormat::torch_archive || format == FileFormat::torch_json || format == FileFormat::fx_json;
}

/// `kind_given` is the kind that the user says, "" when the content decides.
std::unique_ptr<Input> open_model(const std::string& path, const std::string& kind_given) {
  auto input = std::make_unique<Input>();
  onnx::ModelFile& file = input->file;
  file.name = path == "-" ? "<stdin>" : path;
  if (path == "-") {
    const auto text = std::make_shared<const std::string>(read_stdin());
    file.bytes = *text;
    input->owner = text;
    file.folders = {"."};
  } else {
    const auto mapped = MappedFile::open(path);
    file.bytes = mapped->text();
    input->owner = mapped;
    file.folders = folders_of(path);
  }
  if (file.bytes.empty()) throw Error(ExitCode::model, "malformed-file", file.name, "the file is empty, a model was expected");
  if (kind_given == "onnx") return input;
  if (const auto kind = foreign_kind(file.bytes)) {
    if (is_of_torch(kind->format)) {
      input->format = kind_given == "fx" && kind->format == FileFormat::torch_json ? FileFormat::fx_json : kind->format;
      if (kind_given.empty() || (kind_given == "fx") == (input->format == FileFormat::fx_json)) return input;
      throw Error(ExitCode::model, "malformed-file", file.name, "this is " + kind->what + ", -x says " + kind_given);
    }
    if (kind->format == FileFormat::other_model) {
      Diagnostics diagnostics;
      diagnostics.not_supported("unsupported-format", file.name, "this is " + kind->what);
      diagnostics.help(file.name, kind->remedy);
      diagnostics.checkpoint(ExitCode::model);
    }
    throw Error(ExitCode::model, "malformed-file", file.name, "this is " + kind->what, kind->remedy);
  }
  if (!kind_given.empty())
    throw Error(ExitCode::model, "malformed-file", file.name, "this is no captured program of torch, -x says " + kind_given);
  return input;
}

}  // namespace

std::unique_ptr<Graph> import_model(const std::string& path, const ImportOptions& options, Diagnostics& diagnostics) {
  const std::unique_ptr<Input> input = open_model(path, options.format);
  const fx::ProgramFile program{input->file.name, input->file.folders, std::as_bytes(std::span(input->file.bytes)), input->owner};
  if (input->format == FileFormat::torch_archive) return fx::import_archive(program, options, diagnostics);
  if (input->format == FileFormat::torch_json) return fx::import_json(program, options, diagnostics);
  if (input->format == FileFormat::fx_json) return fx::import_fx(program, options, diagnostics);
  return onnx::import(input->file, options, diagnostics);
}

ModelSummary summarize_model(const std::string& path) {
  const std::unique_ptr<Input> input = open_model(path, "");
  if (!is_of_torch(input->format)) return onnx::summarize(input->file);
  Diagnostics diagnostics;
  diagnostics.not_supported("unsupported-format", input->file.name, "this is a captured program of torch, which has no summary");
  diagnostics.help(input->file.name, "compile it and inspect the library, or print it with --emit=graph");
  diagnostics.checkpoint(ExitCode::model);
  internal_error("a refusal was not thrown");
}

}  // namespace tcc
