// Known values of the graph that an importer builds: what doesn't depend on the inputs, or only on known ones, or on their sizes.
//
//   %s: i64[2] = shape_of(%x)        %x: f32[n, 3], and --shapes says n=4
//   %n: i64[] = gather(%s, @zero)
//   %c: bool[] = equal(%n, @four)    value_of(%c) is true: an If takes its branch
//
// A second graph follows the first one as far as values were asked for: copies of the nodes behind them, with sizes and values of the inputs bound,
// resolved one by one (tcc/graph/resolve_sweep.h). Each node is copied once, so a question costs what is new since the one before.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tcc/passes/passes.h"
#include "tcc/passes/resolve_sweep.h"

namespace tcc {

class ShapeArithmetic {
 public:
  /// `graph` grows while this lives: nodes that it has stay as they are.
  explicit ShapeArithmetic(const Graph& graph) : graph_(graph) {}

  /// What is known of inputs, before the first question. Errors of it are those of bind_shapes(), thrown by the first question: a model that asks none
  /// is imported without.
  void bind(Bindings bindings) { bindings_ = std::move(bindings); }
  const Bindings& bindings() const { return bindings_; }

  /// Nothing when it isn't known, or is a function of a parameter, which training changes. (A parameter itself is known.)
  std::optional<Tensor> value_of(const Value* value);
  /// The type with the sizes that are known: those of a reshape to a size that is computed, say. Else the type that the value has in the graph.
  Type type_of(const Value* value);

  /// Nodes that were looked at so far.
  int64_t num_resolved_nodes() const { return num_resolved_nodes_; }

 private:
  Value* resolved(const Value* value);
  void declare_inputs();
  void declare(const Value* input, Value* copy);
  std::vector<const Node*> new_nodes_behind(const Value* value) const;
  void append(const Node& node);
  Value* copy_of(const Value* value);
  Value* copy_for_shape(const Value* value);

  const Graph& graph_;
  Bindings bindings_;
  std::unique_ptr<Graph> copy_;  // null until the first question
  std::unique_ptr<ResolveSweep> sweep_;
  std::unordered_map<const Value*, Value*> copies_;
  std::unordered_map<const Value*, Value*> shapes_;  // stand for values that are read for their shape alone
  int64_t num_resolved_nodes_ = 0;
};

}  // namespace tcc
