// What choose_residuals knows of a joint graph: which half each node is in, and what saving and computing again cost.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tcc/graph/graph.h"

namespace tcc::group {
struct Groups;
}
namespace tcc {
struct Target;
}

namespace tcc::residuals {

/// forward: computed by the forward pass. early: of the backward pass, but of forward values alone (a mask, the statistics of a norm), so that the
/// forward pass could compute and save it. backward: the rest.
enum class Half : uint8_t { forward, early, backward };

using Picoseconds = int64_t;

struct Partition {
  std::vector<Half> of_node;  ///< by position in graph.body.nodes
  std::vector<int> position;  ///< by value id: of the node that makes it, -1 for inputs and weights

  Half of(const Value* value) const { return of_node[static_cast<size_t>(position[static_cast<size_t>(value->id)])]; }
  bool is_made(const Value* value) const { return position[static_cast<size_t>(value->id)] >= 0; }
};
Partition find_partition(const Graph& graph);

/// Whether an output of the graph belongs to the backward half: it is a gradient.
bool is_backward_output(const Graph& graph, size_t output, const Partition& partition);
bool is_backward_update(const StateUpdate& update, const Partition& partition);
bool is_cotangent(const Value* value);

/// Costs nothing by itself: a view or a created value.
bool is_free(const Node& node);

struct RecomputeCosts {
  const Graph* graph = nullptr;
  Partition partition;
  // By position of the node:
  std::vector<char> needed_by_forward;   ///< an output or update of the forward half depends on it
  std::vector<char> needed_by_backward;  ///< forward and early nodes that the backward half depends on
  std::vector<Picoseconds> recompute;    ///< what computing it in the backward pass adds
  // By value id, of values of forward and early nodes:
  std::vector<char> savable;           ///< false: views that say nothing that their operand doesn't, and created values
  std::vector<char> read_by_backward;  ///< by a node of the backward half, an output or an update of it
  std::vector<Picoseconds> save;       ///< write, unless it is in memory anyway, and read
  std::vector<int64_t> bytes;          ///< that saving takes; 0 for outputs of the caller
  std::vector<int64_t> priced_bytes;   ///< what a price of memory counts: of `stored_again` less near the end of the forward pass
  std::vector<char> stored_again;      ///< computed again, it is in memory again: its readers can't take it in
};
/// `group`: see Planner.
RecomputeCosts analyze(const Graph& graph, const Target& target, const std::function<group::Groups(const Graph& graph)>& group);

/// By position: how many forward nodes come before the node; of an early one, before the last forward node that it depends on.
std::vector<int> forward_ranks(const RecomputeCosts& costs);

}  // namespace tcc::residuals
