// Copies forward nodes into the backward half.
//
// The backward half is walked in its order. A value of the forward half that it reads and that is not saved is computed just before the node that reads it,
// from what is saved, inputs and weights. Readers that are near share a copy. For a reader far behind, a pointwise value is computed once more, as it costs
// little and would live all the time between; what is costly is computed once.
//
// Early nodes go where they are needed: a saved one, with those below it, into the forward half, right behind its last operand; others like copies.
// The phase of a node says in which half it is now: "" or "grad".

#include "residuals/recompute.h"

#include <algorithm>

#include "residuals/copy_graph.h"
#include "residuals/log_sums.h"
#include "tcc/support/diagnostics.h"

namespace tcc::residuals {
namespace {

/// Readers of one copy are at most so many nodes of the backward half apart: about a layer's share of a gradient.
constexpr size_t kNear = 48;

size_t at(const Value* value) { return static_cast<size_t>(value->id); }

/// What is computed once more for a reader far away: so many nodes other than views, which read so many values from memory. Without a bound the sums along
/// a residual stream would be computed from its beginning for each layer.
constexpr int kMostNodes = 24, kMostReads = 4;

class Rebuilder {
 public:
  Rebuilder(const RecomputeCosts& costs, const Division& division)
      : costs_(costs), division_(division), old_(*costs.graph), nodes_(old_.body.nodes), copy_(old_, old_.name) {
    here_.resize(costs.save.size());
    copies_.resize(costs.save.size());
    effort_.resize(nodes_.size());
  }

  std::unique_ptr<Graph> run() {
    for (const Value* input : old_.body.args) here_[at(input)] = copy_.graph().add_input(input->name, input->type);
    measure_effort();
    append_forward_half();
    for (now_ = 0; now_ < nodes_.size(); ++now_) {
      if (costs_.partition.of_node[now_] == Half::backward) append_backward(*nodes_[now_]);
    }
    for (size_t i = 0; i < old_.body.results.size(); ++i) {
      Value* value = old_.body.results[i];
      copy_.graph().add_output(is_backward_output(old_, i, costs_.partition) ? in_backward(value) : in_forward(value),
                               old_.output_names[i]);
    }
    for (const StateUpdate& update : old_.state_updates) {
      Value* value = is_backward_update(update, costs_.partition) ? in_backward(update.value) : in_forward(update.value);
      Value* weight = copy_.graph().find_weight(update.weight->name);
      check(weight != nullptr, "an update of a weight that the graph doesn't have");
      copy_.graph().state_updates.push_back({weight->weight, value});
    }
    return copy_.take();
  }

 private:
  bool is_backward(const Value* value) const { return costs_.partition.of(value) == Half::backward; }
  size_t position(const Value* value) const { return static_cast<size_t>(costs_.partition.position[at(value)]); }

