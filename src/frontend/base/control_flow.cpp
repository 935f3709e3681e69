#include "frontend/base/control_flow.h"

#include <algorithm>
#include <unordered_set>

namespace tcc {

Value* gated_value(Builder& builder, Value* value, Value* predicate, bool taken) {
  Value* held = stop_gradient(builder, value);
  if (held == value) return value;
  return builder.emit(Op::select_, {predicate, taken ? value : held, taken ? held : value});
}

const Node* reads_unknown_positions(const Graph& graph, size_t first_new, ShapeArithmetic& shapes) {
  for (size_t i = first_new; i < graph.body.nodes.size(); ++i) {
    const Node& node = *graph.body.nodes[i];
    const Lowering lowering = info(node.op).lowering;
    const bool has_positions =
        lowering == Lowering::indexed || lowering == Lowering::scatter || node.op == Op::check_index_ || node.op == Op::check_classes_;
    if (has_positions && !shapes.value_of(node.operand(1))) return &node;
  }
  return nullptr;
}

std::string inputs_behind(const Value* value) {
  std::vector<const Value*> inputs;
  std::unordered_set<const Value*> seen;
  std::vector<const Value*> left{value};
  while (!left.empty()) {
    const Value* at = left.back();
    left.pop_back();
    if (at == nullptr || !seen.insert(at).second) continue;
    if (at->kind == Value::Kind::input) inputs.push_back(at);
    // Of these only the sizes are read.
    if (at->producer == nullptr || at->producer->op == Op::shape_of_ || at->producer->op == Op::size_of_) continue;
    left.insert(left.end(), at->producer->operands.begin(), at->producer->operands.end());
  }
  if (inputs.empty()) return "parameters of the model";
  std::sort(inputs.begin(), inputs.end(), [](const Value* a, const Value* b) { return a->index < b->index; });
  constexpr size_t kMost = 4;
  std::string text = inputs.size() == 1 ? "the input " : "the inputs ";
  for (size_t i = 0; i < inputs.size() && i < kMost; ++i) {
    const bool is_last = i + 1 == inputs.size();
    text += (i == 0 ? "`" : is_last ? " and `" : ", `") + inputs[i]->name + "`";
  }
  if (inputs.size() > kMost) text += " and " + std::to_string(inputs.size() - kMost) + " more";
  return text;
}

}  // namespace tcc
