#include "frontend/base/shape_arithmetic.h"

#include <algorithm>
#include <unordered_set>

#include "tcc/graph/rule_error.h"
#include "tcc/rules/limits.h"
#include "tcc/support/diagnostics.h"

namespace tcc {

namespace {

/// The cost of such a node is that of the shape arithmetic, not of the model before it.
bool reads_shape_alone(const Node& node) {
  return (node.op == Op::shape_of_ || node.op == Op::size_of_) && node.operand(0)->type.is_static();
}

bool has_known_size(const Type& type) {
  if (!type.is_static()) return false;
  try {
    check_size(type);
  } catch (const RuleError&) { return false; }
  return true;
}

}  // namespace

std::optional<Tensor> ShapeArithmetic::value_of(const Value* value) {
  if (value->weight != nullptr) return value->weight->tensor;
  const Value* copy = resolved(value);
  return sweep_->known(copy);
}

Type ShapeArithmetic::type_of(const Value* value) {
  if (value->type.is_static()) return value->type;
  const Value* copy = resolved(value);
  return sweep_->type(copy).value_or(value->type);
}

/// The copy of a value, whose node and all behind it are resolved.
Value* ShapeArithmetic::resolved(const Value* value) {
  if (copy_ == nullptr) declare_inputs();
  for (const Node* node : new_nodes_behind(value)) append(*node);
  return copy_of(value);
}

/// With the inputs as outputs, what bind_shapes() leaves there is what each input became.
void ShapeArithmetic::declare_inputs() {
  auto copy = std::make_unique<Graph>(graph_.name);
  copy->file = graph_.file;
  const std::vector<Value*> inputs = graph_.body.args;
  for (const Value* input : inputs) copy->add_output(copy->add_input(input->name, input->type), input->name);
  bind_shapes(*copy, bindings_);
  const std::vector<Value*> bound = std::move(copy->body.results);
  copy->body.results.clear();
  copy->output_names.clear();
  copy_ = std::move(copy);
  sweep_ = std::make_unique<ResolveSweep>(*copy_);
  for (size_t i = 0; i < inputs.size(); ++i) declare(inputs[i], bound[i]);
}

void ShapeArithmetic::declare(const Value* input, Value* copy) {
  copies_[input] = copy;
  if (!has_known_size(copy->type)) sweep_->set_unknown(copy);
}

/// In the order in which they were made, which is one in which they can be computed.
std::vector<const Node*> ShapeArithmetic::new_nodes_behind(const Value* value) const {
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> nodes, stack;
  const auto visit = [&](const Value* one) {
    if (one == nullptr || one->producer == nullptr || copies_.contains(one)) return;
    if (seen.insert(one->producer).second) stack.push_back(one->producer);
  };
  visit(value);
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    nodes.push_back(node);
    if (reads_shape_alone(*node)) continue;
    for (const Value* operand : node->operands) visit(operand);
  }
  std::sort(nodes.begin(), nodes.end(), [](const Node* a, const Node* b) { return a->id < b->id; });
  return nodes;
}

void ShapeArithmetic::append(const Node& node) {
  check(node.regions.empty(), "an imported node has regions");
  std::vector<Value*> operands;
  for (const Value* operand : node.operands) operands.push_back(reads_shape_alone(node) ? copy_for_shape(operand) : copy_of(operand));
  Node* copy = copy_->make_node(node.op, std::move(operands), node.attrs, {}, node.loc);
  for (const Value* result : node.results) {
    Value* made = copy_->make_value(Value::Kind::result, result->type, result->name);
    made->producer = copy;
    made->index = result->index;
    copy->results.push_back(made);
    copies_[result] = made;
  }
  sweep_->append(*copy);
  ++num_resolved_nodes_;
}

Value* ShapeArithmetic::copy_of(const Value* value) {
  if (value == nullptr) return nullptr;
  if (const auto found = copies_.find(value); found != copies_.end()) return found->second;
  if (value->weight != nullptr)
    return copies_[value] = copy_->add_weight(value->weight->name, value->weight->tensor, value->weight->from_model);
  check(value->producer == nullptr, "the node that makes a value is copied before those that read it");
  declare(value, copy_->add_input(value->name, value->type));  // an input that came later: the seed
  return copies_.at(value);
}

Value* ShapeArithmetic::copy_for_shape(const Value* value) {
  // Never the copy of the value itself: whether that was asked for before must not matter.
  Value*& copy = shapes_[value];
  if (copy == nullptr) {
    copy = copy_->add_input(value->name, value->type);
    if (!has_known_size(copy->type)) sweep_->set_unknown(copy);
  }
  return copy;
}

}  // namespace tcc
