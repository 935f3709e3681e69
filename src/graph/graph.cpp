// The graph owns values, nodes and weights and keeps their names unique. Nodes and values that a pass drops from the regions stay allocated until the
// graph goes: pointers never dangle, and dropping is free.

#include "tcc/graph/graph.h"

#include <algorithm>

#include "tcc/graph/walk.h"
#include "tcc/support/diagnostics.h"

namespace tcc {

Graph::Graph(std::string graph_name) : name(std::move(graph_name)) {}

std::string Graph::unique_name(std::string_view hint) {
  std::string name(hint.empty() ? "v" : hint);
  auto [entry, is_new] = names_.emplace(name, 1);
  if (is_new) return name;
  // The entry of the hint remembers the next number to try, so that a thousand `add`s don't try a thousand names each.
  while (true) {
    std::string numbered = name + "_" + std::to_string(entry->second++);
    if (names_.emplace(numbered, 1).second) return numbered;
    entry = names_.find(name);  // emplace may have rehashed
  }
}

Value* Graph::make_value(Value::Kind kind, Type type, std::string_view name_hint) {
  auto value = std::make_unique<Value>();
  value->kind = kind;
  value->id = num_values();
  value->name = kind == Value::Kind::weight ? std::string(name_hint) : unique_name(name_hint);
  value->type = std::move(type);
  values_.push_back(std::move(value));
  return values_.back().get();
}

void Graph::rename(Value* value, std::string_view name_hint) {
  check(value->kind != Value::Kind::weight, "a weight is renamed");
  names_.erase(value->name);
  value->name = unique_name(name_hint);
}

Value* Graph::add_input(std::string_view input_name, Type type) {
  Value* value = make_value(Value::Kind::input, std::move(type), input_name);
  value->index = static_cast<int>(body.args.size());
  body.args.push_back(value);
  return value;
}

void Graph::add_output(Value* value, std::string_view output_name) {
  check(value != nullptr, "an output without a value");
  body.results.push_back(value);
  output_names.emplace_back(output_name);
}

Value* Graph::add_weight(std::string_view weight_name, Tensor tensor, bool from_model) {
  std::string unique(weight_name.empty() ? "const" : weight_name);
  for (int number = 1;; ++number) {
    const auto found = weight_values_.find(unique);
    if (found == weight_values_.end()) break;
    if (found->second->weight->tensor.same_bytes(tensor)) return found->second;
    // As for values: the numbers tried are remembered under the name asked for.
    int& next = names_["@" + std::string(weight_name)];
    unique = std::string(weight_name) + "_" + std::to_string(++next);
  }
  auto weight = std::make_unique<Weight>();
  weight->name = unique;
  weight->tensor = std::move(tensor);
  weight->from_model = from_model;
  Value* value = make_value(Value::Kind::weight, Type(weight->tensor.dtype(), weight->tensor.shape()), unique);
  value->weight = weight.get();
  weights_.push_back(std::move(weight));
  weight_values_.emplace(std::move(unique), value);
  return value;
}

Value* Graph::find_weight(std::string_view weight_name) const {
  const auto found = weight_values_.find(std::string(weight_name));
  return found == weight_values_.end() ? nullptr : found->second;
}

void Graph::update_state(Value* weight, Value* value) {
  check(weight->weight != nullptr && weight->type == value->type, "a state is updated with another type, or is not a weight");
  weight->weight->is_state = true;
  state_updates.push_back({weight->weight, value});
}

Node* Graph::make_node(Op op, std::vector<Value*> operands, Attrs attrs, std::vector<Type> result_types, Location loc,
                       std::string_view name_hint) {
  auto node = std::make_unique<Node>();
  node->op = op;
  node->operands = std::move(operands);
  node->attrs = std::move(attrs);
  node->loc = std::move(loc);
  node->id = next_node_id_++;
  for (Type& type : result_types) {
    Value* value = make_value(Value::Kind::result, std::move(type), name_hint.empty() ? name_of(op) : name_hint);
    value->producer = node.get();
    value->index = static_cast<int>(node->results.size());
    node->results.push_back(value);
  }
  nodes_.push_back(std::move(node));
  return nodes_.back().get();
}

void Graph::remove_unused_weights() {
  std::vector<char> used(values_.size(), 0);
  for_each_use(*this, [&](Value*& value) { used[static_cast<size_t>(value->id)] = 1; });
  for (const StateUpdate& update : state_updates) {
    if (Value* value = find_weight(update.weight->name)) used[static_cast<size_t>(value->id)] = 1;
  }
  std::erase_if(weights_, [&](const std::unique_ptr<Weight>& weight) {
    const auto found = weight_values_.find(weight->name);
    if (used[static_cast<size_t>(found->second->id)]) return false;
    found->second->weight = nullptr;
    weight_values_.erase(found);
    return true;
  });
}

namespace {

/// Copies regions; `values` maps old ids to new values.
struct Cloner {
  Graph& to;
  std::vector<Value*> values;

