// Memory of a training for the interpreter: what StateLayout describes, in f64, where tensors and the views of their sections are the same bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/graph/state.h"
#include "tcc/rules/interpret.h"

namespace tcc {

class StateMemory {
 public:
  explicit StateMemory(const StateLayout& layout) : layout_(layout) {
    for (const StateSection& section : layout.sections)
      elements_.emplace_back(static_cast<size_t>(section.size_bytes / storage_bytes(section.dtype, 1)), 0.0);
    for (const StateTensor& tensor : layout.tensors) {
      if (tensor.view) continue;
      for (int64_t i = 0; i < num_elements(tensor.shape); ++i)
        at(tensor, i) = tensor.initial.defined() ? tensor.initial.as_double(i) : tensor.fill;
    }
  }

  Tensor read(const std::string& name) {
    const StateTensor& tensor = *layout_.find(name);
    Tensor result(is_float(tensor.dtype) ? DType::f64 : tensor.dtype, tensor.shape);
    for (int64_t i = 0; i < result.count(); ++i) result.set_double(i, at(tensor, i));
    return result;
  }
  void write(const std::string& name, const Tensor& value) {
    const StateTensor& tensor = *layout_.find(name);
    for (int64_t i = 0; i < value.count(); ++i) at(tensor, i) = value.as_double(i);
  }
  bool has(const std::string& name) const { return layout_.find(name) != nullptr; }

 private:
  double& at(const StateTensor& tensor, int64_t i) {
    const size_t section = static_cast<size_t>(tensor.section);
    const int64_t first = (tensor.offset - layout_.sections[section].offset) / storage_bytes(tensor.dtype, 1);
    return elements_[section].at(static_cast<size_t>(first + i));
  }

  const StateLayout& layout_;
  std::vector<std::vector<double>> elements_;  // by section
};

/// A graph that reads and writes the state, run in f64.
class StatefulGraph {
 public:
  explicit StatefulGraph(const Graph& graph) : graph_(graph.clone()), outputs_(graph.body.results.size()) {
    for (const StateUpdate& update : graph_->state_updates) graph_->add_output(update.value, "state");
  }
  std::vector<Tensor> run(const std::vector<Tensor>& inputs, StateMemory& memory) {
    for (const auto& weight : graph_->weights()) {
      if (memory.has(weight->name)) weight->tensor = memory.read(weight->name);
    }
    std::vector<Tensor> results = interpret(*graph_, inputs, true);
    for (size_t i = 0; i < graph_->state_updates.size(); ++i) memory.write(graph_->state_updates[i].weight->name, results[outputs_ + i]);
    results.resize(outputs_);
    return results;
  }

 private:
  std::unique_ptr<Graph> graph_;
  size_t outputs_;
};

}  // namespace tcc
