// Copies nodes between graphs. Prims have no regions, so a node is its op, operands and attributes.
#include "residuals/copy_graph.h"

#include "tcc/support/diagnostics.h"

namespace tcc::residuals {

GraphCopy::GraphCopy(const Graph& from, std::string name)
    : to_(std::make_unique<Graph>(std::move(name))), weights_(static_cast<size_t>(from.num_values())) {
  to_->file = from.file;
  for (const auto& weight : from.weights()) {
    Value* value = to_->add_weight(weight->name, weight->tensor, weight->from_model);
    value->weight->is_buffer = weight->is_buffer;
    value->weight->is_state = weight->is_state;
    weights_[static_cast<size_t>(from.find_weight(weight->name)->id)] = value;
  }
}

Node* GraphCopy::append(const Node& node, std::vector<Value*> operands, std::string_view phase) {
  check(node.regions.empty(), "a node with regions among prims");
  Location loc = node.loc;
  loc.phase = phase;
  Node* copy = to_->make_node(node.op, std::move(operands), node.attrs, {}, std::move(loc));
  for (const Value* result : node.results) {
    Value* value = to_->make_value(Value::Kind::result, result->type, result->name);
    value->producer = copy;
    value->index = result->index;
    copy->results.push_back(value);
  }
  to_->body.nodes.push_back(copy);
  return copy;
}

std::unique_ptr<Graph> GraphCopy::take() {
  to_->remove_unused_weights();
  return std::move(to_);
}

}  // namespace tcc::residuals
