// Puts appended nodes in their places, in one sweep.

#include "autograd/node_placer.h"

#include <algorithm>

namespace tcc::autograd {

NodePlacer::NodePlacer(Graph& graph) : graph_(graph), end_(graph.body.nodes.size()) {
  for (size_t i = 0; i < end_; ++i) note_uses(*graph.body.nodes[i], i);
}

void NodePlacer::note_uses(const Node& node, size_t position) {
  position_.emplace(&node, position);
  for (const Value* operand : node.operands) last_use_[operand] = position;
  for (const auto& region : node.regions) {
    for (const Node* inner : region->nodes) note_uses(*inner, position);
    for (const Value* result : region->results) last_use_[result] = position;
  }
}

size_t NodePlacer::behind(const Value* value, const Value* overwritten) const {
  const auto made = value->producer == nullptr ? position_.end() : position_.find(value->producer);
  const auto read = overwritten == nullptr ? last_use_.end() : last_use_.find(overwritten);
  return std::max(made == position_.end() ? 0 : made->second + 1, read == last_use_.end() ? 0 : read->second + 1);
}

void NodePlacer::finish() {
  if (moves_.empty()) return;
  std::vector<Node*> nodes;
  nodes.swap(graph_.body.nodes);
  const auto put = [&](size_t from, size_t to) {
    graph_.body.nodes.insert(graph_.body.nodes.end(), nodes.begin() + static_cast<ptrdiff_t>(from),
                             nodes.begin() + static_cast<ptrdiff_t>(to));
  };
  std::vector<char> moved(nodes.size(), 0);
  for (const Move& move : moves_)
    std::fill(moved.begin() + static_cast<ptrdiff_t>(move.first), moved.begin() + static_cast<ptrdiff_t>(move.last), 1);
  std::stable_sort(moves_.begin(), moves_.end(), [](const Move& a, const Move& b) { return a.place < b.place; });
  size_t next = 0;
  for (const Move& move : moves_) {
    put(next, move.place);
    next = move.place;
    put(move.first, move.last);
  }
  put(next, end_);
  for (size_t i = end_; i < nodes.size(); ++i) {
    if (!moved[i]) graph_.body.nodes.push_back(nodes[i]);
  }
}

}  // namespace tcc::autograd
