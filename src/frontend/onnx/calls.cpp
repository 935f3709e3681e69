// Functions of the model, branches and bodies of loops, whose nodes are imported in the place of the node.
#include <algorithm>
#include <set>

#include "frontend/base/control_flow.h"
#include "frontend/base/inlining.h"
#include "frontend/base/names.h"
#include "frontend/onnx/importer.h"
#include "frontend/onnx/node_names.h"
#include "tcc/graph/rule_error.h"

namespace tcc::onnx {

namespace {

/// What the body of a function sees where `node`, which stands in `outer`, calls it.
Body body_of_call(const pb::FunctionProto& function, const pb::NodeProto& node, const Body& outer) {
  Body inner;
  inner.prefix = outer.prefix + name_of_node(node) + "/";
  inner.in_loop = outer.in_loop;
  inner.opsets = outer.opsets;
  for (const auto& import : function.opset_import()) inner.opsets[domain_of(import.domain())] = import.version();
  for (const auto& attribute : function.attribute_proto()) inner.attributes[attribute.name()] = &attribute;  // defaults
  for (const auto& attribute : node.attribute()) {
    const pb::AttributeProto* value = &attribute;
    if (!attribute.ref_attr_name().empty()) {
      const auto found = outer.attributes.find(attribute.ref_attr_name());
      if (found == outer.attributes.end()) continue;
      value = found->second;
    }
    inner.attributes[attribute.name()] = value;
  }
  for (int i = 0; i < function.input_size(); ++i) {
    if (i >= node.input_size() || node.input(i).empty()) continue;  // what reads it sees an absent operand
    Value* value = outer.find(node.input(i));
    if (value == nullptr) throw RuleError{"malformed-file", "operand `" + node.input(i) + "` is made by no node, input or initializer"};
    inner.names.set(function.input(i), value);
  }
  return inner;
}

}  // namespace

void Importer::call_function(const pb::FunctionProto& function, const pb::NodeProto& node, Body& body) {
  if (std::find(active_.begin(), active_.end(), &function) != active_.end()) {
    throw RuleError{"malformed-file", "function `" + function.name() + "` calls itself"};
  }
  if (node.input_size() > function.input_size()) {
    throw RuleError{"malformed-file", "function `" + function.name() + "` is called with " + std::to_string(node.input_size()) +
                                          " operands, it has " + std::to_string(function.input_size())};
  }
  Body inner = body_of_call(function, node, body);
  // Counted beforehand (frontend/base/inlining.h) but where functions call each other in a circle.
  num_inlined_nodes_ += function.node_size();
  if (num_inlined_nodes_ > 2 * kMaxInlinedNodes) throw RuleError{"too-complex", "functions that call each other make too many nodes"};
  const int first_new = graph_->num_values();
  active_.push_back(&function);
  import_function_nodes(function, inner);
  active_.pop_back();
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;
    if (i >= function.output_size())
      throw RuleError{"malformed-file", "function `" + function.name() + "` has no result " + std::to_string(i)};
    Value* value = inner.find(function.output(i));
    if (value != nullptr) {
      give_name(*graph_, value, node.output(i), first_new);
      body.names.set(node.output(i), value);
    } else if (inner.names.is_faulty(function.output(i))) {
      body.names.set_faulty(node.output(i));
    } else {
      throw RuleError{"malformed-file", "result `" + function.output(i) + "` of function `" + function.name() + "` is made by no node"};
    }
  }
}

/// A formal input that was not passed is an absent operand inside: its name is taken out of the nodes that read it.
void Importer::import_function_nodes(const pb::FunctionProto& function, Body& inner) {
  std::set<std::string> absent;
  for (const std::string& input : function.input()) {
    if (!inner.names.has_own(input)) absent.insert(input);
  }
  if (absent.empty()) return import_nodes(function.node(), inner);
  Nodes& nodes = function_nodes_.emplace_back(function.node());
  for (auto& node : nodes) {
    for (auto& input : *node.mutable_input()) {
      if (absent.contains(input)) input.clear();
    }
  }
  import_nodes(nodes, inner);
}

