// Walks over a graph and its nested regions, in order. Used by all passes, so that none forgets the regions.
#pragma once

#include "tcc/graph/graph.h"

namespace tcc {

/// f(node) for every node, a node before those of its regions.
template <class F> void for_each_node(const Region& region, const F& f) {
  for (Node* node : region.nodes) {
    f(*node);
    for (const auto& inner : node->regions) for_each_node(*inner, f);
  }
}

/// f(value) for every place that reads a value: operands, results of regions, outputs and state updates. f gets a reference that it may change.
template <class F> void for_each_use(Region& region, const F& f) {
  for (Node* node : region.nodes) {
    for (Value*& operand : node->operands) {
      if (operand != nullptr) f(operand);
    }
    for (const auto& inner : node->regions) for_each_use(*inner, f);
  }
  for (Value*& result : region.results) f(result);
}
template <class F> void for_each_use(Graph& graph, const F& f) {
  for_each_use(graph.body, f);
  for (StateUpdate& update : graph.state_updates) f(update.value);
}

}  // namespace tcc
