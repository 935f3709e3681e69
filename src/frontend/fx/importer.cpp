// Captured program -> graph.
//
// Sizes are bound first: what a program computes with sizes (views, slices, positions) is then plain numbers, and every value has a static
// type, which is compared with the one that the program declares. A node with a fault is reported and poisons its results, so that one walk
// reports every independent fault; operators that tcc lacks are looked for in a walk of their own before.
#include "frontend/fx/importer.h"

#include <algorithm>

#include "frontend/base/bind_signature.h"
#include "frontend/fx/arguments.h"
#include "frontend/fx/graph_ops.h"
#include "frontend/fx/node_kinds.h"
#include "frontend/fx/symbolic_numbers.h"
#include "tcc/graph/rule_error.h"

namespace tcc::fx {

namespace {

/// What a user can do about a fault; empty when the message says it.
std::string help_for(const RuleError& error) {
  if (error.kind == "unsupported-control-flow")
    return "compute both sides and choose between them with torch.where, or fix the condition with --bind=NAME=VALUE";
  return "";
}

}  // namespace

Importer::Importer(const Program& program, std::string file, WeightSource weights, const ImportOptions& options, Diagnostics& diagnostics)
    : program_(program),
      weights_(std::move(weights)),
      options_(options),
      diagnostics_(diagnostics),
      faults_(diagnostics, std::move(file), help_for),
      graph_(std::make_unique<Graph>(program.name)),
      random_ops_(*graph_),
      shape_arithmetic_(*graph_),
      scopes_(1) {
  graph_->file = faults_.file();
}

std::unique_ptr<Graph> Importer::run() {
  check_ops();
  faults_.checkpoint();
  declare();
  return import(bindings_of(options_, *graph_, free_sizes()));
}

void Importer::declare() {
  add_inputs();
  faults_.checkpoint();
}

std::unique_ptr<Graph> Importer::import(Bindings bindings) {
  bind_inputs(std::move(bindings));
  check_ranges();
  faults_.checkpoint();
  add_weights();
  check_guards();
  faults_.checkpoint();
  import_nodes(program_.graph);
  report_missing_ops();
  add_outputs();
  add_mutations();
  faults_.checkpoint();
  graph_->remove_unused_weights();
  return std::move(graph_);
}

bool Importer::reads_faulty(const ProgramNode& node) const {
  std::vector<std::string> names;
  for (const NamedArgument& argument : node.arguments) collect_names(argument.argument, names);
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return scope().is_faulty(name); });
}

void Importer::import_nodes(const ProgramGraph& graph) {
  for (const ProgramNode& node : graph.nodes) {
    const auto import = [&] {
      if (reads_faulty(node)) throw Poisoned();
      import_node(graph, node);
    };
    if (faults_.attempt(import, [&] { return where(node); }, [&] { return snippet(node); })) continue;
    for (const Result& result : node.results) {
      for (const std::string& name : result.names) scope().set_faulty(name);
    }
  }
}

void Importer::import_node(const ProgramGraph& graph, const ProgramNode& node) {
  if (is_assertion(node.op)) return;
  if (import_control_flow(node)) return;
  if (is_wrapper(node.op)) {
    for (size_t i = 0; i < node.arguments.size(); ++i) {
      if (const ProgramGraph* inner = graph_of(node.arguments[i].argument)) return inline_graph(*inner, node, i + 1);
    }
    throw RuleError{"malformed-file", "no graph is among the arguments of `" + node.op + "`"};
  }
  if (is_symbolic_number(node.op)) return import_number(graph, node);
  if (is_graph_op(node.op)) return import_graph_op(graph, node);
  const int first_new = graph_->num_values();
  const HandlerMatch match = find_handler(node.op);
  Builder builder = builder_at(node.module.empty() ? node.name : node.module + "/" + node.name);
  Call call(*this, builder, node, *match.handler);
  call.graph_ = &graph;
  match.handler->import(call);
  if (match.in_place) call.write(match.signature->parameters.at(0).name, call.results_.at(0).at(0));
  take_results(graph, node, call, first_new);
}

void Importer::import_graph_op(const ProgramGraph& graph, const ProgramNode& node) {
  const int first_new = graph_->num_values();
  Builder builder = builder_at(node.name);
  std::vector<Value*> operands;
  for (const NamedArgument& argument : node.arguments) {
    if (!argument.name.empty()) continue;
    const auto* name = argument.argument.as<ValueName>();
    const Slot* slot = name == nullptr ? nullptr : find(name->name);
    if (slot == nullptr ? !argument.argument.is_none() : slot->tensor == nullptr)
      throw RuleError{"malformed-file", "an operand of " + node.op + " is neither a tensor nor null"};
    operands.push_back(slot == nullptr ? nullptr : slot->tensor->read(builder));
  }
  const Op op = graph_op_of(node);
  if (info(op).kind == OpKind::dynamic) throw RuleError{"unsupported-op", "`" + node.op + "` among operators of torch"};
  const Node* made = builder.emit_node(op, std::move(operands), attributes_of(node), static_cast<int>(node.results.size()));
  if (node.results.size() != made->results.size()) {
    throw RuleError{"malformed-file", "the node has " + std::to_string(node.results.size()) + " results, " + node.op + " has " +
                                          std::to_string(made->results.size())};
  }
  for (size_t i = 0; i < made->results.size(); ++i) {
    const Result& result = node.results[i];
    if (result.is_list) throw RuleError{"malformed-file", "a result of " + node.op + " is a list"};
    if (result.names[0].empty()) continue;
    check_declared(graph, result.names[0], made->results[i]);
    give_name(*graph_, made->results[i], result.names[0], first_new);
    scope().set(result.names[0], {.tensor = Alias::of_new_storage(made->results[i]), .number = {}});
  }
}

