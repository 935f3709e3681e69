#include "driver/parameters.h"

#include <map>
#include <vector>

#include "tcc/support/safetensors.h"
#include "tcc/support/suggest.h"

namespace tcc::driver {

namespace {

constexpr size_t kMostNames = 5;  // in a note
constexpr const char* kOptimizer = "optimizer.";

std::string type_text(const Tensor& tensor) { return to_string(Type(tensor.dtype(), tensor.shape())); }

/// "`a`, `b` and 3 more"
std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMostNames; ++i) text += (i == 0 ? "`" : ", `") + names[i] + "`";
  return names.size() > kMostNames ? text + " and " + std::to_string(names.size() - kMostNames) + " more" : text;
}

std::string count_of(size_t number) { return number == 1 ? "1 parameter" : std::to_string(number) + " parameters"; }

/// Weights by name: those of the model and what it changes, not the constants in its nodes.
std::map<std::string, Weight*> parameters_of(const Graph& graph) {
  std::map<std::string, Weight*> parameters;
  for (const auto& weight : graph.weights()) {
    if (weight->from_model || weight->is_buffer || weight->is_state) parameters[weight->name] = weight.get();
  }
  return parameters;
}

}  // namespace

void take_parameters(Graph& graph, const std::string& path, const std::string& model, Diagnostics& diagnostics) {
  const std::map<std::string, Tensor> tensors = read_safetensors(path).tensors;
  std::map<std::string, Weight*> parameters = parameters_of(graph);
  std::vector<std::string> names;
  for (const auto& [name, weight] : parameters) names.push_back(name);
  Diagnostics faults;
  size_t taken = 0;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(kOptimizer)) continue;
    ++taken;
    const auto found = parameters.find(name);
    if (found == parameters.end()) {
      faults.error("unknown-parameter", path, "`" + name + "` is not a parameter of the model `" + model + "`");
      if (const std::string help = did_you_mean(name, names); !help.empty()) faults.help(path, help);
      continue;
    }
    Weight& weight = *found->second;
    parameters.erase(found);
    if (tensor.dtype() != weight.tensor.dtype() || tensor.shape() != weight.tensor.shape()) {
      faults.error("invalid-argument", path, "`" + name + "` is " + type_text(tensor) + ", the model has " + type_text(weight.tensor));
      continue;
    }
    weight.tensor = tensor;
  }
  if (taken == 0) faults.error("invalid-argument", path, "the file has no parameters");
  faults.checkpoint(ExitCode::usage);
  std::vector<std::string> kept;
  for (const auto& [name, weight] : parameters) {
    if (is_float(weight->tensor.dtype()) && !weight->tensor.shape().empty()) kept.push_back(name);
  }
  if (!kept.empty()) diagnostics.note(path, count_of(taken) + " taken, " + count_of(kept.size()) + " of the model's own: " + list_of(kept));
}

void require_unfolded(const Graph& prims, const std::string& model) {
  for (const auto& weight : prims.weights()) {
    if (weight->from_model || weight->is_state || !is_float(weight->tensor.dtype())) continue;
    throw Error(ExitCode::usage, "invalid-argument", model,
                "--parameters: the weight `" + weight->name + "` of the text may be computed from parameters, with their old values",
                "print the model with --emit=graph, where nothing is computed yet, and take that with --from=graph");
  }
}

}  // namespace tcc::driver
