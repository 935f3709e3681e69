// Appends to a graph of a training what reads and writes the state.
//
// What happens to the gradients of one dtype, in f32 or wider:
//   flat      concat of all, each padded with zeros to 256 bytes; with an accumulation of K: / K, plus what the state has
//   finite    with a loss scale: whether all gradients are finite; then divided by the scale
//   clipped   by value, then by the joint norm over all dtypes
//   updated   by the formulas in update_rules.cpp; with a loss scale select(finite, new, old)
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/training_state.h"
#include "tcc/rules/builder.h"

namespace tcc::autograd {

class StateWriter {
 public:
  StateWriter(Graph& graph, TrainingState& state, const OptimizerOptions& options);

  Value* read(const std::string& name) { return state_.read(graph_, name); }
  void set(const std::string& name, Value* value) { graph_.state_updates.push_back({read(name)->weight, value}); }

  /// The gradients of flat parameters as one tensor; `copies` tells what those of the joint graph are in this one.
  Value* gradient_of(const FlatParameters& flat, const std::unordered_map<const Value*, Value*>& copies);
  /// The gradients that the state has under this name, plus these / K, in a wide dtype.
  Value* accumulated(const std::string& name, Value* gradient, DType wide);
  /// Adds the share of each gradient to the state.
  void accumulate(const std::vector<Trained>& trained, const std::unordered_map<const Value*, Value*>& copies);
  void clear_gradients(const FlatParameters& flat) { set(flat.gradients, b_.full_like(read(flat.gradients), 0)); }

  /// Updates all flat parameters from their gradients, and adds the input `lr`.
  void update(const std::vector<FlatParameters>& flats, std::vector<Value*> gradients);
  /// Counts a draw of random numbers.
  void advance_draw();

 private:
  Location update_location(const Value* value) const;
  Value* set_if_finite(const std::string& name, Value* value);
  void unscale(std::vector<Value*>& gradients);
  Value* clip_value(Value* gradient);
  void clip_norm(std::vector<Value*>& gradients);
  void update(const FlatParameters& flat, Value* gradient, Value* lr, Value* step);

  Graph& graph_;
  TrainingState& state_;
  const OptimizerOptions& options_;
  Builder b_;
  Value* finite_ = nullptr;  ///< bool[], null without a loss scale
};

}  // namespace tcc::autograd
