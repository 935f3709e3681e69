// Keeps the clusters in a topological order while they merge (Pearce and Kelly, "A dynamic topological sort algorithm for directed acyclic graphs").
//
// Merging lo and hi is refused when a path leaves lo and comes back to hi through a third cluster. Such a path stays within the orders between the two, so
// only what lies there is searched: F, reached forward from lo, and B, reached backward from hi. Then B, the merged cluster and F take the places they had.

#include "group/clusters.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "group/index_maps.h"
#include "group/structure.h"

namespace tcc::group {
namespace {

/// Clusters looked at before a merge is given up: keeps grouping linear on graphs with long side ways.
constexpr size_t kSearchBudget = 256;

UnitKind kind_of(const Node& node) {
  switch (info(node.op).lowering) {
    case Lowering::reduce: return UnitKind::rows;
    case Lowering::scan: return UnitKind::scan;
    case Lowering::window: return UnitKind::window;
    case Lowering::contract: return UnitKind::contract;
    case Lowering::scatter: return UnitKind::scatter;
    case Lowering::sort: return UnitKind::sort;
    default: return UnitKind::map;
  }
}

}  // namespace

Clusters::Clusters(const Graph& graph, const std::vector<Layout>& layouts) : graph_(graph) {
  const size_t num_values = static_cast<size_t>(graph.num_values());
  sources_.resize(num_values);
  consumers_.resize(num_values);
  read_by_output_.resize(num_values);
  position_.resize(num_values, -1);
  cluster_.resize(num_values, -1);
  computation_.resize(num_values, -1);
  auto add_sources = [&](std::vector<Value*>& to, const Value* value) {
    for (Value* source : sources(value)) {
      if (std::find(to.begin(), to.end(), source) == to.end()) to.push_back(source);
    }
  };
  const std::vector<char> read_narrow = find_narrow_reads();
  int position = 0;
  std::unordered_map<std::string, int> computations;
  std::string computation;
  for (Node* node : graph.body.nodes) {
    position_[number_of(node)] = position++;
    computation.clear();
    append_computation(computation, *node);
    computation_[number_of(node)] = computations.emplace(computation, static_cast<int>(computations.size())).first->second;
    std::vector<Value*> read;
    for (const Value* operand : node->operands) add_sources(read, operand);
    if (is_view(*node) || is_create(*node) || read_narrow[number_of(node)] != 0) {
      for (const Value* result : node->results) sources_[static_cast<size_t>(result->id)] = read;
      continue;
    }
    for (Value* source : read) consumers_[static_cast<size_t>(source->id)].push_back(node);
    for (Value* result : node->results) sources_[static_cast<size_t>(result->id)] = {result};
    cluster_[number_of(node)] = size();
    Cluster cluster;
    cluster.kind = kind_of(*node);
    cluster.nodes = {node};
    cluster.order = size();
    if (cluster.kind != UnitKind::map && cluster.kind != UnitKind::rows) cluster.anchor = node;
    cluster.backward = !node->loc.phase.empty();
    cluster.forward = !cluster.backward;
    clusters_.push_back(std::move(cluster));
    core_.push_back(node);
  }
  auto mark = [&](const Value* value) {
    for (const Value* source : sources(value)) read_by_output_[static_cast<size_t>(source->id)] = 1;
  };
  for (const Value* output : graph.body.results) mark(output);
  for (const StateUpdate& update : graph.state_updates) mark(update.value);
  number_results();
  find_columns(layouts);
}

/// By number_of. What has to be in memory in the wide dtype is not read narrow: results, state, and pieces of concats, through views.
std::vector<char> Clusters::find_narrow_reads() const {
  std::unordered_set<const Value*> stored(graph_.body.results.begin(), graph_.body.results.end());
  for (const StateUpdate& update : graph_.state_updates) stored.insert(update.value);
  std::vector<char> read_narrow(cluster_.size());
  for (size_t i = graph_.body.nodes.size(); i-- > 0;) {
    const Node& node = *graph_.body.nodes[i];
    const bool is_stored = std::ranges::any_of(node.results, [&](const Value* result) { return stored.contains(result); });
    if (node.op == Op::concat_ || (is_view(node) && is_stored)) stored.insert(node.operands.begin(), node.operands.end());
    read_narrow[number_of(&node)] = !is_stored && can_be_read_narrow(node);
  }
  return read_narrow;
}

void Clusters::number_results() {
  result_number_.resize(cluster_.size(), -1);
  std::map<std::vector<int64_t>, int> numbers;
  for (const Node* node : graph_.body.nodes) {
    std::vector<int64_t> key{computation_[number_of(node)]};
    for (const Value* operand : node->operands) {
      // Values that no node makes are told apart by their own numbers, which are no node's.
      if (!operand) key.push_back(-1);
      else if (!operand->producer) key.push_back(-2 - operand->id);
      else key.insert(key.end(), {result_number_[number_of(operand->producer)], operand->id - operand->producer->results.front()->id});
    }
    const auto [at, is_new] = numbers.emplace(std::move(key), static_cast<int>(numbers.size()));
    result_number_[number_of(node)] = at->second;
    has_copies_ = has_copies_ || !is_new;
  }
}

namespace {

/// Whether the last axis of the reduced value, in the order of memory, that has more than one element stays.
bool keeps_fastest_axis(const Node& reduce, const std::vector<int64_t>& order) {
  const Shape shape = reduce.operand(0)->type.shape();
  const auto axis_at = [&](size_t place) { return order.empty() ? static_cast<int64_t>(place) : order[place]; };
  size_t place = shape.size();
  while (place > 1 && shape[static_cast<size_t>(axis_at(place - 1))] == 1) --place;
  const std::vector<int64_t> axes = reduced_axes(reduce);
  return place > 0 && std::find(axes.begin(), axes.end(), axis_at(place - 1)) == axes.end();
}

}  // namespace

void Clusters::find_columns(const std::vector<Layout>& layouts) {
  // What is computed point by point of a value with a layout would have the same.
  std::unordered_map<const Value*, const std::vector<int64_t>*> orders;
  for (const Layout& layout : layouts) orders[layout.value] = &layout.order;
  const auto spread = [&](const Node& node, const Value* from, const Value* to) {
    const auto found = orders.find(from);
    if (is_pointwise(node) && found != orders.end() && from->type.dims == to->type.dims) orders.try_emplace(to, found->second);
  };
  if (!layouts.empty()) {
    for (const Node* node : graph_.body.nodes) {
      for (const Value* operand : node->operands) spread(*node, operand, node->results.front());
    }
    for (size_t i = graph_.body.nodes.size(); i-- > 0;) {
      const Node* node = graph_.body.nodes[i];
      for (const Value* operand : node->operands) spread(*node, node->results.front(), operand);
    }
  }
  reduces_columns_.resize(cluster_.size());
  for (const Node* node : core_) {
    if (!is_reduce(*node)) continue;
    const auto order = orders.find(node->operand(0));
    const bool columns = keeps_fastest_axis(*node, order == orders.end() ? std::vector<int64_t>() : *order->second);
    reduces_columns_[number_of(node)] = columns;
    has_columns_by_layout_ = has_columns_by_layout_ || (columns && order != orders.end() && !keeps_fastest_axis(*node, {}));
  }
}

bool Clusters::escapes(const Value* value, int cluster) const { return escapes(value, cluster, cluster); }

bool Clusters::escapes(const Value* value, int a, int b) const {
  if (read_by_output(value)) return true;
  const auto& readers = consumers(value);
  return std::any_of(readers.begin(), readers.end(), [&](const Node* node) {
    const int cluster = cluster_of(node);
    return cluster != a && cluster != b;
  });
}

template <class F> void Clusters::for_successors(int cluster, F f) const {
  for (const Node* node : (*this)[cluster].nodes) {
    for (const Value* result : node->results) {
      for (const Node* consumer : consumers(result)) f(cluster_of(consumer));
    }
  }
}

template <class F> void Clusters::for_predecessors(int cluster, F f) const {
  for (const Node* node : (*this)[cluster].nodes) {
    for (const Value* operand : node->operands) {
      for (const Value* source : sources(operand)) f(cluster_of(source->producer));
    }
  }
}

bool Clusters::can_merge(int a, int b) {
  const int low = (*this)[a].order < (*this)[b].order ? a : b, high = low == a ? b : a;
  const int low_order = (*this)[low].order, high_order = (*this)[high].order;
  forward_.clear();
  backward_.clear();
  std::unordered_set<int> seen{low, high};
  std::vector<int> stack{low};
  bool cycle = false;
  while (!stack.empty() && !cycle) {
    const int at = stack.back();
    stack.pop_back();
    for_successors(at, [&](int next) {
      if (next == high && at != low) cycle = true;
      if ((*this)[next].order < high_order && seen.insert(next).second) {
        forward_.push_back(next);
        stack.push_back(next);
      }
    });
    if (forward_.size() > kSearchBudget) return false;
  }
  if (cycle) return false;
  if (forward_.empty()) return true;  // the merged cluster takes the place of the higher
  stack = {high};
  while (!stack.empty()) {
    const int at = stack.back();
    stack.pop_back();
    for_predecessors(at, [&](int next) {
      if ((*this)[next].order > low_order && seen.insert(next).second) {
        backward_.push_back(next);
        stack.push_back(next);
      }
    });
    if (backward_.size() > kSearchBudget) return false;
  }
  return true;
}

void Clusters::merge(int a, int b) {
  const int low_order = std::min((*this)[a].order, (*this)[b].order), high_order = std::max((*this)[a].order, (*this)[b].order);
  int order = low_order;
  if (forward_.empty()) {
    order = high_order;
  } else if (!backward_.empty()) {
    auto by_order = [&](int x, int y) { return (*this)[x].order < (*this)[y].order; };
    std::sort(forward_.begin(), forward_.end(), by_order);
    std::sort(backward_.begin(), backward_.end(), by_order);
    std::vector<int> places{low_order, high_order};
    for (int cluster : forward_) places.push_back((*this)[cluster].order);
    for (int cluster : backward_) places.push_back((*this)[cluster].order);
    std::sort(places.begin(), places.end());
    size_t next = 0;
    for (int cluster : backward_) (*this)[cluster].order = places[next++];
    order = places[next];
    next += 2;  // two clusters had places, one needs one
    for (int cluster : forward_) (*this)[cluster].order = places[next++];
  }
  Cluster& to = (*this)[a];
  Cluster& from = (*this)[b];
  for (Node* node : from.nodes) cluster_[number_of(node)] = a;
  std::vector<Node*> nodes(to.nodes.size() + from.nodes.size());
  std::merge(to.nodes.begin(), to.nodes.end(), from.nodes.begin(), from.nodes.end(), nodes.begin(),
             [&](const Node* x, const Node* y) { return position(x) < position(y); });
  to.nodes = std::move(nodes);
  to.order = order;
  to.forward |= from.forward;
  to.backward |= from.backward;
  from.nodes.clear();
}

void Clusters::move(const std::vector<Node*>& nodes, int from, int to) {
  for (Node* node : nodes) cluster_[number_of(node)] = to;
  auto& source = (*this)[from].nodes;
  std::erase_if(source, [&](const Node* node) { return cluster_of(node) != from; });
  auto& target = (*this)[to].nodes;
  target.insert(target.end(), nodes.begin(), nodes.end());
  std::sort(target.begin(), target.end(), [&](const Node* x, const Node* y) { return position(x) < position(y); });
}

}  // namespace tcc::group
