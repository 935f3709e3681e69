// Where a node comes from, and faults of nodes as diagnostics.
#pragma once

#include <string>

#include "tcc/graph/graph.h"
#include "tcc/graph/rule_error.h"
#include "tcc/support/diagnostics.h"

namespace tcc {

/// "file:node"; a node without a name in the model is named by its first result.
std::string where_of(const Graph& graph, const Node& node);
/// Reports what a rule refused, with the node printed.
void report(Diagnostics& diagnostics, const Graph& graph, const Node& node, const RuleError& error);

}  // namespace tcc
