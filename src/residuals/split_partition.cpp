// One graph becomes two: the forward half with the residuals as results, the backward half with them as inputs.
//
//   graph @net(%x, %cotangent.y) -> (%y, %grad.w) { %h = ...;  %y = tanh(%h)    %g = mul(%cotangent.y, f(%y)) grad;  ... }
// becomes
//   graph @net.forward(%x) -> (%y, %saved.y)                        { %h = ...;  %y = tanh(%h)  return %y, %y }
//   graph @net.backward(%x, %cotangent.y, %saved.y) -> (%grad.w)    { %g = mul(%cotangent.y, f(%saved.y));  ... }

#include <algorithm>

#include "residuals/analyze.h"
#include "residuals/copy_graph.h"
#include "tcc/residuals/residuals.h"
#include "tcc/support/diagnostics.h"

namespace tcc::residuals {
namespace {

size_t at(const Value* value) { return static_cast<size_t>(value->id); }

class Splitter {
 public:
  explicit Splitter(const Graph& joint)
      : joint_(joint),
        partition_(find_partition(joint)),
        crosses_(static_cast<size_t>(joint.num_values())),
        forward_(joint, joint.name + ".forward"),
        backward_(joint, joint.name + ".backward"),
        in_forward_(crosses_.size()),
        in_backward_(crosses_.size()) {}

  PartitionedGraphs run() {
    find_residuals();
    std::vector<char> in_update_only = read_by_updates_alone();
    for (const Value* input : joint_.body.args) {
      if (!is_cotangent(input) && !in_update_only[at(input)]) in_forward_[at(input)] = forward_.graph().add_input(input->name, input->type);
      in_backward_[at(input)] = backward_.graph().add_input(input->name, input->type);
    }
    result_.first_residual_input = static_cast<int>(joint_.body.args.size());
    for (size_t i = 0; i < residuals_.size(); ++i) {
      in_backward_[at(residuals_[i])] = backward_.graph().add_input("saved." + residuals_[i]->name, residuals_[i]->type);
    }
    for (const Node* node : joint_.body.nodes) {
      const bool is_forward = partition_.of(node->result()) == Half::forward;
      GraphCopy& copy = is_forward ? forward_ : backward_;
      std::vector<Value*> operands;
      for (const Value* operand : node->operands) operands.push_back(is_forward ? in_forward(operand) : in_backward(operand));
      const Node* made = copy.append(*node, std::move(operands), node->loc.phase);
      std::vector<Value*>& map = is_forward ? in_forward_ : in_backward_;
      for (size_t k = 0; k < node->results.size(); ++k) map[at(node->results[k])] = made->results[k];
    }
    for (size_t i = 0; i < joint_.body.results.size(); ++i) {
      Value* value = joint_.body.results[i];
      if (is_backward_output(joint_, i, partition_)) backward_.graph().add_output(in_backward(value), joint_.output_names[i]);
      else forward_.graph().add_output(in_forward(value), joint_.output_names[i]);
    }
    for (const StateUpdate& update : joint_.state_updates) {
      const bool is_backward = is_backward_update(update, partition_);
      Graph& graph = is_backward ? backward_.graph() : forward_.graph();
      graph.state_updates.push_back(
          {graph.find_weight(update.weight->name)->weight, is_backward ? in_backward(update.value) : in_forward(update.value)});
    }
    result_.first_residual_output = static_cast<int>(forward_.graph().body.results.size());
    for (const Value* residual : residuals_) forward_.graph().add_output(in_forward(residual), in_backward_[at(residual)]->name);
    result_.forward = forward_.take();
    result_.backward = backward_.take();
    return std::move(result_);
  }

 private:
  /// Made by the forward half and read by the backward one.
  void find_residuals() {
    std::vector<const Weight*> updated;
    for (const StateUpdate& update : joint_.state_updates) {
      if (!is_backward_update(update, partition_)) updated.push_back(update.weight);
    }
    std::vector<Value*> old_weights;
    auto read = [&](Value* value) {
      if (value->weight && std::find(updated.begin(), updated.end(), value->weight) != updated.end() && !crosses_[at(value)])
        old_weights.push_back(value);
      crosses_[at(value)] = 1;
    };
    for (const Node* node : joint_.body.nodes) {
      if (partition_.of(node->result()) == Half::forward) continue;
      for (Value* operand : node->operands) read(operand);
    }
    for (size_t i = 0; i < joint_.body.results.size(); ++i) {
      if (is_backward_output(joint_, i, partition_)) read(joint_.body.results[i]);
    }
    for (const StateUpdate& update : joint_.state_updates) {
      if (is_backward_update(update, partition_)) read(update.value);
    }
    residuals_ = std::move(old_weights);
    for (const Node* node : joint_.body.nodes) {
      if (partition_.of(node->result()) != Half::forward) continue;
      for (Value* result : node->results) {
        if (crosses_[at(result)]) residuals_.push_back(result);
      }
    }
  }

  std::vector<char> read_by_updates_alone() const {
    std::vector<char> updates(crosses_.size()), others(crosses_.size());
    for (const Node* node : joint_.body.nodes) {
      for (const Value* operand : node->operands) (node->loc.phase == "update" ? updates : others)[at(operand)] = 1;
    }
    for (size_t i = 0; i < updates.size(); ++i) updates[i] = updates[i] && !others[i];
    return updates;
  }

  Value* in_forward(const Value* value) {
    if (value->kind == Value::Kind::weight) return forward_.weight(value);
    check(in_forward_[at(value)] != nullptr, "the forward half reads what the backward half makes");
    return in_forward_[at(value)];
  }
  Value* in_backward(const Value* value) {
    if (in_backward_[at(value)]) return in_backward_[at(value)];
    check(value->kind == Value::Kind::weight, "a residual is missing");
    return backward_.weight(value);
  }

  const Graph& joint_;
  const Partition partition_;
  std::vector<char> crosses_;      ///< by value id: read by the backward half
  std::vector<Value*> residuals_;  ///< in the order in which they are made
  GraphCopy forward_, backward_;
  std::vector<Value*> in_forward_, in_backward_;  ///< by value id
  PartitionedGraphs result_;
};

}  // namespace

PartitionedGraphs split_partition(const Graph& joint) { return Splitter(joint).run(); }

}  // namespace tcc::residuals
