// A reduction takes in what is computed point by point before it, and joins reductions over the same rows that it reads from.
//
//   %q = mul(%x, %x);  %s = reduce_sum(%q) {axes=[1]}                               ->   one unit of rows
//   %e = exp(sub(%x, broadcast_in_dim(%m)));  %s = reduce_sum(%e) {axes=[1]}        ->   the unit of rows that %m and %e are in
//
// Not where the reduced axes leave out the fastest one and others read the operand: it would be stored column by column.
// Reductions of one materialised value over the same axes share a unit too: the value is read once.

#include <algorithm>

#include "group/merge.h"

namespace tcc::group {
namespace {

/// Whether the last axis of the operand that has more than one element is reduced.
bool reduces_fastest_axis(const Node& reduce) {
  const Shape shape = reduce.operand(0)->type.shape();
  int64_t axis = static_cast<int64_t>(shape.size()) - 1;
  while (axis > 0 && shape[static_cast<size_t>(axis)] == 1) --axis;
  const auto axes = reduced_axes(reduce);
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

}  // namespace

void merge_reduce(Clusters& clusters, Node& node) {
  const bool along_rows = reduces_fastest_axis(node);
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

}  // namespace tcc::group
