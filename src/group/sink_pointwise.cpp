// Pointwise nodes leave the unit that they were fused into when only one other unit reads them, and less goes through memory if that one computes them.
//
//   %d = dot_general(%dy, %w);  %a = mul(%d, %g);  %b = mul(%a, %h);  %s = reduce_sum(%b);  %r = sub(%a, broadcast_in_dim(%s))
//   unit contract {%d, %a, %b} -> (%d, %a, %b)       unit rows {%s, %r} (%a, %b) -> (%r)         %d is read by others too
//   becomes
//   unit contract {%d} -> (%d)                       unit rows {%a, %b, %s, %r} (%d, %g, %h) -> (%r)
//
// Fusion looks at one node at a time, in graph order, and can't see this: that a reduction of a row will need %b was not known when %b joined the contraction.
// Backward passes are full of it: what a contraction makes is scaled by what the forward pass saved, and then summed over rows.
// A node moves only with all that reads it in its unit, and costs little, since rows may compute it once per pass.
//
// What several of the moved nodes read may stay, and be stored in their place: one value instead of nine where a gradient goes back through a window.
//
//   unit contract {%g, %s0, ..., %s8} -> (%s0, ..., %s8)     unit map {%sum} (%s0, ..., %s8)       %s0 = select(eq(%took, 0), %g, 0)
//   becomes
//   unit contract {%g} -> (%g)                               unit map {%s0, ..., %s8, %sum} (%g, %took)

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "group/index_maps.h"
#include "group/merge.h"

namespace tcc::group {
namespace {

/// What may be computed in another place, in additions per element; in a map for each value that need not be stored.
constexpr int kMaxMovedCost = 8;

using Values = std::unordered_set<const Value*>;

/// What a value is in memory when nothing before it is: inputs, weights and core results below its views.
void collect_memory(const Clusters& clusters, const Value* value, Values& memory) {
  if (!value->producer || clusters.is_core(*value->producer)) {
    memory.insert(value);
    return;
  }
  for (const Value* operand : value->producer->operands) collect_memory(clusters, operand, memory);
}

Values read_by(const Clusters& clusters, const std::vector<Node*>& nodes) {
  Values memory;
  for (const Node* node : nodes) {
    for (const Value* operand : node->operands) collect_memory(clusters, operand, memory);
  }
  return memory;
}

bool may_give(const Cluster& cluster) {
  return !cluster.fixed && (cluster.kind == UnitKind::contract || cluster.kind == UnitKind::window || cluster.kind == UnitKind::rows ||
                            cluster.kind == UnitKind::map);
}

bool may_take(const Cluster& from, const Cluster& to) {
  return !to.fixed && (to.kind == UnitKind::rows || to.kind == UnitKind::map) && from.forward == to.forward && from.backward == to.backward;
}

/// The nodes that one other cluster alone reads, directly or through others of these, by that cluster.
std::map<int, std::vector<Node*>> movable(const Clusters& clusters, int from) {
  std::unordered_map<const Node*, int> goes_to;
  std::map<int, std::vector<Node*>> result;
  const auto& nodes = clusters[from].nodes;
  for (size_t i = nodes.size(); i-- > 0;) {
    Node* node = nodes[i];
    if (!is_pointwise(*node) || node == clusters[from].anchor || clusters.read_by_output(node->result())) continue;
    int target = -1;
    for (const Node* reader : clusters.consumers(node->result())) {
      const int cluster = clusters.cluster_of(reader);
      const auto moved = goes_to.find(reader);
      const int next = cluster != from ? cluster : moved != goes_to.end() ? moved->second : -1;
      if (next < 0 || (target >= 0 && next != target)) {
        target = -1;
        break;
      }
      target = next;
    }
    if (target < 0) continue;
    goes_to[node] = target;
    result[target].push_back(node);
  }
  for (auto& [target, moved] : result) std::reverse(moved.begin(), moved.end());
  return result;
}

/// Where nodes would be computed in a unit of kind map: where its results are, or once for each pad that spreads what is made of them.
class Places {
 public:
  Places(const Clusters& clusters, int to) : clusters_(clusters), to_(to) {}

  /// The pads, and null for the place of the results. `moved`: what would be in the unit, too.
  const std::set<const Node*>& of(const Node* node, const std::unordered_set<const Node*>& moved) {
    const auto [at, is_new] = places_.try_emplace(node);
    std::set<const Node*>& places = at->second;
    if (!is_new) return places;
    for (const Node* reader : clusters_.consumers(node->result())) {
      if (clusters_.cluster_of(reader) != to_ && !moved.contains(reader)) continue;
      const Node* pad = pad_between(node, reader);
      if (pad || !is_pointwise(*reader)) {
        places.insert(pad);
      } else {
        const std::set<const Node*> further = of(reader, moved);
        places.insert(further.begin(), further.end());
      }
    }
    if (places.empty()) places.insert(nullptr);
    return places;
  }

