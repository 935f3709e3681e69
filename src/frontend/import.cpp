// Finds the kind of a model file by its content, never by its name. Protobuf has no mark of its own: what has no other mark is for the ONNX
// parser to judge.
#include "tcc/frontend/import.h"

#include <algorithm>
#include <array>

#include "frontend/fx/fx.h"
#include "frontend/fx/summary.h"
#include "frontend/onnx/onnx.h"
#include "frontend/onnx/summary.h"
#include "tcc/frontend/file_kind.h"
#include "tcc/support/suggest.h"

namespace tcc {

namespace {

using Functions = std::vector<ImportedFunction>;

/// A kind of model that is read.
struct Reader {
  std::string_view kind;  ///< as -x has it
  FileFormat format;      ///< that the content has; other: of no mark
  Functions (*import)(const ModelFile& file, const ImportOptions& options, Diagnostics& diagnostics);
  ModelSummary (*summarize)(const ModelFile& file);
};

/// The reader of a format whose files have one function.
template <auto import> Functions import_one(const ModelFile& file, const ImportOptions& options, Diagnostics& diagnostics) {
  if (!options.function.empty()) {
    throw Error(ExitCode::usage, "invalid-argument", file.name, "--function=" + options.function + ": the model has one function",
                "leave --function out: only tcc.fx JSON has several graphs");
  }
  Functions functions(1);
  functions[0].name = "infer";
  functions[0].graph = import(file, options, diagnostics);
  return functions;
}

constexpr auto kReaders = std::to_array<Reader>({
    {"onnx", FileFormat::other, import_one<onnx::import>, onnx::summarize},
    {"pt2", FileFormat::torch_archive, import_one<fx::import_archive>, fx::summarize_archive},
    {"pt2", FileFormat::torch_json, import_one<fx::import_json>, fx::summarize_json},
    {"fx", FileFormat::fx_json, fx::import_fx, fx::summarize_fx},
});
constexpr const Reader& kOnnx = kReaders[0];

const Reader* reader_of(FileFormat format) {
  const auto found = std::ranges::find(kReaders, format, &Reader::format);
  return found == kReaders.end() ? nullptr : &*found;
}

[[noreturn]] void refuse(const ModelFile& file, const FileKind& kind) {
  if (kind.format != FileFormat::other_model)
    throw Error(ExitCode::model, "malformed-file", file.name, "this is " + kind.what, kind.remedy);
  Diagnostics diagnostics;
  diagnostics.not_supported("unsupported-format", file.name, "this is " + kind.what);
  diagnostics.help(file.name, kind.remedy);
  diagnostics.checkpoint(ExitCode::model);
  internal_error("a refusal was not thrown");
}

/// `kind_given` is the kind that the user says, "" when the content decides.
const Reader& reader_for(const ModelFile& file, const std::string& kind_given) {
  if (kind_given == kOnnx.kind) return kOnnx;  // the parser judges
  const std::optional<FileKind> kind = foreign_kind(file.text());
  if (!kind && kind_given.empty()) return kOnnx;
  if (!kind) throw Error(ExitCode::model, "malformed-file", file.name, "this is not a captured program of torch, -x says " + kind_given);
  const Reader* reader = kind->format == FileFormat::other ? nullptr : reader_of(kind->format);
  if (reader == nullptr) refuse(file, *kind);
  // JSON without the mark of tcc.fx is what the user says.
  if (kind->format == FileFormat::torch_json && kind_given == "fx") return *reader_of(FileFormat::fx_json);
  if (!kind_given.empty() && kind_given != reader->kind)
    throw Error(ExitCode::model, "malformed-file", file.name, "this is " + kind->what + ", -x says " + kind_given);
  return *reader;
}

}  // namespace

std::vector<std::string> model_kinds() {
  std::vector<std::string> kinds;
  for (const Reader& reader : kReaders) {
    if (std::ranges::find(kinds, reader.kind) == kinds.end()) kinds.emplace_back(reader.kind);
  }
  return kinds;
}

std::vector<ImportedFunction> import_functions(const std::string& path, const ImportOptions& options, Diagnostics& diagnostics) {
  const ModelFile file = open_model_file(path);
  return reader_for(file, options.format).import(file, options, diagnostics);
}

std::unique_ptr<Graph> import_model(const std::string& path, const ImportOptions& options, Diagnostics& diagnostics) {
  std::vector<ImportedFunction> functions = import_functions(path, options, diagnostics);
  if (functions.size() == 1) return std::move(functions[0].graph);
  std::vector<std::string> names;
  for (const ImportedFunction& function : functions) names.push_back(function.name);
  throw Error(ExitCode::usage, "invalid-argument", path, "the file has " + std::to_string(names.size()) + " functions, one was expected",
              suggest("", "functions for --function", names));
}

ModelSummary summarize_model(const std::string& path) {
  const ModelFile file = open_model_file(path);
  return reader_for(file, "").summarize(file);
}

}  // namespace tcc
