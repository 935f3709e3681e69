// The rules of fusion. Each looks at one node and merges its cluster with those of its producers where that saves memory traffic and costs no double work.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "group/clusters.h"
#include "group/placement.h"

namespace tcc::group {

/// Most core nodes and buffers of a unit: what registers and argument lists bear.
inline constexpr int kMaxUnitOps = 64;
inline constexpr int kMaxUnitBuffers = 24;

/// Pointwise, gather and concat nodes: join the units of their producers, the most valuable first.
void merge_pointwise(Clusters& clusters, Node& node);
/// Reductions: take in the pointwise nodes before them, and join reductions over the same rows.
void merge_reduce(Clusters& clusters, Node& node);
/// Reductions of columns by a layout: join those that read some of the same memory, which is then read once. After sink_pointwise.
void merge_columns(Clusters& clusters, Node& node);
/// Contractions and windows: take in the casts of their operands. Scans: what is computed point by point before them.
void merge_operands(Clusters& clusters, Node& node);
/// Concats whose pieces are contiguous ranges of the result: their producers write in place.
void fix_concat(Clusters& clusters, Node& node);
/// The same for vectors of many pieces, whatever the pieces are. Before fix_concat.
void fix_long_concats(Clusters& clusters);
/// The vectors of many pieces that fix_long_concats() will fix.
std::unordered_set<const Node*> long_concats_with_places(const Graph& graph);
/// What the loads and stores of a kernel assume of the addresses that it is given: pieces begin at multiples of it.
inline constexpr int64_t kConcatAlignment = 16;
/// Whether a value that is no reshape is the result of a node whose unit stores it where it is asked to.
bool is_stored_by_producer(const Value* value);
/// Contiguous slices, of values that have many, which outputs alone read: aliases that are copied. With the bytes at which they begin.
std::unordered_map<const Value*, int64_t> copied_slices(const Graph& graph);

/// Moves pointwise nodes from the units that make what they read to the ones that read them, where less is then stored. After all merging.
void sink_pointwise(Clusters& clusters);

/// Whether the cluster is a well-formed unit as it is; brings its `recomputed` up to date.
bool check_unit(Clusters& clusters, int cluster);
/// Merges two clusters when the result is a well-formed unit (check_merge.cpp says what that is); says whether it did.
bool try_merge(Clusters& clusters, int a, int b);

/// The core nodes with the views and creates between them and their operands, in graph order.
std::vector<Node*> with_views(const Clusters& clusters, const std::vector<Node*>& core);
/// Rough cost of one element of a node's result, in additions.
int op_cost(const Node& node);
/// The value that shapes a unit of kind map: the largest, of equal ones the last.
const Value* main_value(const std::vector<Node*>& core);

}  // namespace tcc::group
