// Finds the kind of a model file by its content, never by its name. Protobuf has no mark of its own: what has no other mark is for the ONNX
// parser to judge.
#include "tcc/frontend/import.h"

#include "frontend/fx/fx.h"
#include "frontend/onnx/onnx.h"
#include "frontend/onnx/summary.h"
#include "tcc/frontend/file_kind.h"
#include "tcc/support/suggest.h"

namespace tcc {

namespace {

struct Input {
  ModelFile file;
  FileFormat format = FileFormat::other;  ///< torch_archive, torch_json, fx_json; other: ONNX
};

bool is_of_torch(FileFormat format) {
  return format == FileFormat::torch_archive || format == FileFormat::torch_json || format == FileFormat::fx_json;
}

/// `kind_given` is the kind that the user says, "" when the content decides.
Input open_model(const std::string& path, const std::string& kind_given) {
  Input input{open_model_file(path)};
  const ModelFile& file = input.file;
  if (kind_given == "onnx") return input;
  if (const auto kind = foreign_kind(file.text())) {
    if (is_of_torch(kind->format)) {
      input.format = kind_given == "fx" && kind->format == FileFormat::torch_json ? FileFormat::fx_json : kind->format;
      if (kind_given.empty() || (kind_given == "fx") == (input.format == FileFormat::fx_json)) return input;
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

std::vector<ImportedFunction> import_functions(const std::string& path, const ImportOptions& options, Diagnostics& diagnostics) {
  const Input input = open_model(path, options.format);
  if (input.format == FileFormat::fx_json) return fx::import_fx(input.file, options, diagnostics);
  if (!options.function.empty()) {
    throw Error(ExitCode::usage, "invalid-argument", input.file.name, "--function=" + options.function + ": the model has one function",
                "leave --function out: only tcc.fx JSON has several graphs");
  }
  std::vector<ImportedFunction> functions(1);
  functions[0].name = "infer";
  if (input.format == FileFormat::torch_archive) functions[0].graph = fx::import_archive(input.file, options, diagnostics);
  else if (input.format == FileFormat::torch_json) functions[0].graph = fx::import_json(input.file, options, diagnostics);
  else functions[0].graph = onnx::import(input.file, options, diagnostics);
  return functions;
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
  const Input input = open_model(path, "");
  if (!is_of_torch(input.format)) return onnx::summarize(input.file);
  Diagnostics diagnostics;
  diagnostics.not_supported("unsupported-format", input.file.name, "this is a captured program of torch, which has no summary");
  diagnostics.help(input.file.name, "compile it and inspect the library, or print it with --emit=graph");
  diagnostics.checkpoint(ExitCode::model);
  internal_error("a refusal was not thrown");
}

}  // namespace tcc
