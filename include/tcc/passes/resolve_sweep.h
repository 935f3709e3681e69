// resolve for a graph that grows: each node is looked at once, when it is appended, and what is known of its values can be asked for between.
//
//   ResolveSweep sweep(graph);                         inputs of constant extents
//   Value* s = ...shape_of(%x)...; sweep.append(*s->producer);
//   sweep.known(s)                                     the tensor
#pragma once

#include <memory>
#include <optional>

#include "tcc/graph/graph.h"

namespace tcc {

class ResolveSweep {
 public:
  /// Takes the body over: nodes that it has already are forgotten.
  explicit ResolveSweep(Graph& graph);
  ~ResolveSweep();
  ResolveSweep(const ResolveSweep&) = delete;
  ResolveSweep& operator=(const ResolveSweep&) = delete;

  /// Resolves one node, which is changed as resolve() changes it. Producers come first. A node with a fault makes unknown values.
  void append(Node& node);
  /// Nothing will be known of the value, nor of what is computed from it. An input without constant extents must be one.
  void set_unknown(const Value* value);
  /// The value of a weight, or of what is computed from constants alone and does not depend on a float parameter, which training changes; of more
  /// elements than resolve() evaluates only where all are made by one node (`full`, `iota`). Nothing otherwise.
  std::optional<Tensor> known(const Value* value);
  /// The static type; nothing for a value that is unknown, or for a sequence.
  std::optional<Type> type(const Value* value);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tcc
