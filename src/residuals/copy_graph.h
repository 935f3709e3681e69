// Builds a graph out of pieces of another one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tcc/graph/graph.h"

namespace tcc::residuals {

/// A new graph with the weights of `from`, node by node. The caller says what stands for the operands.
class GraphCopy {
 public:
  GraphCopy(const Graph& from, std::string name);

  Graph& graph() { return *to_; }
  Value* weight(const Value* value) const { return weights_[static_cast<size_t>(value->id)]; }
  /// Appends a copy of the node. Results keep their names where these are free.
  Node* append(const Node& node, std::vector<Value*> operands, std::string_view phase);
  std::unique_ptr<Graph> take();  ///< without the weights that nothing reads

 private:
  std::unique_ptr<Graph> to_;
  std::vector<Value*> weights_;  // by id in `from`
};

}  // namespace tcc::residuals