 private:
  const Node* pad_between(const Node* node, const Node* reader) const {
    for (const Value* operand : reader->operands) {
      const Node* pad = nullptr;
      while (operand && operand != node->result() && operand->producer && is_view(*operand->producer)) {
        if (operand->producer->op == Op::pad_) pad = operand->producer;
        operand = operand->producer->operand(0);
      }
      if (operand == node->result() && pad) return pad;
    }
    return nullptr;
  }

  const Clusters& clusters_;
  int to_;
  std::map<const Node*, std::set<const Node*>> places_;  // references stay valid
};

/// Of the nodes those that would be computed in one place: what several pads read is read from memory.
std::vector<Node*> in_one_place(const Clusters& clusters, const std::vector<Node*>& moved, int to) {
  const std::unordered_set<const Node*> all(moved.begin(), moved.end());
  Places places(clusters, to);
  std::unordered_set<const Node*> left;
  std::vector<Node*> result;
  for (size_t i = moved.size(); i-- > 0;) {
    const auto& readers = clusters.consumers(moved[i]->result());
    const bool stays = places.of(moved[i], all).size() > 1 || std::ranges::any_of(readers, [&](const Node* r) { return left.contains(r); });
    if (stays) left.insert(moved[i]);
    else result.push_back(moved[i]);
  }
  std::reverse(result.begin(), result.end());
  return result;
}

/// Bytes that go through memory because the nodes are in `from` (stored there, read in `to`), and if they were in `to`.
struct Traffic {
  int64_t before = 0, after = 0;
  int64_t stored_before = 0, stored_after = 0;
  int values_before = 0, values_after = 0;  ///< that are stored
};
Traffic traffic_of(const Clusters& clusters, const std::vector<Node*>& moved, int from, int to) {
  const std::unordered_set<const Node*> set(moved.begin(), moved.end());
  std::vector<Node*> kept;
  std::copy_if(clusters[from].nodes.begin(), clusters[from].nodes.end(), std::back_inserter(kept), [&](Node* n) { return !set.count(n); });
  const Values needed = read_by(clusters, moved), still_read = read_by(clusters, kept), read_there = read_by(clusters, clusters[to].nodes);
  Traffic traffic;
  for (const Node* node : moved) {
    const auto& readers = clusters.consumers(node->result());
    if (std::none_of(readers.begin(), readers.end(), [&](const Node* reader) { return clusters.cluster_of(reader) == to; })) continue;
    traffic.before += 2 * node->result()->type.size_bytes();
    traffic.stored_before += node->result()->type.size_bytes();
    ++traffic.values_before;
  }
  for (const Value* value : needed) {
    const int64_t bytes = value->type.size_bytes();
    const bool made_here = value->producer && clusters.cluster_of(value->producer) == from;
    if (made_here && set.count(value->producer)) continue;
    if (!read_there.count(value)) traffic.after += bytes;
    if (made_here && !clusters.escapes(value, from)) {
      traffic.after += bytes;
      traffic.stored_after += bytes;
      ++traffic.values_after;
    }
    if (!made_here && !still_read.count(value)) traffic.before += bytes;
  }
  return traffic;
}

/// Moves the nodes where that pays. Returns whether it did.
bool try_move(Clusters& clusters, const std::vector<Node*>& moved, int from, int to) {
  if (moved.empty() || moved.size() == clusters[from].nodes.size()) return false;
  int cost = 0;
  for (const Node* node : moved) cost += op_cost(*node);
  const Traffic traffic = traffic_of(clusters, moved, from, to);
  const int spared = clusters[to].kind == UnitKind::map ? std::max(1, traffic.values_before - traffic.values_after) : 1;
  if (cost > kMaxMovedCost * spared) return false;
  if (traffic.after > traffic.before || (traffic.after == traffic.before && traffic.stored_after >= traffic.stored_before)) return false;
  clusters.move(moved, from, to);
  if (check_unit(clusters, from) && check_unit(clusters, to)) return true;
  clusters.move(moved, to, from);
  return false;
}

}  // namespace

void sink_pointwise(Clusters& clusters) {
  std::set<int> left;  // the last first: what it reads may then move on with it
  for (int cluster = 0; cluster < clusters.size(); ++cluster) left.insert(left.end(), cluster);
  while (!left.empty()) {
    const int from = *left.rbegin();
    left.erase(from);
    if (clusters[from].nodes.size() < 2 || !may_give(clusters[from])) continue;
    for (const auto& [to, moved] : movable(clusters, from)) {
      if (!may_take(clusters[from], clusters[to])) continue;
      const std::vector<Node*> wanted = clusters[to].kind == UnitKind::map ? in_one_place(clusters, moved, to) : moved;
      if (!try_move(clusters, wanted, from, to)) continue;
      for (const Value* value : read_by(clusters, wanted)) {
        if (value->producer) left.insert(clusters.cluster_of(value->producer));
      }
    }
  }
}

}  // namespace tcc::group
