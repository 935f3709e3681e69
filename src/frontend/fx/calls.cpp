// Graphs in a program that stand in the place of the node that calls them.
#include "frontend/base/stop_gradient.h"
#include "frontend/fx/arguments.h"
#include "frontend/fx/importer.h"
#include "frontend/fx/node_kinds.h"
#include "tcc/graph/rule_error.h"

namespace tcc::fx {

/// The names that a graph sees inside: its inputs, which are the operands of the node.
Scope<Slot> Importer::scope_of_call(const ProgramGraph& graph, const ProgramNode& node, size_t first_operand) const {
  std::vector<Slot> operands;
  for (size_t i = first_operand; i < node.arguments.size(); ++i) {
    std::vector<std::string> names;
    collect_names(node.arguments[i].argument, names);
    for (const std::string& name : names) {
      const Slot* slot = find(name);
      if (slot == nullptr) throw RuleError{"malformed-file", "`" + name + "` is made by no node and is not an input"};
      operands.push_back(*slot);
    }
    if (!names.empty()) continue;
    if (const auto number = number_in(node.arguments[i].argument)) operands.push_back({.tensor = nullptr, .number = number});
  }
  if (operands.size() != graph.inputs.size())
    throw RuleError{"malformed-file", "a graph of " + std::to_string(graph.inputs.size()) + " inputs is called with " +
                                          std::to_string(operands.size()) + " operands"};
  Scope<Slot> inner;
  for (size_t i = 0; i < operands.size(); ++i) inner.set(graph.inputs[i], operands[i]);
  return inner;
}

void Importer::inline_graph(const ProgramGraph& graph, const ProgramNode& node, size_t first_operand) {
  scopes_.push_back(scope_of_call(graph, node, first_operand));
  const int errors = diagnostics_.num_errors();
  import_nodes(graph);
  const Scope<Slot> inner = std::move(scopes_.back());
  scopes_.pop_back();
  std::vector<std::string> names;
  for (const Result& result : node.results) names.insert(names.end(), result.names.begin(), result.names.end());
  if (names.size() != graph.outputs.size() && diagnostics_.num_errors() == errors)
    throw RuleError{"malformed-file",
                    "a graph of " + std::to_string(graph.outputs.size()) + " outputs is called for " + std::to_string(names.size())};
  const bool* enables_gradients = node.op == "hop.wrap_with_set_grad_enabled" ? node.arguments.at(0).argument.as<bool>() : nullptr;
  const bool stops_gradients = enables_gradients != nullptr && !*enables_gradients;
  Builder builder = builder_at(node.name);
  for (size_t i = 0; i < names.size() && i < graph.outputs.size(); ++i) {
    std::optional<Slot> output = output_of_call(graph.outputs[i], inner);
    if (!output) {
      scope().set_faulty(names[i]);
      continue;
    }
    if (stops_gradients && output->tensor != nullptr)
      output->tensor = Alias::of_new_storage(stop_gradient(builder, output->tensor->read(builder)));
    scope().set(names[i], *output);
  }
}

/// Nothing when a node with a fault should have made it.
std::optional<Slot> Importer::output_of_call(const Argument& output, const Scope<Slot>& inner) {
  if (const auto* name = output.as<ValueName>()) {
    if (const Slot* slot = inner.find(name->name)) return *slot;
    if (inner.is_faulty(name->name)) return std::nullopt;
    throw RuleError{"malformed-file", "output `" + name->name + "` of a graph is made by no node and is not an input"};
  }
  return Slot{.tensor = nullptr, .number = number_in(output)};
}

}  // namespace tcc::fx
