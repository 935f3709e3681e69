// tcc inspect FILE: what a model, a library, a printed form or a state file holds. Nothing of the file is run.
#include "cli/inspect.h"

#include "cli/command_line.h"
#include "tcc/frontend/file_kind.h"
#include "tcc/support/files.h"
#include "tcc/support/printable.h"
#include "tcc/support/standard_output.h"

namespace tcc::cli {

namespace {

/// The form of a printed text, where --from doesn't say.
std::string form_of(const std::optional<FileKind>& kind) {
  if (!kind) return "";
  switch (kind->format) {
    case FileFormat::graph_text: return "graph";
    case FileFormat::loop_text: return "loop";
    case FileFormat::kernel_text: return "kernel";
    default: return "";
  }
}

Report report_of(driver::Options options) {
  if (options.model == "-" || !options.from.empty()) return options.from.empty() ? inspect_model(options) : inspect_text(options);
  const std::shared_ptr<const MappedFile> file = MappedFile::open(options.model);
  const std::optional<FileKind> kind = foreign_kind(file->text());
  options.from = form_of(kind);
  if (!options.from.empty()) return inspect_text(options);
  if (kind && kind->format == FileFormat::elf) return inspect_library(file->text(), options.model);
  if (kind && kind->format == FileFormat::safetensors) return inspect_tensors(options.model);
  return inspect_model(options);
}

}  // namespace

int inspect(const Arguments& arguments) {
  driver::Options options;
  options.progress = driver::ProgressStyle::off;
  bool json = false, lists = false;
  CLI::App app(
      "Says what a file holds: a model (.onnx), a library that tcc made, what --emit printed, or a state file. Nothing of it is run.",
      "tcc inspect");
  app.add_option("file", options.model, "what to look at; - reads a model from standard input")->required()->type_name("");
  app.add_option("--from", options.from, "the form of a printed text: graph, prims, loop, kernel (found by content)")->type_name("FORM");
  add_list(app, "--shapes", options.shapes, "of a model with symbolic sizes: counts its operations for these")->type_name("NAME:SIZES,...");
  add_list(app, "--bind", options.bind, "the same for sizes by name: batch=8")->type_name("NAME=VALUE,...");
  app.add_flag("--tensors", lists, "lists weights and state one by one");
  app.add_flag("--json", json, "prints one JSON object, lists included");
  Help help;
  help.examples = {{"tcc inspect net.onnx --bind batch=8", "inputs, outputs, ops, parameters, operations"},
                   {"tcc inspect net.so --json", "functions, targets, chips, memory, how it was made"}};
  if (!parse(app, arguments, help)) return 0;
  if (!options.from.empty()) require_one_of("--from", options.from, {"graph", "prims", "loop", "kernel"});
  const Report report = report_of(options);
  write_stdout(json ? report.dump(2, ' ', true, Report::error_handler_t::replace) + "\n" : report_text(report, lists));
  return 0;
}

}  // namespace tcc::cli
