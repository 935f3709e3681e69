// Which integers a value may hold, and which ones an input should hold.
//
//   %p: i64[8] = argmax(%scores) {axis=1, last=false}        known_range(%p): 0 to 9, whatever the inputs are
//   %h: f32[8, 64] = gather(@table, %ids) {axis=0}           input_ranges: %ids is to be 0 to 199, the rows of @table
//
// The first decides which indices need no check at run time; the second what a random input is drawn from, and what the library says of its inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/support/int_range.h"

namespace tcc {

/// Bounds of the elements of an integer or bool value, from the nodes that make it (prims) and its dtype. Nothing when a bound is not known; a few dozen
/// nodes are looked at.
std::optional<IntRange> known_range(const Value* value);

/// What an index was before views, conversions and choices between it and a constant: an input, a weight, or what a node computes.
const Value* source_of(const Value* index);

/// Where an op (a prim) reads indices: operand `operand` is to be in [-extent, extent) where negative ones wrap, else in [0, extent).
/// gather_nd and scatter_nd: `extents` has one for each element of a tuple.
struct IndexUse {
  int operand = 1;
  std::vector<int64_t> extents;
  bool wraps = true;
};
std::optional<IndexUse> index_use(const Node& node);

/// For the inputs of a graph of prims whose elements serve as indices, as classes of a loss or as lengths: which values are valid for every such use,
/// negative ones left out. Inputs of other uses are not among them.
std::unordered_map<const Value*, IntRange> input_ranges(const Graph& graph);

}  // namespace tcc