  Value* map(const Value* value) const {
    if (value == nullptr) return nullptr;
    Value* copy = values[static_cast<size_t>(value->id)];
    check(copy != nullptr, "a value is used before it is made");
    return copy;
  }

  void copy_args(const Region& from, Region& region) {
    for (const Value* arg : from.args) {
      Value* copy = to.make_value(arg->kind, arg->type, arg->name);
      copy->index = arg->index;
      values[static_cast<size_t>(arg->id)] = copy;
      region.args.push_back(copy);
    }
  }

  void copy_nodes(const Region& from, Region& region) {
    for (const Node* node : from.nodes) {
      std::vector<Value*> operands;
      for (const Value* operand : node->operands) operands.push_back(map(operand));
      Node* copy = to.make_node(node->op, std::move(operands), node->attrs, {}, node->loc);
      for (const auto& inner : node->regions) {
        copy->regions.push_back(std::make_unique<Region>());
        copy_args(*inner, *copy->regions.back());
        copy_nodes(*inner, *copy->regions.back());
      }
      for (const Value* result : node->results) {
        Value* value = to.make_value(Value::Kind::result, result->type, result->name);
        value->producer = copy;
        value->index = result->index;
        values[static_cast<size_t>(result->id)] = value;
        copy->results.push_back(value);
      }
      region.nodes.push_back(copy);
    }
    for (const Value* result : from.results) region.results.push_back(map(result));
  }
};

}  // namespace

std::unique_ptr<Graph> Graph::clone() const {
  auto copy = std::make_unique<Graph>(name);
  copy->file = file;
  Cloner cloner{*copy, std::vector<Value*>(values_.size(), nullptr)};
  for (const auto& weight : weights_) {
    Value* value = copy->add_weight(weight->name, weight->tensor, weight->from_model);
    value->weight->is_buffer = weight->is_buffer;
    value->weight->is_state = weight->is_state;
    cloner.values[static_cast<size_t>(find_weight(weight->name)->id)] = value;
  }
  cloner.copy_args(body, copy->body);
  cloner.copy_nodes(body, copy->body);
  copy->output_names = output_names;
  for (const StateUpdate& update : state_updates) {
    copy->state_updates.push_back({copy->find_weight(update.weight->name)->weight, cloner.map(update.value)});
  }
  return copy;
}

void replace_values(Graph& graph, const std::unordered_map<Value*, Value*>& map) {
  if (map.empty()) return;
  for_each_use(graph, [&](Value*& value) {
    for (auto found = map.find(value); found != map.end(); found = map.find(value)) value = found->second;
  });
}

std::vector<int> count_uses(const Graph& graph) {
  std::vector<int> uses(static_cast<size_t>(graph.num_values()), 0);
  // The walk hands out references that may be changed; counting changes none.
  for_each_use(const_cast<Graph&>(graph), [&](Value*& value) { ++uses[static_cast<size_t>(value->id)]; });
  return uses;
}

}  // namespace tcc