std::vector<Value*> Importer::inline_subgraph(const Body& outer, const pb::NodeProto& node, const pb::GraphProto& graph,
                                              const SubgraphUse& use) {
  Body inner;
  inner.names = Scope<Value*>(&outer.names);
  inner.opsets = outer.opsets;
  inner.attributes = outer.attributes;
  inner.prefix = outer.prefix;
  inner.in_loop = outer.in_loop || use.step;
  if (use.step) inner.prefix += name_of_node(node) + "[" + std::to_string(*use.step) + "]/";
  if (inner.in_loop) num_unrolled_nodes_ += graph.node_size() + 1;
  if (num_unrolled_nodes_ > kMaxUnrolledNodes)
    throw RuleError{"too-complex", "loops are unrolled to more than " + std::to_string(kMaxUnrolledNodes) + " nodes"};
  if (use.predicate != nullptr) gate_names_around(graph, use, inner);
  const int faults_before = diagnostics_.num_errors() + missing_ops_.num_nodes();
  add_weights(graph, inner);
  set_operands(graph, use, inner);
  import_nodes(graph.node(), inner);
  // Another step would only have the same faults.
  if (diagnostics_.num_errors() + missing_ops_.num_nodes() > faults_before) throw Poisoned();
  std::vector<Value*> outputs = graph_outputs(graph, inner);
  check_declared_types(graph, inner);
  return outputs;
}

void Importer::set_operands(const pb::GraphProto& graph, const SubgraphUse& use, Body& inner) {
  const std::vector<Value*>& operands = use.operands;
  Builder builder(*graph_, graph_->body, {faults_.file(), inner.prefix + "operands", ""});
  if (static_cast<size_t>(graph.input_size()) != operands.size())
    throw RuleError{"malformed-file", "graph `" + graph.name() + "` has " + std::to_string(graph.input_size()) + " inputs, " +
                                          std::to_string(operands.size()) + " were expected"};
  for (size_t i = 0; i < operands.size(); ++i) {
    const pb::ValueInfoProto& input = graph.input(static_cast<int>(i));
    const pb::TypeProto& type = input.type();
    const bool is_tensor = sequence(operands[i]) == nullptr;
    const NarrowType* own = narrow(operands[i]);
    if (is_tensor && type.has_tensor_type() && type.tensor_type().elem_type() != 0 &&
        element_type_of(type.tensor_type().elem_type()) != ElementType{operands[i]->type.dtype, own})
      throw RuleError{"type-error", "input `" + input.name() + "` of graph `" + graph.name() + "` is " + to_string(operands[i]->type) +
                                        ", declared is " + onnx_type_name(type.tensor_type().elem_type())};
    Value* value = use.predicate == nullptr ? operands[i] : gated(builder, operands[i], use);
    set_narrow(value, own);
    inner.names.set(input.name(), value);
  }
}

namespace {

/// Names that nodes read and don't make, in their order.
void add_names_around(const pb::GraphProto& graph, std::set<std::string> made, std::vector<std::string>& names) {
  for (const auto& input : graph.input()) made.insert(input.name());
  for (const auto& tensor : graph.initializer()) made.insert(tensor.name());
  for (const auto& tensor : graph.sparse_initializer()) made.insert(tensor.values().name());
  for (const auto& node : graph.node()) made.insert(node.output().begin(), node.output().end());
  const auto read = [&](const std::string& name) {
    if (!name.empty() && !made.contains(name) && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const auto& node : graph.node()) {
    for (const std::string& input : node.input()) read(input);
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) add_names_around(attribute.g(), made, names);
      for (const auto& inner : attribute.graphs()) add_names_around(inner, made, names);
    }
  }
  for (const auto& output : graph.output()) read(output.name());
}

}  // namespace

void Importer::gate_names_around(const pb::GraphProto& graph, const SubgraphUse& use, Body& inner) {
  std::vector<std::string> names;
  add_names_around(graph, {}, names);
  Builder builder(*graph_, graph_->body, {faults_.file(), inner.prefix + "around", ""});
  for (const std::string& name : names) {
    if (Value* value = inner.find(name)) inner.names.set(name, gated(builder, value, use));
  }
}

Value* Importer::gated(Builder& builder, Value* value, const SubgraphUse& use) {
  const auto* elements = sequence(value);
  if (elements == nullptr) return gated_value(builder, value, use.predicate, use.taken);
  std::vector<Value*> seen;
  for (Value* element : *elements) seen.push_back(gated(builder, element, use));
  return make_sequence(std::move(seen), value->type.dtype);
}

std::vector<Value*> Importer::graph_outputs(const pb::GraphProto& graph, const Body& body) {
  std::vector<Value*> values;
  for (const auto& output : graph.output()) {
    Value* value = body.find(output.name());
    if (value == nullptr && body.names.is_faulty(output.name())) throw Poisoned();
    if (value == nullptr)
      throw RuleError{"malformed-file", "output `" + output.name() + "` of a subgraph is made by no node, input or initializer"};
    values.push_back(value);
  }
  return values;
}

}  // namespace tcc::onnx
