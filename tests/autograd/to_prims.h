// What the driver does to the graphs of gradients and of a training.
#pragma once

#include "tcc/passes/passes.h"
#include "tcc/rules/verify.h"

namespace tcc::test {

/// To verified prims, simplified, parameters no constants. Throws (internal) when they are not well formed.
inline void to_prims(Graph& graph) {
  Diagnostics diagnostics;
  for (int round = 0; round < 2; ++round) {
    canonicalize(graph, true);
    fold_constants(graph, true);
    eliminate_common_subexpressions(graph);
    if (round == 0) decompose(graph, diagnostics);
  }
  diagnostics.checkpoint();
  const std::vector<std::string> faults = verify(graph, GraphStage::prims);
  if (!faults.empty()) internal_error(faults.front());
}

}  // namespace tcc::test
