// Where a node comes from, and faults of nodes as diagnostics.

#include "tcc/graph/location.h"
#include "tcc/graph/rule_error.h"

namespace tcc {

std::string where_of(const Graph& graph, const Node& node) {
  const std::string& file = node.loc.file.empty() ? graph.file : node.loc.file.str();
  const std::string& name = node.loc.node.empty() && !node.results.empty() ? node.result()->name : node.loc.node.str();
  return file.empty() ? name : file + ":" + name;
}

void report(Diagnostics& diagnostics, const Graph& graph, const Node& node, const RuleError& error) {
  // What tcc lacks has kinds of its own; everything else is wrong in the model.
  if (error.kind.starts_with("unsupported-")) diagnostics.not_supported(error.kind, where_of(graph, node), error.message, print(node));
  else diagnostics.error(error.kind, where_of(graph, node), error.message, print(node));
}

}  // namespace tcc
