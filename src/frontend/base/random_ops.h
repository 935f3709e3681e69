// The random operators of a graph. All read one run-time input, the seed; each has a stream of numbers of its own.
#pragma once

#include "tcc/graph/graph.h"

namespace tcc {

class RandomOps {
 public:
  explicit RandomOps(Graph& graph) : graph_(graph) {}

  /// The run-time input `seed`, i64[], behind the inputs that the model has; made when it is first asked for. RuleError when the model has another
  /// value of that name.
  Value* seed();
  /// How many were counted before; this one is counted now.
  int64_t count() { return count_++; }

 private:
  Graph& graph_;
  int64_t count_ = 0;
};

}  // namespace tcc
