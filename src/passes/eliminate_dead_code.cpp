// eliminate-dead-code: drops nodes that no output and no state depends on, and weights that nothing reads.
//   in:   any graph        out: the same outputs, fewer nodes
//     %a: f32[4] = exp(%x)
//     %y: f32[4] = neg(%x)
//     return %y
//   becomes
//     %y: f32[4] = neg(%x)
//     return %y
// Inputs stay: they are the signature. One backward sweep, because the readers of a value all come after it.

#include <algorithm>

#include "tcc/passes/passes.h"

namespace tcc {
namespace {

class LiveValues {
 public:
  explicit LiveValues(int num_values) : live_(static_cast<size_t>(num_values), 0) {}

  void mark(const Value* value) {
    if (value != nullptr) live_[static_cast<size_t>(value->id)] = 1;
  }

  /// Drops the dead nodes of a region whose results are live.
  void sweep(Region& region) {
    for (const Value* result : region.results) mark(result);
    size_t kept = region.nodes.size();
    for (size_t i = region.nodes.size(); i-- > 0;) {
      Node* node = region.nodes[i];
      const bool live = std::any_of(node->results.begin(), node->results.end(),
                                    [&](const Value* result) { return live_[static_cast<size_t>(result->id)]; });
      if (!live) continue;
      for (const Value* operand : node->operands) mark(operand);
      for (const auto& inner : node->regions) sweep(*inner);  // also marks what it captures
      region.nodes[--kept] = node;
    }
    region.nodes.erase(region.nodes.begin(), region.nodes.begin() + static_cast<int64_t>(kept));
  }

 private:
  std::vector<char> live_;
};

}  // namespace

void eliminate_dead_code(Graph& graph) {
  LiveValues live(graph.num_values());
  for (const StateUpdate& update : graph.state_updates) live.mark(update.value);
  live.sweep(graph.body);
  graph.remove_unused_weights();
}

}  // namespace tcc
