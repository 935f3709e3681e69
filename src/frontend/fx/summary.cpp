#include "frontend/fx/summary.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "frontend/fx/fx_file.h"
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

/// A weight that the file holds.
struct StoredWeight {
  std::string dtype;
  int64_t elements = 0, bytes = 0;
};
using FindWeight = std::function<std::optional<StoredWeight>(const std::string& name)>;

StoredWeight stored(const std::optional<DType>& dtype, const std::string& dtype_name, int64_t elements) {
  const int64_t bytes = dtype && elements < (int64_t{1} << 58) ? storage_bytes(*dtype, elements) : 0;
  return {dtype ? std::string(tcc::name_of(*dtype)) : dtype_name, elements, bytes};
}

class Summarizer {
 public:
  /// find_weight: what the file holds under a name; a null function where it holds none, so that weights are inputs.
  Summarizer(const std::string& kind, FindWeight find_weight) : find_weight_(std::move(find_weight)) { summary_.kind = kind; }

  /// Inputs and outputs have `prefix` before their names.
  void add(const Program& program, const std::string& prefix = "") {
    program_ = &program;
    for (const InputSpec& input : program.inputs) add_input(input, prefix);
    for (const OutputSpec& output : program.outputs) add_output(output, prefix);
    count_ops(program.graph);
  }

  ModelSummary finish(const Program& entry, std::vector<std::string> functions = {}) {
    summary_.library_functions = std::move(functions);
    summary_.graph = entry.name;
    summary_.producer = entry.producer;
    std::stable_sort(summary_.ops.begin(), summary_.ops.end(), [](const auto& a, const auto& b) { return a.count > b.count; });
    return std::move(summary_);
  }

 private:
  std::string type_of(const std::string& name) const {
    const auto meta = program_->graph.tensors.find(name);
    return meta == program_->graph.tensors.end() ? "number" : type_text(meta->second);
  }

  void add_input(const InputSpec& input, const std::string& prefix) {
    if (input.name.empty()) return;
    if (input.kind != InputSpec::Kind::user && find_weight_ != nullptr) {
      if (!weights_.insert(input.target).second) return;  // of another function, too
      const auto weight = find_weight_(input.target);
      if (weight) {
        ++summary_.num_weights;
        summary_.weight_elements += weight->elements;
        summary_.weight_bytes += weight->bytes;
        summary_.bytes_by_dtype[weight->dtype] += weight->bytes;
        return;
      }
    }
    summary_.inputs.push_back({prefix + (input.target.empty() ? input.name : input.target), type_of(input.name)});
  }

  void add_output(const OutputSpec& output, const std::string& prefix) {
    const auto* name = output.value.as<ValueName>();
    if (name == nullptr) return;
    const bool is_change = output.kind == OutputSpec::Kind::buffer_mutation || output.kind == OutputSpec::Kind::input_mutation;
    if (is_change) summary_.changes.push_back(output.target);
    else summary_.outputs.push_back({prefix + name->name, type_of(name->name)});
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

  const Program* program_ = nullptr;
  FindWeight find_weight_;
  std::set<std::string> weights_;
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
  const auto find_weight = [&](const std::string& name) -> std::optional<StoredWeight> {
    const auto found = index.tensors.find(name);
    if (found == index.tensors.end()) return StoredWeight{};  // its bytes are missing, which importing reports
    const TensorMeta& meta = found->second.meta;
    int64_t elements = 1;
    for (const SizeExpr& size : meta.sizes) {
      const auto extent = evaluate(size, {});
      if (!extent || *extent < 0 || __builtin_mul_overflow(elements, *extent, &elements)) elements = 0;  // refused when it is imported
    }
    return stored(meta.dtype, meta.dtype_name, elements);
  };
  Summarizer summarizer("archive of torch.export", find_weight);
  summarizer.add(program);
  return summarizer.finish(program);
}

ModelSummary summarize_json(const ModelFile& file) {
  const Program program = read_program(file.text(), file.name);
  Summarizer summarizer("program of torch.export", nullptr);
  summarizer.add(program);
  return summarizer.finish(program);
}

ModelSummary summarize_fx(const ModelFile& file) {
  const FxFile read = read_fx_file(file.text(), file.name);
  const auto find_weight = [&](const std::string& name) -> std::optional<StoredWeight> {
    const auto found = read.weights.find(name);
    if (found == read.weights.end()) return std::nullopt;
    return stored(found->second.dtype, "", num_elements(found->second.shape));
  };
  Summarizer summarizer("tcc.fx JSON", find_weight);
  const bool several = read.functions.size() > 1;
  std::vector<std::string> names;
  for (const FxFunction& function : read.functions) {
    summarizer.add(function.program, several ? function.id + "/" : "");
    if (several) names.push_back(function.id);
  }
  return summarizer.finish(read.functions.front().program, names);
}

}  // namespace tcc::fx
