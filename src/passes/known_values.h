// Values that a pass has evaluated. A known value may leave the graph ("absent"); it comes back as a constant where a node that stays reads it.
#pragma once

#include <vector>

#include "tcc/graph/graph.h"

namespace tcc {

class KnownValues {
 public:
  /// Constants that come back as `full` nodes are appended to `kept`, the body that the pass builds.
  KnownValues(Graph& graph, std::vector<Node*>& kept) : graph_(graph), kept_(kept) {}

  void set(const Value* value, Tensor tensor, bool absent);
  /// Null when nothing is known; weights are known.
  const Tensor* find(const Value* value) const;
  bool is_absent(const Value* value) const { return entry_of(value) != nullptr && entry_of(value)->absent; }
  /// The value itself when it is in the graph, else a constant that holds it: a `full` when all elements are the same, a weight otherwise.
  Value* present(Value* value);

 private:
  struct Entry {
    Tensor tensor;
    bool absent = false;
    Value* constant = nullptr;
  };
  const Entry* entry_of(const Value* value) const {
    return static_cast<size_t>(value->id) < entries_.size() ? &entries_[static_cast<size_t>(value->id)] : nullptr;
  }

  Graph& graph_;
  std::vector<Node*>& kept_;
  std::vector<Entry> entries_;  // by value id
};

}  // namespace tcc
