// The op `gradient`: derivatives inside a model, as ONNX's Gradient asks for them. Operands are y, the x, and then values that are held, as x are for
// one another: nothing is differentiated through them.
//   in:   %y = mul(%a, %b);  %da: f32[*] = gradient(%y, %a)
//   out:  %y = mul(%a, %b);  %da: f32[2] = mul(%ones, %b)
// What lies between the x and y becomes a graph of its own, with whatever else it reads as inputs; its joint graph is put in the place of the op. The
// forward part, now there twice, merges with the original where equal nodes do. What came before is ordinary nodes, so a gradient of a gradient is
// nothing special.

#include <unordered_map>
#include <unordered_set>

#include "graph/resolve.h"
#include "tcc/autograd/autograd.h"

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

std::unique_ptr<Graph> joint_of(const Cone& cone, std::vector<std::string> wrt) {
  GradOptions options;
  options.wrt = std::move(wrt);
  Diagnostics diagnostics;
  try {
    return build_joint(cone.graph, options, diagnostics);
  } catch (const Error& error) {
    if (error.code() == ExitCode::internal) throw;
    const Diagnostic& first = error.diagnostics().front();
    throw RuleError{"unsupported-gradient", first.message + (first.where.empty() ? "" : ", in `" + first.where + "`")};
  }
}

/// Appends the nodes of `joint`; returns its outputs.
Values inline_joint(Builder& b, const Graph& joint, const Values& inputs) {
  std::unordered_map<const Value*, Value*> outside;
  for (size_t i = 0; i < joint.body.args.size(); ++i) {
    Value* input = joint.body.args[i];
    outside[input] = i < inputs.size() ? inputs[i] : b.full(input->type.dtype, input->type.shape(), 1);
  }
  auto find = [&](Value* value) -> Value* {
    if (value == nullptr) return nullptr;
    Value*& found = outside[value];
    if (found == nullptr) found = b.constant(value->weight->tensor);  // one that a rule made
    return found;
  };
  for (const Node* node : joint.body.nodes) {
    Values operands;
    for (Value* operand : node->operands) operands.push_back(find(operand));
    b.set_loc(node->loc);
    const Node* made = b.emit_node(node->op, std::move(operands), node->attrs, static_cast<int>(node->results.size()));
    for (size_t i = 0; i < node->results.size(); ++i) outside[node->results[i]] = made->results[i];
  }
  Values results;
  for (Value* result : joint.body.results) results.push_back(find(result));
  return results;
}

}  // namespace

std::optional<Values> resolve_gradient(ResolveContext& context, const Node& node) {
  Builder& b = context.builder();
  for (const Value* operand : std::span(node.operands).first(node.results.size() + 1)) {
    if (!is_float(operand->type.dtype))
      throw RuleError{"type-error", "%" + operand->name + " is " + to_string(operand->type) + ", expected floats"};
  }
  Value* y = node.operand(0);
  const Values xs(node.operands.begin() + 1, node.operands.begin() + 1 + static_cast<std::ptrdiff_t>(node.results.size()));
  std::unordered_set<const Value*> reached;
  const std::vector<const Node*> between = nodes_between({node.operands.begin() + 1, node.operands.end()}, y, reached);
  Cone cone;
  std::vector<std::string> wrt;
  std::unordered_map<const Value*, size_t> position;  // among the outputs of the joint graph: y comes first
  for (Value* x : xs) {
    if (reached.count(x) == 0 || !position.emplace(x, position.size() + 1).second) continue;
    wrt.push_back(cone.inside(x)->name);
  }
  Values gradients;
  if (!position.empty()) {
    for (const Node* step : between) cone.copy(*step);
    cone.graph.file = b.loc().file;
    cone.graph.add_output(cone.inside(y), "y");
    gradients = inline_joint(b, *joint_of(cone, std::move(wrt)), cone.inputs);
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
