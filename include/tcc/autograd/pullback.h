// The gradients of one graph as nodes of another: for ops inside a model that are themselves backward passes.
//
//   forward:  graph @f(%x: f32[2], %y_saved: f32[2]) -> (%y: f32[2]) { %y = sigmoid(%x) }
//   with the cotangent %g of %y, for %x, where %y is read from %y_saved, there is appended
//   %dx = mul(%g, mul(%y_saved', add(neg(%y_saved'), 1)))        %y_saved' being the value of that input
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tcc/rules/builder.h"

namespace tcc {

struct Pullback {
  std::vector<Value*> inputs;                ///< the value of each input of the forward graph; null: no rule may read its value
  std::vector<Value*> cotangents;            ///< of each output, of its type
  std::vector<std::string> wrt;              ///< names of float inputs of the forward graph, each once
  std::map<std::string, std::string> saved;  ///< results, by name, that rules read from an input, by name
  std::optional<Location> loc;               ///< of all nodes; nothing: those of the forward graph, in the phase "grad"
};

/// Appends the gradients of a resolved graph and returns one for each of `wrt`, zeros where no output depends on it. Of the forward pass only what
/// the rules read is appended. RuleError "unsupported-gradient" for an op without a rule.
std::vector<Value*> append_pullback(Builder& b, const Graph& forward, const Pullback& pullback);

}  // namespace tcc
