#include "frontend/fx/summary.h"

#include <algorithm>

#include "frontend/fx/node_kinds.h"
#include "frontend/fx/read_archive.h"
#include "frontend/fx/read_program.h"

namespace tcc::fx {

namespace {

std::string type_text(const TensorMeta& meta) {
  std::string sizes;
  for (const SizeExpr& size : meta.sizes) sizes += (sizes.empty() ? "" : ", ") + to_string(size);
  return (meta.dtype ? std::string(tcc::name_of(*meta.dtype)) : meta.dtype_name) + "[" + sizes + "]";
}

class Summarizer {
 public:
  Summarizer(const Program& program, const ArchiveIndex* index) : program_(program), index_(index) {
    summary_.kind = index == nullptr ? "program of torch.export" : "archive of torch.export";
  }

  ModelSummary run() {
    summary_.graph = program_.name;
    summary_.producer = program_.producer;
    for (const InputSpec& input : program_.inputs) add_input(input);
    for (const OutputSpec& output : program_.outputs) add_output(output);
    count_ops(program_.graph);
    std::stable_sort(summary_.ops.begin(), summary_.ops.end(), [](const auto& a, const auto& b) { return a.count > b.count; });
    return std::move(summary_);
  }

 private:
  std::string type_of(const std::string& name) const {
    const auto meta = program_.graph.tensors.find(name);
    return meta == program_.graph.tensors.end() ? "number" : type_text(meta->second);
  }

  void add_input(const InputSpec& input) {
    if (input.name.empty()) return;
    const std::string name = input.target.empty() ? input.name : input.target;
    if (input.kind == InputSpec::Kind::user || index_ == nullptr) summary_.inputs.push_back({name, type_of(input.name)});
    else add_weight(input);
  }

  void add_weight(const InputSpec& input) {
    ++summary_.num_weights;
    const auto stored = index_->tensors.find(input.target);
    if (stored == index_->tensors.end()) return;
    const TensorMeta& meta = stored->second.meta;
    int64_t elements = 1;
    for (const SizeExpr& size : meta.sizes) {
      const auto extent = evaluate(size, {});
      if (!extent || *extent < 0 || __builtin_mul_overflow(elements, *extent, &elements)) elements = 0;  // refused when it is imported
    }
    const int64_t bytes = meta.dtype && elements < (int64_t{1} << 58) ? storage_bytes(*meta.dtype, elements) : 0;
    summary_.weight_elements += elements;
    summary_.weight_bytes += bytes;
    summary_.bytes_by_dtype[meta.dtype ? std::string(tcc::name_of(*meta.dtype)) : meta.dtype_name] += bytes;
  }

  void add_output(const OutputSpec& output) {
    const auto* name = output.value.as<ValueName>();
    if (name == nullptr) return;
    const bool is_change = output.kind == OutputSpec::Kind::buffer_mutation || output.kind == OutputSpec::Kind::input_mutation;
    if (is_change) summary_.changes.push_back(output.target);
    else summary_.outputs.push_back({name->name, type_of(name->name)});
  }

  /// Of graphs within the graph, too, each time that one is named.
  void count_ops(const ProgramGraph& graph) {
    for (const ProgramNode& node : graph.nodes) {
      ++summary_.num_nodes;
      auto op = std::find_if(summary_.ops.begin(), summary_.ops.end(), [&](const auto& other) { return other.name == node.op; });
      if (op == summary_.ops.end()) op = summary_.ops.insert(summary_.ops.end(), {node.op, 0, is_known_op(node.op)});
      ++op->count;
      for (const NamedArgument& argument : node.arguments) {
        if (const ProgramGraph* inner = graph_of(argument.argument)) count_ops(*inner);
      }
    }
  }

  const Program& program_;
  const ArchiveIndex* index_;
  ModelSummary summary_;
};

}  // namespace

ModelSummary summarize_archive(const ModelFile& file) {
  const Archive archive(file.name, file.bytes, file.owner);
  Diagnostics diagnostics;
  const ArchiveIndex index = read_index(archive, diagnostics);
  const EntryBytes text = archive.read(index.program);
  Program program = read_program(text.text(), file.name);
  program.name = index.model;
  return Summarizer(program, &index).run();
}

ModelSummary summarize_json(const ModelFile& file) {
  const Program program = read_program(file.text(), file.name);
  return Summarizer(program, nullptr).run();
}

}  // namespace tcc::fx
