// The op `gradient`: derivatives inside a model, as ONNX's Gradient asks for them. Operands are y, the x, and then values that are held, as x are for
// one another: nothing is differentiated through them.
//   in:   %y = mul(%a, %b);  %da: f32[*] = gradient(%y, %a)
//   out:  %y = mul(%a, %b);  %da: f32[2] = mul(%ones, %b)
// What lies between the x and y becomes a graph of its own, with whatever else it reads as inputs; its joint graph is put in the place of the op. The
// forward part, now there twice, merges with the original where equal nodes do. What came before is ordinary nodes, so a gradient of a gradient is
// nothing special.

#include <unordered_map>
#include <unordered_set>

#include "tcc/autograd/gradient_op.h"
#include "tcc/autograd/pullback.h"
#include "tcc/graph/rule_error.h"
#include "tcc/rules/builder.h"

namespace tcc {
namespace {

using Values = std::vector<Value*>;

/// The nodes on the way from some x to y, operands first.
std::vector<const Node*> nodes_between(const std::unordered_set<const Value*>& leaves, const Value* y,
                                       std::unordered_set<const Value*>& reached) {
  std::unordered_map<const Node*, bool> on_the_way;  // false while its operands are looked at, too
  std::vector<const Node*> order;
  std::vector<std::pair<const Node*, size_t>> stack;  // a node, and which operand comes next
  auto enter = [&](const Value* value) {
    if (value == nullptr) return;
    if (leaves.count(value) != 0) reached.insert(value);
    else if (value->producer != nullptr && on_the_way.emplace(value->producer, false).second) stack.emplace_back(value->producer, 0);
  };
  enter(y);
  while (!stack.empty()) {
    const Node* node = stack.back().first;
    if (stack.back().second < node->operands.size()) {
      enter(node->operands[stack.back().second++]);
      continue;
    }
    stack.pop_back();
    for (const Value* operand : node->operands) {
      if (operand == nullptr) continue;
      const bool depends = leaves.count(operand) != 0 || (operand->producer != nullptr && on_the_way[operand->producer]);
      if (!depends) continue;
      on_the_way[node] = true;
      order.push_back(node);
      break;
    }
  }
  return order;
}

/// The way from the x to y as a graph.
struct Cone {
  Graph graph{"gradient"};
  Values inputs;  ///< what each input of `graph` is outside

  Value* inside(Value* outside) {
    Value*& value = inside_[outside];
    if (value == nullptr) {
      value = graph.add_input("v" + std::to_string(inputs.size()), outside->type);
      inputs.push_back(outside);
    }
    return value;
  }
  void copy(const Node& node) {
    if (!node.regions.empty())
      throw RuleError{"unsupported-gradient", "the gradient of `" + std::string(name_of(node.op)) + "` is not known"};
    Values operands;
    for (Value* operand : node.operands) operands.push_back(operand == nullptr ? nullptr : inside(operand));
    std::vector<Type> types;
    for (const Value* result : node.results) types.push_back(result->type);
    Node* made = graph.make_node(node.op, std::move(operands), node.attrs, std::move(types), node.loc);
    for (size_t i = 0; i < node.results.size(); ++i) inside_[node.results[i]] = made->results[i];
    graph.body.nodes.push_back(made);
  }

 private:
  std::unordered_map<const Value*, Value*> inside_;
};

}  // namespace

Values expand_gradient(Builder& b, const Node& node) {
  for (const Value* operand : std::span(node.operands).first(node.results.size() + 1)) {
    if (!is_float(operand->type.dtype))
      throw RuleError{"type-error", "%" + operand->name + " is " + to_string(operand->type) + ", expected floats"};
  }
  Value* y = node.operand(0);
  const Values xs(node.operands.begin() + 1, node.operands.begin() + 1 + static_cast<std::ptrdiff_t>(node.results.size()));
  std::unordered_set<const Value*> reached;
  const std::vector<const Node*> between = nodes_between({node.operands.begin() + 1, node.operands.end()}, y, reached);
  Cone cone;
  Pullback pullback;
  std::unordered_map<const Value*, size_t> position;  // among the gradients
  for (Value* x : xs) {
    if (reached.count(x) == 0 || !position.emplace(x, position.size()).second) continue;
    pullback.wrt.push_back(cone.inside(x)->name);
  }
  Values gradients;
  if (!position.empty()) {
    for (const Node* step : between) cone.copy(*step);
    cone.graph.file = b.loc().file;
    cone.graph.add_output(cone.inside(y), "y");
    pullback.inputs = cone.inputs;
    pullback.cotangents = {b.full(y->type.dtype, y->type.shape(), 1)};
    gradients = append_pullback(b, cone.graph, pullback);
  }
  b.set_loc(node.loc);
  Values results;
  for (const Value* x : xs) {
    const auto found = position.find(x);
    results.push_back(found == position.end() ? b.full(x->type.dtype, x->type.shape(), 0) : gradients[found->second]);
  }
  return results;
}

}  // namespace tcc
