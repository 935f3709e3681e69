// Fusion: which prims share a unit of work.
//
//   %h = dot_general(%x, @w);  %b = add(%h, broadcast_in_dim(@bias));  %r = max(%b, full(0))     ->   unit contract {%h, %b, %r} anchor %h
//   %m = reduce_max(%r); %e = exp(sub(%r, %m)); %s = reduce_sum(%e); %y = div(%e, %s)            ->   unit rows {%m, %e, %s, %y}
//
// One sweep in graph order; every node tries to join its producers by the rule of its class (merge_*.cpp), and every merge is checked as a whole
// (check_merge.cpp). Views and creates cost nothing: they belong to whoever reads them, in as many units as read them. At the end materialize.cpp says what is
// in memory. Greedy in graph order is enough where producers come before consumers and epilogues are short; the sweep is linear, up to the bounded searches.

#include "group/materialize.h"
#include "group/merge.h"

namespace tcc::group {

namespace {

Groups fuse(Clusters& clusters, bool merges) {
  fix_long_concats(clusters);
  for (Node* node : clusters.core()) {
    if (node->op == Op::concat_) fix_concat(clusters, *node);
  }
  if (merges) {
    for (Node* node : clusters.core()) {
      switch (info(node->op).lowering) {
        case Lowering::pointwise:
        case Lowering::indexed:
        case Lowering::concat: merge_pointwise(clusters, *node); break;
        case Lowering::reduce: merge_reduce(clusters, *node); break;
        case Lowering::contract:
        case Lowering::window:
        case Lowering::scan: merge_operands(clusters, *node); break;
        default: break;
      }
    }
    sink_pointwise(clusters);
    for (Node* node : clusters.core()) {
      if (is_reduce(*node)) merge_columns(clusters, *node);
    }
  }
  return materialize(clusters);
}

/// Returns whether it changed anything.
bool use_kernels_of_target(Groups& groups, const GroupOptions& options) {
  bool changed = options.stream_ns && stream_rows(groups, options);
  changed = (options.stream_ns && chain_products(groups, options)) || changed;
  if (!options.channels_last) return changed;
  changed = choose_layouts(groups, options.channels_last) || changed;
  return turn_results(groups, options.channels_last) || changed;
}

}  // namespace

bool suit_target(Groups& groups, const GroupOptions& options) {
  if (!use_kernels_of_target(groups, options)) return false;
  if (!groups.layouts.empty()) {
    // What is a row to a reduction was not known before there were layouts.
    Clusters informed(*groups.graph, groups.layouts);
    if (informed.has_columns_by_layout()) {
      groups = fuse(informed, options.fuse);
      use_kernels_of_target(groups, options);
    }
  }
  pad_rows(groups);
  return true;
}

Groups form_groups(const Graph& graph, const GroupOptions& options) {
  Clusters clusters(graph);
  Groups groups = fuse(clusters, options.fuse);
  pad_rows(groups);
  suit_target(groups, options);
  return groups;
}

}  // namespace tcc::group
