// Runs a plan and its graph side by side on one state, and says where they differ.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "group/run_units.h"
#include "tcc/graph/state.h"
#include "tcc/plan/plan.h"
#include "tcc/rules/interpret.h"

namespace tcc::plan {

inline void write_state(StateMemory& memory, const StateTensor& tensor, const Tensor& value) {
  std::memcpy(memory.blocks[tensor.block()].data() + tensor.offset, value.bytes(), static_cast<size_t>(tensor.size_bytes()));
}

/// Numbers that differ everywhere, small integers over four: sums and products of a few of them are exact.
inline void fill_state(StateMemory& memory, const StateLayout& layout) {
  int next = 0;
  for (const StateTensor& tensor : layout.tensors) {
    if (tensor.view) continue;
    Tensor value(tensor.dtype, tensor.shape);
    for (int64_t i = 0; i < value.count(); ++i) value.set_double(i, (next++ % 17 - 8) / 4.0);
    write_state(memory, tensor, value);
  }
}

/// One run of the graph by the interpreter of graphs: outputs, and the state as it then is.
inline std::vector<Tensor> run_graph(const Graph& graph, const StateLayout& layout, const std::vector<Tensor>& inputs,
                                     StateMemory& memory) {
  const auto copy = graph.clone();
  for (const StateUpdate& update : copy->state_updates) copy->add_output(update.value, "state");
  for (const auto& weight : copy->weights()) {
    if (layout.find(weight->name)) weight->tensor = read_state(memory, layout, weight->name);
  }
  std::vector<Tensor> results = interpret(*copy, inputs, false);
  for (size_t i = 0; i < copy->state_updates.size(); ++i) {
    write_state(memory, *layout.find(copy->state_updates[i].weight->name), results[graph.body.results.size() + i]);
  }
  results.resize(graph.body.results.size());
  return results;
}

/// Both on copies of the same state; empty when outputs and state agree. `inputs` are the graph's; scalars among them go through the state.
inline std::string compare_run(const Graph& graph, const Plan& plan, const PlanOptions& options, const std::vector<Tensor>& inputs,
                               StateMemory& memory, group::Tolerance tolerance = {}) {
  StateMemory expected_state = memory;
  const std::vector<Tensor> expected = run_graph(graph, *options.state, inputs, expected_state);
  std::vector<Tensor> given;
  memory.scalars.assign(options.scalars.size(), Tensor());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto scalar = std::find(options.scalars.begin(), options.scalars.end(), graph.body.args[i]->name);
    if (scalar == options.scalars.end()) given.push_back(inputs[i]);
    else memory.scalars[static_cast<size_t>(scalar - options.scalars.begin())] = inputs[i];
  }
  const std::vector<Tensor> found = interpret(plan, given, &memory);
  std::string text;
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string difference = group::differences(found[i], expected[i], tolerance);
    if (!difference.empty()) text += "output " + std::to_string(i) + ":" + difference + "\n";
  }
  for (const StateTensor& tensor : options.state->tensors) {
    const std::string difference = group::differences(read_state(memory, *options.state, tensor.name),
                                                      read_state(expected_state, *options.state, tensor.name), tolerance);
    if (!difference.empty()) text += "@" + tensor.name + ":" + difference + "\n";
  }
  return text;
}

}  // namespace tcc::plan
