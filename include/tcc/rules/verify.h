// The verifier of graphs.
#pragma once

#include <string>
#include <vector>

#include "tcc/graph/graph.h"

namespace tcc {

enum class GraphStage { imported, resolved, prims };
/// Checks order, types (recomputed by the rules), operand counts, attributes, unique names, outputs; stage `resolved`: static shapes and no
/// dynamic op; `prims`: prims only, no implicit broadcast. Returns every fault, with the node printed; empty when well formed.
std::vector<std::string> verify(const Graph& graph, GraphStage stage);

}  // namespace tcc
