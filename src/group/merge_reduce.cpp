// A reduction takes in what is computed point by point before it, and joins reductions over the same rows that it reads from.
//
//   %q = mul(%x, %x);  %s = reduce_sum(%q) {axes=[1]}                               ->   one unit of rows
//   %e = exp(sub(%x, broadcast_in_dim(%m)));  %s = reduce_sum(%e) {axes=[1]}        ->   the unit of rows that %m and %e are in
//
// Not where the reduced axes leave out the fastest one and others read the operand: it would be stored column by column.
// Reductions of one materialised value over the same axes share a unit too: the value is read once. So do reductions of columns of which some values are the same.

#include <algorithm>

#include "group/merge.h"

namespace tcc::group {
namespace {

bool reduces_like(const Node& a, const Node& b) {
  return is_reduce(a) && reduced_axes(a) == reduced_axes(b) && a.operand(0)->type.dims == b.operand(0)->type.dims;
}

}  // namespace

void merge_reduce(Clusters& clusters, Node& node) {
  const bool along_rows = !clusters.reduces_columns(&node);
  for (Value* source : clusters.sources(node.operand(0))) {
    const int producer = clusters.cluster_of(source->producer), own = clusters.cluster_of(&node);
    const Cluster& from = clusters[producer];
    if (from.kind != UnitKind::map && from.kind != UnitKind::rows) continue;
    if (from.kind == UnitKind::map && !along_rows && clusters.escapes(source, producer, own)) continue;
    try_merge(clusters, producer, own);
  }
  // The other readers of what is still read from memory.
  if (clusters[clusters.cluster_of(&node)].nodes.size() > 1) return;
  for (Value* source : clusters.sources(node.operand(0))) {
    for (const Node* reader : clusters.consumers(source)) {
      if (reader == &node) break;
      if (is_reduce(*reader) && reduced_axes(*reader) == reduced_axes(node) &&
          try_merge(clusters, clusters.cluster_of(reader), clusters.cluster_of(&node)))
        return;
    }
  }
}

void merge_columns(Clusters& clusters, Node& node) {
  if (!clusters.has_columns_by_layout() || !clusters.reduces_columns(&node)) return;
  const int own = clusters.cluster_of(&node);
  std::vector<Node*> readers;
  for (const Node* member : clusters[own].nodes) {
    for (const Value* operand : member->operands) {
      for (const Value* source : clusters.sources(operand)) {
        if (source->type.dims.size() != node.operand(0)->type.dims.size() || clusters.cluster_of(source->producer) == own) continue;
        const std::vector<Node*>& consumers = clusters.consumers(source);
        readers.insert(readers.end(), consumers.begin(), consumers.end());
      }
    }
  }
  for (const Node* reader : readers) {
    const int other = clusters.cluster_of(reader), now = clusters.cluster_of(&node);
    if (other == now || clusters[other].kind != UnitKind::rows || clusters.position(reader) > clusters.position(&node)) continue;
    const std::vector<Node*>& members = clusters[other].nodes;
    if (std::any_of(members.begin(), members.end(), [&](const Node* member) { return reduces_like(*member, node); }))
      try_merge(clusters, other, now);
  }
}

}  // namespace tcc::group