void Importer::import_number(const ProgramGraph& graph, const ProgramNode& node) {
  const auto lookup = [this](const std::string& name) { return find(name); };
  const Number number = evaluate_number(node, lookup, [this](const SizeExpr& expr) { return evaluate(expr); });
  set_number(graph, node, number);
}

void Importer::set_number(const ProgramGraph& graph, const ProgramNode& node, const Number& number) {
  if (node.results.empty() || node.results[0].names.empty()) return;
  const std::string& name = node.results[0].names[0];
  if (const auto declared = graph.sizes.find(name); declared != graph.sizes.end()) {
    const auto size = evaluate(declared->second);
    if (size && to_double(number) != static_cast<double>(*size)) {
      throw RuleError{"type-error", "result `" + name + "` is " + to_string(number) + ", declared is `" + to_string(declared->second) +
                                        "`, which is " + std::to_string(*size)};
    }
  }
  scope().set(name, {.tensor = nullptr, .number = number});
}

std::vector<std::vector<Value*>> Importer::import_apart(Builder& builder, const ProgramNode& node,
                                                        const std::map<std::string, Value*>& tensors) {
  Scope<Slot> inner;
  for (const auto& [name, value] : tensors) inner.set(name, {.tensor = Alias::of_new_storage(value), .number = std::nullopt});
  scopes_.push_back(std::move(inner));
  const auto leave = [this](Scope<Slot>*) { scopes_.pop_back(); };
  const std::unique_ptr<Scope<Slot>, decltype(leave)> guard(&scopes_.back(), leave);
  const HandlerMatch match = find_handler(node.op);
  Call call(*this, builder, node, *match.handler);
  match.handler->import(call);
  return call.results_;
}

void Importer::take_results(const ProgramGraph& graph, const ProgramNode& node, Call& call, int first_new) {
  if (call.number_) return set_number(graph, node, *call.number_);
  if (node.results.size() > call.results_.size())
    throw RuleError{"malformed-file", "the node has " + std::to_string(node.results.size()) + " results, " + node.op + " has " +
                                          std::to_string(call.results_.size())};
  for (size_t i = 0; i < node.results.size(); ++i) {
    const Result& result = node.results[i];
    const std::vector<Value*>& values = call.results_[i];
    if (result.names.size() > values.size())
      throw RuleError{"malformed-file", "a list has " + std::to_string(result.names.size()) + " elements in the program and " +
                                            std::to_string(values.size()) + " by its operator"};
    for (size_t k = 0; k < result.names.size(); ++k) {
      const std::string& name = result.names[k];
      if (name.empty()) continue;
      Value* value = values[k];
      if (value == nullptr) throw RuleError{"unsupported-op", "result " + std::to_string(i) + " of " + node.op + " (`" + name + "`)"};
      if (!call.ignores_declared_) check_declared(graph, name, value);
      give_name(*graph_, value, name, first_new);
      const bool aliased = i == 0 && k < call.aliases_.size();
      scope().set(name, {.tensor = aliased ? call.aliases_[k] : Alias::of_new_storage(value), .number = {}});
    }
  }
}

/// What was made against what the program says it is: a handler that read an argument wrongly is found here.
void Importer::check_declared(const ProgramGraph& graph, const std::string& name, const Value* value) const {
  const auto meta = graph.tensors.find(name);
  if (meta == graph.tensors.end()) return;
  Shape declared;
  for (const SizeExpr& size : meta->second.sizes) {
    const auto extent = evaluate(size);
    if (!extent) return;  // depends on data
    declared.push_back(*extent);
  }
  if (meta->second.dtype == value->type.dtype && declared == shape_of(value)) return;
  throw RuleError{"type-error", "result `" + name + "` is " + to_string(value->type) + ", declared is " +
                                    (meta->second.dtype ? std::string(tcc::name_of(*meta->second.dtype)) : meta->second.dtype_name) +
                                    to_string(std::span(declared))};
}

Builder Importer::builder_at(const std::string& node) { return Builder(*graph_, graph_->body, {faults_.file(), node, ""}); }

std::string Importer::where(const ProgramNode& node) const { return faults_.where(name_of(node)); }

/// The node as the program has it, with the types that are known: `%add = aten.add.Tensor(self=%x: f32[2], other=1)`.
std::string Importer::snippet(const ProgramNode& node) {
  std::string text;
  for (const Result& result : node.results) {
    for (const std::string& name : result.names) text += (text.empty() ? "%" : ", %") + name;
  }
  text += " = " + node.op + "(";
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    text += i > 0 ? ", " : "";
    if (!node.arguments[i].name.empty()) text += node.arguments[i].name + "=";
    text += to_string(node.arguments[i].argument, [this](const std::string& name) {
      const Slot* slot = find(name);
      Builder builder = builder_at("");
      return slot == nullptr || slot->tensor == nullptr ? "" : ": " + tcc::to_string(slot->tensor->read(builder)->type);
    });
  }
  return text + ")";
}

}  // namespace tcc::fx