  /// What computing a node takes, with all below it that are cheap themselves.
  struct Effort {
    int nodes = 0, reads = 0;
    bool is_cheap = false;
  };
  void measure_effort() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!division_.again[i]) continue;
      const Lowering lowering = info(nodes_[i]->op).lowering;
      Effort& effort = effort_[i];
      effort.nodes = !is_free(*nodes_[i]);
      for (const Value* operand : nodes_[i]->operands) {
        const bool below = costs_.partition.is_made(operand) && !division_.saved[at(operand)] && effort_[position(operand)].is_cheap;
        effort.nodes += below ? effort_[position(operand)].nodes : 0;
        effort.reads += below ? effort_[position(operand)].reads : 1;
      }
      const bool pointwise =
          is_free(*nodes_[i]) || lowering == Lowering::pointwise || lowering == Lowering::concat || lowering == Lowering::indexed;
      effort.is_cheap = pointwise && effort.nodes <= kMostNodes && effort.reads <= kMostReads;
    }
  }

  void append_forward_half() {
    // Early nodes behind the forward node that their last operand comes from; created values just before who reads them.
    std::vector<std::vector<size_t>> behind(nodes_.size());
    std::vector<size_t> last(nodes_.size());  // 1 + the position of the last forward node below
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (costs_.partition.of_node[i] == Half::backward) continue;
      last[i] = costs_.partition.of_node[i] == Half::forward ? i + 1 : 0;
      if (last[i] != 0) continue;
      for (const Value* operand : nodes_[i]->operands) {
        if (costs_.partition.is_made(operand)) last[i] = std::max(last[i], last[position(operand)]);
      }
      if (division_.forward[i] && last[i] > 0) behind[last[i] - 1].push_back(i);
    }
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!division_.forward[i]) continue;
      if (costs_.partition.of_node[i] == Half::forward) append_forward(*nodes_[i]);
      for (const size_t early : behind[i]) append_forward(*nodes_[early]);
    }
  }

  void append_forward(const Node& node) {
    std::vector<Value*> operands;
    for (const Value* operand : node.operands) operands.push_back(in_forward(operand));
    const Node* made = copy_.append(node, std::move(operands), "");
    for (size_t k = 0; k < node.results.size(); ++k) here_[at(node.results[k])] = made->results[k];
  }

  /// Also makes early nodes that depend on inputs alone, on demand.
  Value* in_forward(const Value* value) {
    if (value->kind == Value::Kind::weight) return copy_.weight(value);
    if (!here_[at(value)]) append_forward(*value->producer);
    return here_[at(value)];
  }

  void append_backward(const Node& node) {
    std::vector<Value*> operands;
    for (const Value* operand : node.operands) operands.push_back(in_backward(operand));
    const Node* made = copy_.append(node, std::move(operands), node.loc.phase);
    for (size_t k = 0; k < node.results.size(); ++k) here_[at(node.results[k])] = made->results[k];
  }

  /// What the backward half has already; null: it must be computed.
  Value* find_in_backward(const Value* value) {
    if (value->kind == Value::Kind::weight) return copy_.weight(value);
    if (value->kind == Value::Kind::input || is_backward(value)) return here_[at(value)];
    if (division_.saved[at(value)]) return in_forward(value);
    Copy& copy = copies_[at(value)];
    if (!copy.value || (effort_[position(value)].is_cheap && now_ - copy.last_use > kNear)) return nullptr;
    copy.last_use = now_;
    return copy.value;
  }

  /// Without recursion: what a deep forward pass computes again may be as deep.
  Value* in_backward(const Value* wanted) {
    if (Value* found = find_in_backward(wanted)) return found;
    std::vector<const Node*> stack{wanted->producer};
    while (!stack.empty()) {
      const Node* node = stack.back();
      if (std::all_of(node->results.begin(), node->results.end(), [&](const Value* result) { return find_in_backward(result); })) {
        stack.pop_back();
        continue;
      }
      std::vector<Value*> operands;
      for (const Value* operand : node->operands) {
        Value* found = find_in_backward(operand);
        if (!found) stack.push_back(operand->producer);
        operands.push_back(found);
      }
      if (stack.back() != node) continue;
      stack.pop_back();
      const Node* made = copy_.append(*node, std::move(operands), "grad");
      for (size_t k = 0; k < node->results.size(); ++k) copies_[at(node->results[k])] = {made->results[k], now_};
    }
    return copies_[at(wanted)].value;
  }

  struct Copy {
    Value* value = nullptr;
    size_t last_use = 0;  ///< position of the backward node, in the old graph
  };

  const RecomputeCosts& costs_;
  const Division& division_;
  const Graph& old_;
  const std::vector<Node*>& nodes_;
  GraphCopy copy_;
  std::vector<Value*> here_;    ///< inputs, the forward half, nodes of the backward half: by id of the old value
  std::vector<Copy> copies_;    ///< of forward and early values in the backward half
  std::vector<Effort> effort_;  ///< by position, of what is computed again
  size_t now_ = 0;              ///< position of the backward node that is being copied
};

}  // namespace

Division divide(const RecomputeCosts& costs, const Saved& saved) {
  const std::vector<Node*>& nodes = costs.graph->body.nodes;
  const Partition& partition = costs.partition;
  Division division;
  division.saved.resize(costs.save.size());
  division.again.resize(nodes.size());
  division.forward.resize(nodes.size());
  std::vector<char> needed(costs.save.size());  // in the backward half
  for (size_t i = nodes.size(); i-- > 0;) {
    if (partition.of_node[i] == Half::backward) continue;
    bool again = false;
    for (const Value* result : nodes[i]->results) {
      if (!costs.read_by_backward[at(result)] && !needed[at(result)]) continue;
      if (saved[at(result)]) division.saved[at(result)] = 1;
      else again = true;
    }
    if (!again) continue;
    division.again[i] = 1;
    for (const Value* operand : nodes[i]->operands) needed[at(operand)] = 1;
  }
  // What the backward half needs of the others decides which of them the forward half computes: those that it saves, with all below them.
  for (size_t i = nodes.size(); i-- > 0;) {
    if (partition.of_node[i] == Half::backward) continue;
    division.forward[i] |= costs.needed_by_forward[i];
    for (const Value* result : nodes[i]->results) division.forward[i] |= division.saved[at(result)];
    if (!division.forward[i]) continue;
    for (const Value* operand : nodes[i]->operands) {
      if (partition.is_made(operand)) division.forward[static_cast<size_t>(partition.position[at(operand)])] = 1;
    }
  }
  for (size_t i = 0; i < nodes.size(); ++i) division.num_copies += division.forward[i] && division.again[i] && !is_free(*nodes[i]);
  return division;
}

std::unique_ptr<Graph> recompute(const RecomputeCosts& costs, const Division& division) {
  std::unique_ptr<Graph> graph = Rebuilder(costs, division).run();
  fold_log_sums(*graph);
  return graph;
}

Saved save_all(const RecomputeCosts& costs) {
  Saved saved(costs.save.size());
  const std::vector<Node*>& nodes = costs.graph->body.nodes;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (costs.partition.of_node[i] != Half::forward || !costs.needed_by_forward[i]) continue;
    for (const Value* result : nodes[i]->results) saved[static_cast<size_t>(result->id)] = !is_free(*nodes[i]);
  }
  return saved;
}

}  // namespace tcc::residuals
