#include <cstdlib>
#include <map>

#include "cli/command_line.h"
#include "cli/inspect.h"
#include "tcc/driver/count_operations.h"
#include "tcc/driver/pipeline.h"
#include "tcc/driver/read_ir.h"
#include "tcc/frontend/summary.h"
#include "tcc/link/read_program.h"
#include "tcc/support/command_files.h"
#include "tcc/support/files.h"
#include "tcc/support/safetensors.h"

namespace tcc::cli {

namespace {

std::string type_text(DType dtype, const Shape& shape) { return std::string(name_of(dtype)) + to_string(std::span(shape)); }

Report list() { return Report::array(); }

/// Operations of a run, when the model can be brought to prims with the sizes that are known; else why not.
void add_operations(const driver::Options& options, Report& report) {
  driver::Options quiet = options;
  quiet.quiet = true;
  try {
    Diagnostics diagnostics;
    const std::unique_ptr<Graph> prims = driver::compile_to_prims(quiet, diagnostics);
    report["operations"] = driver::count_operations(*prims);
    report["prims"] = prims->body.nodes.size();
  } catch (const Error& error) {
    // Flags that are wrong are wrong here too; a model that can't be compiled can still be looked at.
    if (error.code() == ExitCode::usage || error.code() == ExitCode::internal) throw;
    report["operations"] = nullptr;
    for (const Diagnostic& diagnostic : error.diagnostics()) {
      if (diagnostic.severity == Diagnostic::Severity::warning || diagnostic.severity == Diagnostic::Severity::note) continue;
      report["operations_unknown_because"] = diagnostic.message;
      break;
    }
  }
}

Report values(const std::vector<ModelSummary::Value>& values) {
  Report rows = list();
  for (const ModelSummary::Value& value : values) rows.push_back({{"name", value.name}, {"type", value.type}});
  return rows;
}

Report rows_of(const std::vector<link::LibraryTensor>& tensors, bool sizes) {
  Report rows = list();
  for (const link::LibraryTensor& tensor : tensors) {
    Report row = {{"name", tensor.name}, {"type", type_text(tensor.dtype, tensor.shape)}};
    if (sizes) row["bytes"] = tensor.size_bytes;
    rows.push_back(std::move(row));
  }
  return rows;
}

int64_t num_elements_of(const std::vector<link::LibraryState>& state, StateRole role) {
  int64_t count = 0;
  for (const link::LibraryState& row : state) {
    if (row.role == role) count += num_elements(row.tensor.shape);
  }
  return count;
}

Report target_report(const link::LibraryContents& contents, const link::LibraryTarget& target) {
  Report report = {{"target", target.kind == program::TargetKind::cpu ? "cpu" : "cuda"},
                   {"code", target.code},
                   {"kernels", target.num_kernels},
                   {"prepared_bytes", target.prepared_bytes},
                   {"functions", list()}};
  for (size_t i = 0; i < target.plans.size(); ++i) {
    const link::LibraryPlan& plan = target.plans[i];
    report["functions"].push_back({{"name", contents.functions[i].name},
                                   {"launches", plan.num_launches},
                                   {"workspace_bytes", plan.workspace_bytes},
                                   {"planned_peak_bytes", plan.planned_peak_bytes}});
  }
  return report;
}

void add_interface(const std::vector<Value*>& inputs, const std::vector<std::string>& names, const std::vector<Value*>& outputs,
                   Report& report) {
  report["inputs"] = list();
  report["outputs"] = list();
  for (const Value* input : inputs) report["inputs"].push_back({{"name", input->name}, {"type", to_string(input->type)}});
  for (size_t i = 0; i < outputs.size(); ++i) report["outputs"].push_back({{"name", names[i]}, {"type", to_string(outputs[i]->type)}});
}

}  // namespace

Report inspect_model(const driver::Options& options) {
  const ModelSummary model = summarize_model(options.model);
  Report report = {{"kind", model.kind}, {"file", options.model}};
  if (!model.graph.empty()) report["graph"] = model.graph;
  if (!model.producer.empty()) report["made_by"] = model.producer;
  if (!model.opsets.empty()) {
    report["ir_version"] = model.ir_version;
    report["opsets"] = list();
    for (const auto& [domain, version] : model.opsets) report["opsets"].push_back(domain + " " + std::to_string(version));
  }
  report["inputs"] = values(model.inputs);
  report["outputs"] = values(model.outputs);
  if (!model.changes.empty()) report["changes"] = model.changes;
  report["nodes"] = model.num_nodes;
  if (model.num_functions > 0) report["functions"] = model.num_functions;
  if (!model.library_functions.empty()) report["library_functions"] = model.library_functions;
  Report ops = list(), unknown = list();
  for (const ModelSummary::Op& op : model.ops) {
    ops.push_back(op.name + " x" + std::to_string(op.count));
    if (!op.known) unknown.push_back(op.name);
  }
  report["ops"] = ops;
  if (!unknown.empty()) report["unknown_ops"] = unknown;
  report["weights"] = model.num_weights;
  report["weight_elements"] = model.weight_elements;
  report["weights_bytes"] = model.weight_bytes;
  Report dtypes = list();
  for (const auto& [dtype, bytes] : model.bytes_by_dtype) {
    if (bytes > 0) dtypes.push_back(dtype);
  }
  report["weights_dtypes"] = dtypes;
  if (!model.external_files.empty()) {
    report["external_files"] = model.external_files;
    report["external_bytes"] = model.external_bytes;
  }
  // Standard input can be read once, and operations are counted of one function.
  if (options.model != "-" && model.library_functions.empty()) add_operations(options, report);
  return report;
}

Report inspect_text(const driver::Options& options) {
  Report report = {{"kind", "printed " + options.from}, {"file", options.model}};
  if (options.from == "graph" || options.from == "prims") {
    driver::Options reading = options;
    reading.output.clear();
    CommandFiles files;  // nothing is written that could replace them
    const driver::GraphText text = driver::read_graph(reading, files);
    report["graph"] = text.graph->name;
    add_interface(text.graph->body.args, text.graph->output_names, text.graph->body.results, report);
    report["nodes"] = text.graph->body.nodes.size();
    int64_t bytes = 0;
    for (const auto& weight : text.graph->weights()) bytes += weight->tensor.size_bytes();
    report["weights"] = text.graph->weights().size();
    report["weights_bytes"] = bytes;
    report["weights_found"] = text.has_weights;
    return report;
  }
  if (options.from == "loop") {
    report["units"] = driver::read_units(options).size();
    return report;
  }
  report["kernels"] = list();
  for (const loop::Kernel& kernel : driver::read_kernels(options)) {
    report["kernels"].push_back({{"name", "k" + std::to_string(report["kernels"].size())},
                                 {"target", kernel.target},
                                 {"grid", kernel.grid},
                                 {"threads", kernel.threads},
                                 {"shared_bytes", kernel.shared_bytes},
                                 {"params", kernel.params.size()}});
  }
  return report;
}

Report inspect_library(std::string_view bytes, const std::string& path) {
  const link::LibraryContents contents = link::read_library(bytes, path);
  Report report = {{"kind", "library"}, {"file", path}, {"file_bytes", contents.file_bytes}};
  if (!contents.model_name.empty()) report["graph"] = contents.model_name;
  report["made_by"] = contents.compiler;
  std::map<std::string, std::string> about(contents.about.begin(), contents.about.end());
  if (about.contains("flags")) report["flags"] = about["flags"];
  report["functions"] = list();
  for (size_t f = 0; f < contents.functions.size(); ++f) {
    const auto& function = contents.functions[f];
    Report row = {{"name", function.name}, {"inputs", rows_of(function.inputs, false)}, {"outputs", rows_of(function.outputs, false)}};
    if (const auto operations = about.find("operations." + std::to_string(f)); operations != about.end())
      row["operations"] = std::strtod(operations->second.c_str(), nullptr);
    for (const auto& [key, text] : contents.about) {
      if (key == "guard." + std::to_string(f)) row["guards"].push_back(text);
    }
    report["functions"].push_back(std::move(row));
  }
  report["targets"] = list();
  for (const link::LibraryTarget& target : contents.targets) report["targets"].push_back(target_report(contents, target));
  report["weights"] = {{"place", contents.weights_embedded ? "in the library" : "in a file of their own"},
                       {"bytes", contents.weights_bytes},
                       {"count", contents.weights.size()},
                       {"tensors", rows_of(contents.weights, true)}};
  if (!contents.state.empty()) {
    Report tensors = list();
    for (const link::LibraryState& row : contents.state) {
      Report tensor = {{"name", row.tensor.name},
                       {"type", type_text(row.tensor.dtype, row.tensor.shape)},
                       {"bytes", row.tensor.size_bytes},
                       {"role", name_of(row.role)}};
      if (row.role == StateRole::parameter) tensor["trained"] = row.trained;
      tensors.push_back(std::move(tensor));
    }
    report["state"] = {{"parameter_elements", num_elements_of(contents.state, StateRole::parameter)},
                       {"bytes", contents.state_bytes},
                       {"gradient_bytes", contents.gradient_bytes},
                       {"count", contents.state.size()},
                       {"tensors", tensors}};
    report["accumulate"] = contents.accumulate;
  }
  if (!contents.scalars.empty()) report["scalars"] = list();
  for (const auto& scalar : contents.scalars)
    report["scalars"].push_back({{"name", scalar.name}, {"type", name_of(scalar.dtype)}, {"default", scalar.value}});
  return report;
}

Report inspect_tensors(const std::string& path) {
  const TensorFile file = read_safetensors(path);
  const bool state = file.tensors.contains("optimizer.step");
  Report report = {{"kind", state ? "state of a training" : "safetensors file"}, {"file", path}};
  int64_t parameters = 0, elements = 0, bytes = 0, optimizer_bytes = 0;
  Report tensors = list();
  for (const auto& [name, tensor] : file.tensors) {
    tensors.push_back({{"name", name}, {"type", type_text(tensor.dtype(), tensor.shape())}, {"bytes", tensor.size_bytes()}});
    const bool of_optimizer = name.starts_with("optimizer.");
    (of_optimizer ? optimizer_bytes : bytes) += tensor.size_bytes();
    if (!of_optimizer) ++parameters, elements += tensor.count();
  }
  if (state) report["steps"] = file.tensors.at("optimizer.step").as_double(0);
  for (const auto& [key, text] : file.metadata) report["metadata"][key] = text;
  report["parameters"] = parameters;
  report["parameter_elements"] = elements;
  report["parameters_bytes"] = bytes;
  if (optimizer_bytes > 0) report["optimizer_bytes"] = optimizer_bytes;
  report["tensors"] = tensors;
  return report;
}

}  // namespace tcc::cli
