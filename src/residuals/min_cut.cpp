// Max-flow on a network of the forward and early nodes that the backward pass depends on (docs/residuals.md derives it).
//
//   source --recompute(n)--> n --save(v)--> v --infinite--> its readers u          v --infinite--> sink, when the backward pass reads v
//
// Cut edges are decisions: source -> n, the node is computed again; n -> v, the result is saved. Infinite edges are what can't be: a node computed again
// whose operand is neither, a value that the backward pass reads and nobody has. Inputs and weights are always there: they are no vertices.
//
// Two infinite kinds of edges are no edges but one vertex, so that sums of capacities stay small: a node that may not be computed again is the source, a result
// that may not be saved is its node, a value that the backward pass reads is the sink.
//
// The cut nearest the sink (least is saved early, most near its use): the vertices that reach the sink in the residual network are what the backward pass has.

#include "residuals/min_cut.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <numeric>

#include "tcc/support/diagnostics.h"

namespace tcc::residuals {
namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using Network = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property,
                                      boost::property<boost::edge_capacity_t, int64_t,
                                                      boost::property<boost::edge_residual_capacity_t, int64_t,
                                                                      boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>>;

/// Vertices that were found to be one.
class Vertices {
 public:
  explicit Vertices(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0); }
  size_t find(size_t vertex) {
    while (parent_[vertex] != vertex) vertex = parent_[vertex] = parent_[parent_[vertex]];
    return vertex;
  }
  void unite(size_t a, size_t b) { parent_[find(a)] = find(b); }

 private:
  std::vector<size_t> parent_;
};

struct Edge {
  size_t from, to;
  int64_t capacity;
};

Picoseconds saving(const RecomputeCosts& costs, const Value* value, Picoseconds price_per_kib) {
  const size_t id = static_cast<size_t>(value->id);
  return costs.save[id] + (costs.priced_bytes[id] * price_per_kib + 1023) / 1024;
}

/// Solves, and says for each vertex whether it reaches the sink in the residual network.
std::vector<char> sink_side(size_t num_vertices, const std::vector<Edge>& edges, size_t source, size_t sink) {
  Network network(num_vertices);
  auto capacity = get(boost::edge_capacity, network);
  auto reverse = get(boost::edge_reverse, network);
  for (const Edge& edge : edges) {
    const auto there = add_edge(edge.from, edge.to, network).first, back = add_edge(edge.to, edge.from, network).first;
    capacity[there] = edge.capacity;
    capacity[back] = 0;
    reverse[there] = back;
    reverse[back] = there;
  }
  push_relabel_max_flow(network, source, sink);
  const auto left = get(boost::edge_residual_capacity, network);
  std::vector<char> reaches(num_vertices);
  std::vector<size_t> stack{sink};
  reaches[sink] = 1;
  while (!stack.empty()) {
    const size_t vertex = stack.back();
    stack.pop_back();
    for (auto [edge, end] = out_edges(vertex, network); edge != end; ++edge) {
      const size_t other = target(*edge, network);
      if (reaches[other] || left[reverse[*edge]] == 0) continue;
      reaches[other] = 1;
      stack.push_back(other);
    }
  }
  return reaches;
}

bool is_kept(const std::vector<char>& keep, size_t node) { return !keep.empty() && keep[node]; }

}  // namespace

Saved cut(const RecomputeCosts& costs, Picoseconds price_per_kib, const std::vector<char>& keep) {
  const std::vector<Node*>& nodes = costs.graph->body.nodes;
  // Vertices: nodes by position, values by id, source, sink.
  const size_t num_values = costs.save.size(), source = nodes.size() + num_values, sink = source + 1;
  auto value_vertex = [&](const Value* value) { return nodes.size() + static_cast<size_t>(value->id); };
  Vertices vertices(sink + 1);
  std::vector<Edge> edges;
  int64_t total = 1;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!costs.needed_by_backward[i]) continue;
    if (is_kept(keep, i)) {
      vertices.unite(i, source);
    } else if (costs.recompute[i] > 0) {
      edges.push_back({source, i, costs.recompute[i]});
      total += costs.recompute[i];
    }
    for (const Value* result : nodes[i]->results) {
      if (costs.read_by_backward[static_cast<size_t>(result->id)]) vertices.unite(value_vertex(result), sink);
      if (costs.savable[static_cast<size_t>(result->id)]) {
        const Picoseconds price = saving(costs, result, price_per_kib);
        edges.push_back({i, value_vertex(result), price});
        total += price;
      } else {
        vertices.unite(i, value_vertex(result));
      }
    }
  }
  check(vertices.find(source) != vertices.find(sink), "a value that can neither be saved nor computed again");
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!costs.needed_by_backward[i]) continue;
    for (const Value* operand : nodes[i]->operands) {
      if (costs.partition.is_made(operand)) edges.push_back({value_vertex(operand), i, total});
    }
  }
  // Numbers for those that are left, in the order of their first edge.
  std::vector<size_t> number(sink + 1, SIZE_MAX);
  size_t count = 0;
  auto number_of = [&](size_t vertex) {
    size_t& n = number[vertices.find(vertex)];
    if (n == SIZE_MAX) n = count++;
    return n;
  };
  const size_t source_number = number_of(source), sink_number = number_of(sink);
  std::vector<Edge> merged;
  for (const Edge& edge : edges) {
    const Edge renumbered{number_of(edge.from), number_of(edge.to), edge.capacity};
    const bool matters = renumbered.from != renumbered.to && renumbered.to != source_number && renumbered.from != sink_number;
    if (matters && renumbered.capacity > 0) merged.push_back(renumbered);
  }
  const std::vector<char> has = sink_side(count, merged, source_number, sink_number);

  Saved saved(num_values);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!costs.needed_by_backward[i] || has[number_of(i)]) continue;
    for (const Value* result : nodes[i]->results) saved[static_cast<size_t>(result->id)] = has[number_of(value_vertex(result))];
  }
  return saved;
}

Picoseconds cost_of(const RecomputeCosts& costs, const Saved& saved, Picoseconds price_per_kib, const std::vector<char>& keep) {
  const std::vector<Node*>& nodes = costs.graph->body.nodes;
  std::vector<char> needed = costs.read_by_backward;
  Picoseconds cost = 0;
  for (size_t i = nodes.size(); i-- > 0;) {
    if (!costs.needed_by_backward[i]) continue;
    bool again = false;
    for (const Value* result : nodes[i]->results) {
      const size_t id = static_cast<size_t>(result->id);
      if (!needed[id]) continue;
      if (saved[id]) cost += saving(costs, result, price_per_kib);
      else again = true;
    }
    if (!again) continue;
    if (is_kept(keep, i)) return -1;
    cost += costs.recompute[i];
    for (const Value* operand : nodes[i]->operands) needed[static_cast<size_t>(operand->id)] = 1;
  }
  return cost;
}

}  // namespace tcc::residuals
