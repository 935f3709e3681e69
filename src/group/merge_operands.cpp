// What contractions, windows and scans take in from before them.
//
// Every element of a contraction's operand is read many times, so only what costs nothing to repeat moves in: casts (and views, which are in no unit until the
// end). A scan reads each element once: whole chains move in where nothing else reads them.

#include <algorithm>

#include "group/merge.h"

namespace tcc::group {
namespace {

bool is_cast_only(const Cluster& cluster) {
  return cluster.kind == UnitKind::map && std::all_of(cluster.nodes.begin(), cluster.nodes.end(),
                                                      [](const Node* node) { return node->op == Op::cast_ || node->op == Op::bitcast_; });
}

bool read_by_node_alone(const Clusters& clusters, int producer, int own) {
  for (const Node* node : clusters[producer].nodes) {
    for (const Value* result : node->results) {
      if (clusters.escapes(result, producer, own)) return false;
    }
  }
  return true;
}

}  // namespace

void merge_operands(Clusters& clusters, Node& node) {
  for (const Value* operand : node.operands) {
    const std::vector<Value*> sources = clusters.sources(operand);
    for (const Value* source : sources) {
      const int producer = clusters.cluster_of(source->producer), own = clusters.cluster_of(&node);
      const bool fits = clusters[own].kind == UnitKind::scan ? clusters[producer].kind == UnitKind::map : is_cast_only(clusters[producer]);
      if (fits && read_by_node_alone(clusters, producer, own)) try_merge(clusters, producer, own);
    }
  }
}

}  // namespace tcc::group
