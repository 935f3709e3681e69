// Where nodes that were appended to a graph belong: behind what they must follow.
//
// What order nodes are in decides which kernels run late, and so how long a gradient and what it is made of stay in memory.
#pragma once

#include <unordered_map>
#include <vector>

#include "tcc/graph/graph.h"

namespace tcc::autograd {

class NodePlacer {
 public:
  /// Of a graph to which nodes will be appended.
  explicit NodePlacer(Graph& graph);

  /// The place behind what makes the value and whatever reads `overwritten` (null: nothing is).
  size_t behind(const Value* value, const Value* overwritten = nullptr) const;
  /// The nodes from number `first` on, appended since, go to `place`. Those at one place stay in order.
  void move(size_t first, size_t place) { moves_.push_back({first, graph_.body.nodes.size(), place}); }
  void finish();

 private:
  struct Move {
    size_t first, last, place;
  };
  void note_uses(const Node& node, size_t position);

  Graph& graph_;
  size_t end_;  ///< of the nodes that were there before
  std::unordered_map<const Node*, size_t> position_;
  std::unordered_map<const Value*, size_t> last_use_;
  std::vector<Move> moves_;
};

}  // namespace tcc::autograd
