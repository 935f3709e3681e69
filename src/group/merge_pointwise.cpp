// Pointwise nodes join the units of their producers: the epilogue of a contraction, window or scan, the pointwise part of rows, a chain.
//
//   %c = conv_general(%x, %w);  %s = add(%c, broadcast_in_dim(%b));  %y = max(%s, full(0))       ->   one unit, anchor %c
//   %m = reduce_max(%x);  %e = exp(sub(%x, broadcast_in_dim(%m)))                                ->   one unit of rows
//
// A node with several producers in different units joins the most valuable one first (an anchor's, then rows, then maps; the later of equal ones, since the
// earlier has been waiting for nothing). The others join too where they can: chains do, a second anchor does not and is read from memory.

#include <algorithm>

#include "group/merge.h"

namespace tcc::group {
namespace {

int value_of(UnitKind kind) { return kind == UnitKind::map ? 0 : kind == UnitKind::rows ? 1 : 2; }

}  // namespace

void merge_pointwise(Clusters& clusters, Node& node) {
  std::vector<const Node*> producers;
  for (const Value* operand : node.operands) {
    for (const Value* source : clusters.sources(operand)) {
      if (std::find(producers.begin(), producers.end(), source->producer) == producers.end()) producers.push_back(source->producer);
    }
  }
  std::stable_sort(producers.begin(), producers.end(), [&](const Node* x, const Node* y) {
    const Cluster& a = clusters[clusters.cluster_of(x)];
    const Cluster& b = clusters[clusters.cluster_of(y)];
    if (value_of(a.kind) != value_of(b.kind)) return value_of(a.kind) > value_of(b.kind);
    return a.order > b.order;
  });
  for (const Node* producer : producers) try_merge(clusters, clusters.cluster_of(producer), clusters.cluster_of(&node));
}

}  // namespace tcc::group
