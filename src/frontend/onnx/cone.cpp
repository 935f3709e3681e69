#include "frontend/onnx/cone.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tcc/support/diagnostics.h"

namespace tcc::onnx {
namespace {

bool reads_shape_alone(const Node& node) {
  return (node.op == Op::shape_of_ || node.op == Op::size_of_) && node.operand(0)->type.is_static();
}

/// The nodes behind a value, in the order in which they were made, which is one in which they can be computed.
std::vector<const Node*> nodes_behind(const Value* value) {
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> nodes, stack;
  const auto visit = [&](const Value* one) {
    if (one != nullptr && one->producer != nullptr && seen.insert(one->producer).second) stack.push_back(one->producer);
  };
  visit(value);
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    nodes.push_back(node);
    check(node->regions.empty(), "an imported node has regions");
    if (reads_shape_alone(*node)) continue;
    for (const Value* operand : node->operands) visit(operand);
  }
  std::sort(nodes.begin(), nodes.end(), [](const Node* a, const Node* b) { return a->id < b->id; });
  return nodes;
}

}  // namespace

std::unique_ptr<Graph> cone_of(const Graph& graph, Value* value) {
  auto cone = std::make_unique<Graph>(graph.name);
  cone->file = graph.file;
  std::unordered_map<const Value*, Value*> copies;
  const auto copy_of = [&](const Value* one) -> Value* {
    if (one == nullptr) return nullptr;
    Value*& copy = copies[one];
    if (copy != nullptr) return copy;
    if (one->kind == Value::Kind::weight) return copy = cone->add_weight(one->weight->name, one->weight->tensor, one->weight->from_model);
    return copy = cone->add_input(one->name, one->type);
  };
  const std::vector<const Node*> nodes = nodes_behind(value);
  // Inputs first: they keep their names, by which they are bound.
  std::unordered_set<const Value*> read{value};
  for (const Node* node : nodes) read.insert(node->operands.begin(), node->operands.end());
  for (const Value* input : graph.body.args) {
    if (read.count(input) != 0) copy_of(input);
  }
  for (const Node* node : nodes) {
    std::vector<Value*> operands;
    for (const Value* operand : node->operands) operands.push_back(copy_of(operand));
    Node* copy = cone->make_node(node->op, std::move(operands), node->attrs, {}, node->loc);
    for (const Value* result : node->results) {
      Value* made = cone->make_value(Value::Kind::result, result->type, result->name);
      made->producer = copy;
      made->index = result->index;
      copy->results.push_back(made);
      copies[result] = made;
    }
    cone->body.nodes.push_back(copy);
  }
  cone->add_output(copy_of(value), "value");
  return cone;
}

}  // namespace tcc::onnx
