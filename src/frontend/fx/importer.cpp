// Captured program -> graph.
//
// Sizes are bound first: what a program computes with sizes (views, slices, positions) is then plain numbers, and every value has a static
// type, which is compared with the one that the program declares. A node with a fault is reported and poisons its results, so that one walk
// reports every independent fault; operators that tcc lacks are looked for in a walk of their own before.
#include "frontend/fx/importer.h"

#include <algorithm>
#include <set>

#include "frontend/fx/arguments.h"
#include "frontend/fx/stop_gradient.h"
#include "frontend/fx/symbolic_numbers.h"
#include "frontend/seed.h"
#include "tcc/graph/passes.h"

namespace tcc::fx {

namespace {

/// Wrappers that say how a part of the model is run, not what it computes: (settings..., graph, operands...).
const std::set<std::string, std::less<>> kWrappers = {
    "hop.wrap_with_set_grad_enabled", "hop.wrap_with_autocast",         "hop.hints_wrapper", "hop.invoke_subgraph",
    "hop.tag_activation_checkpoint",  "hop.wrap_activation_checkpoint", "hop.wrap"};

/// Checks that the framework makes when it runs; the types of every value are compared with the declared ones anyway.
const std::set<std::string, std::less<>> kAssertions = {
    "aten._assert_tensor_metadata.default", "aten._assert_async.msg",           "aten._assert_async.default",
    "aten._assert_scalar.default",          "aten.sym_constrain_range.default", "aten.sym_constrain_range_for_size.default"};

bool is_control_flow(const std::string& op) { return op.starts_with("hop."); }

bool is_known(const ProgramNode& node) {
  return kWrappers.contains(node.op) || kAssertions.contains(node.op) || is_symbolic_number(node.op) ||
         find_handler(node.op).handler != nullptr;
}

const ProgramGraph* graph_of(const Argument& argument) {
  const auto* graph = argument.as<GraphRef>();
  return graph == nullptr ? nullptr : graph->get();
}

void collect_names(const Argument& argument, std::vector<std::string>& names) {
  if (const auto* name = argument.as<ValueName>()) names.push_back(name->name);
  if (const auto* list = argument.as<std::vector<Argument>>()) {
    for (const Argument& element : *list) collect_names(element, names);
  }
}

}  // namespace

Importer::Importer(const Program& program, std::string file, WeightSource weights, const ImportOptions& options, Diagnostics& diagnostics)
    : program_(program), file_(std::move(file)), weights_(std::move(weights)), options_(options), diagnostics_(diagnostics) {}

std::unique_ptr<Graph> Importer::run() {
  graph_ = std::make_unique<Graph>(program_.name);
  graph_->file = file_;
  check_ops(program_.graph);
  diagnostics_.checkpoint(ExitCode::model);
  scopes_.emplace_back();
  add_inputs();
  diagnostics_.checkpoint(ExitCode::model);
  bind_inputs();
  check_ranges();
  diagnostics_.checkpoint(ExitCode::model);
  add_weights();
  diagnostics_.checkpoint(ExitCode::model);
  import_nodes(program_.graph);
  diagnostics_.checkpoint(ExitCode::model);
  add_outputs();
  refuse_mutations();
  diagnostics_.checkpoint(ExitCode::model);
  graph_->remove_unused_weights();
  return std::move(graph_);
}

void Importer::check_ops(const ProgramGraph& graph) {
  for (const ProgramNode& node : graph.nodes) {
    for (const NamedArgument& argument : node.arguments) {
      if (const ProgramGraph* inner = graph_of(argument.argument)) check_ops(*inner);
    }
    if (is_known(node)) continue;
    if (is_control_flow(node.op)) {
      diagnostics_.not_supported("unsupported-control-flow", where(node), "higher-order operator `" + node.op.substr(4) + "`");
      if (node.op == "hop.cond") diagnostics_.help(where(node), "compute both sides and choose with torch.where");
    } else {
      diagnostics_.not_supported("unsupported-op", where(node), "operator `" + node.op + "`");
    }
  }
}

void Importer::add_inputs() {
  for (const InputSpec& input : program_.inputs) {
    const std::string place = file_ + ":" + (input.target.empty() ? input.name : input.target);
    if (!input.is_tensor) {
      if (input.name.empty()) continue;
      Slot& slot = scopes_[0][input.name];
      if (const auto number = number_in(input.fixed)) slot.number = number;
      else if (!input.fixed.is_none() || input.kind == InputSpec::Kind::user)
        diagnostics_.not_supported("unsupported-dtype", place, "input `" + input.name + "` is not a tensor");
      continue;
    }
    const auto meta = program_.graph.tensors.find(input.name);
    if (meta == program_.graph.tensors.end()) {
      diagnostics_.error("malformed-file", place, "the type of input `" + input.name + "` is not declared");
      continue;
    }
    if (!meta->second.dtype) {
      diagnostics_.not_supported("unsupported-dtype", place, "input `" + input.name + "` is " + meta->second.dtype_name);
      continue;
    }
    // Parameters without bytes are inputs under their own names.
    if (input.kind != InputSpec::Kind::user && weights_(input, meta->second)) continue;
    Type type = Type::unranked(*meta->second.dtype);
    type.ranked = true;
    for (const SizeExpr& size : meta->second.sizes) {
      type.dims.push_back(size.op == SizeExpr::Op::constant ? Dim(size.value) : Dim(to_string(size)));
    }
    Value* value = graph_->add_input(input.target.empty() ? input.name : input.target, std::move(type));
    graph_->add_output(value, value->name);
    graph_inputs_.push_back(input.name);
  }
}

/// With the inputs as outputs the passes that bind sizes and values do their work, and what they leave there is what each input became.
void Importer::bind_inputs() {
  const Bindings bindings = options_.bindings ? options_.bindings(*graph_) : options_.known;
  bind_shapes(*graph_, bindings);
  resolve(*graph_, diagnostics_);
  diagnostics_.checkpoint(ExitCode::model);
  if (options_.is_bound != nullptr) *options_.is_bound = true;
  const std::vector<Value*> values = graph_->body.results;
  graph_->body.results.clear();
  graph_->output_names.clear();
  for (size_t i = 0; i < values.size(); ++i) {
    scopes_[0][graph_inputs_[i]].tensor = Alias::of_new_storage(values[i]);
    kept_.emplace_back("input `" + graph_inputs_[i] + "`", scopes_[0][graph_inputs_[i]].tensor);
  }
  // Plain symbols first: expressions are made of them.
  for (const bool plain : {true, false}) {
    for (const InputSpec& input : program_.inputs) {
      const Slot* slot = input.is_tensor ? find(input.name) : nullptr;
      if (slot == nullptr || slot->tensor == nullptr) continue;
      const std::vector<SizeExpr>& sizes = program_.graph.tensors.at(input.name).sizes;
      Builder builder = builder_at(input.name);
      const Shape shape = shape_of(slot->tensor->read(builder));
      for (size_t axis = 0; axis < sizes.size() && axis < shape.size(); ++axis) {
        if (plain && sizes[axis].op == SizeExpr::Op::symbol) symbols_.emplace(sizes[axis].symbol, shape[axis]);
        const auto value = evaluate(sizes[axis]);
        if (value && *value != shape[axis]) {
          diagnostics_.error("type-error", file_ + ":" + input.name,
                             "axis " + std::to_string(axis) + " of input `" + input.name + "` is " + std::to_string(shape[axis]) + ", `" +
                                 to_string(sizes[axis]) + "` is " + std::to_string(*value));
        }
      }
    }
  }
}

void Importer::check_ranges() {
  for (const auto& [symbol, range] : program_.symbols) {
    const auto found = symbols_.find(symbol);
    if (found == symbols_.end()) continue;
    if ((range.low && found->second < *range.low) || (range.high && found->second > *range.high)) {
      diagnostics_.error("type-error", file_,
                         "the size `" + symbol + "` is " + std::to_string(found->second) + ", the program was captured for " +
                             (range.low ? std::to_string(*range.low) : "any") + " to " +
                             (range.high ? std::to_string(*range.high) : "any"));
    }
  }
}

void Importer::add_weights() {
  for (const InputSpec& input : program_.inputs) {
    if (!input.is_tensor || input.kind == InputSpec::Kind::user || scopes_[0].contains(input.name)) continue;
    const TensorMeta& meta = program_.graph.tensors.at(input.name);
    const std::string place = file_ + ":" + input.target;
    const Tensor tensor = *weights_(input, meta);
    Shape declared;
    for (const SizeExpr& size : meta.sizes) declared.push_back(evaluate(size).value_or(-1));
    if (tensor.dtype() != *meta.dtype || tensor.shape() != declared) {
      diagnostics_.error("type-error", place,
                         "the weight is " + to_string(Type(tensor.dtype(), tensor.shape())) + ", declared is " +
                             std::string(tcc::name_of(*meta.dtype)) + to_string(std::span(declared)));
      continue;
    }
    // Only what the signature calls a parameter is one: the rest is never trained.
    Value* value = graph_->add_weight(input.target, tensor, input.kind == InputSpec::Kind::parameter);
    scopes_[0][input.name].tensor = Alias::of_new_storage(value);
    kept_.emplace_back((input.kind == InputSpec::Kind::parameter ? "parameter `" : "buffer `") + input.target + "`",
                       scopes_[0][input.name].tensor);
  }
}

void Importer::add_outputs() {
  Builder builder = builder_at("outputs");
  for (const OutputSpec& output : program_.outputs) {
    try {
      add_output(output, builder);
    } catch (const RuleError& error) { report(error, file_, ""); }
  }
  if (graph_->body.results.empty() && !diagnostics_.has_errors()) diagnostics_.error("malformed-file", file_, "the program has no outputs");
}

void Importer::add_output(const OutputSpec& output, Builder& builder) {
  if (output.kind == OutputSpec::Kind::buffer_mutation || output.kind == OutputSpec::Kind::input_mutation) {
    throw RuleError{"unsupported-op", "`" + output.target + "` changes when the program runs: state of inference"};
  }
  if (output.value.is_none()) return;
  Value* value = nullptr;
  std::string name = "output_" + std::to_string(graph_->body.results.size());
  if (const auto* named = output.value.as<ValueName>()) {
    const Slot* slot = find(named->name);
    if (slot == nullptr) throw RuleError{"malformed-file", "output `" + named->name + "` is made by no node and is no input"};
    if (slot->tensor != nullptr) value = slot->tensor->read(builder);
    else if (slot->number) value = builder.full_int(DType::i64, {}, static_cast<int64_t>(to_double(*slot->number)));
    name = named->name;
  } else if (const auto number = number_in(output.value)) {
    value = std::holds_alternative<double>(*number) ? builder.full(DType::f32, {}, to_double(*number))
                                                    : builder.full_int(DType::i64, {}, static_cast<int64_t>(to_double(*number)));
  }
  if (value == nullptr) throw RuleError{"unsupported-dtype", "output `" + name + "` is not a tensor"};
  if (!output.target.empty()) name = "grad." + output.target;
  std::string unique = name;
  for (int i = 1; std::find(graph_->output_names.begin(), graph_->output_names.end(), unique) != graph_->output_names.end(); ++i) {
    unique = name + "." + std::to_string(i);
  }
  graph_->add_output(value, unique);
}

void Importer::refuse_mutations() {
  for (const auto& [what, alias] : kept_) {
    if (!alias->was_written()) continue;
    diagnostics_.not_supported("unsupported-op", file_, what + " is written in place: state of inference");
  }
}

bool Importer::reads_faulty(const ProgramNode& node) const {
  std::vector<std::string> names;
  for (const NamedArgument& argument : node.arguments) collect_names(argument.argument, names);
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    const Slot* slot = find(name);
    return slot != nullptr && slot->is_faulty;
  });
}

void Importer::import_nodes(const ProgramGraph& graph) {
  for (const ProgramNode& node : graph.nodes) {
    bool faulty = reads_faulty(node);
    if (!faulty) {
      try {
        import_node(graph, node);
      } catch (const RuleError& error) {
        report(error, where(node), snippet(node));
        faulty = true;
      }
    }
    if (!faulty) continue;
    for (const Result& result : node.results) {
      for (const std::string& name : result.names) scopes_.back()[name].is_faulty = true;
    }
  }
}

void Importer::import_node(const ProgramGraph& graph, const ProgramNode& node) {
  if (kAssertions.contains(node.op)) return;
  if (kWrappers.contains(node.op)) {
    for (size_t i = 0; i < node.arguments.size(); ++i) {
      if (const ProgramGraph* inner = graph_of(node.arguments[i].argument)) return inline_graph(*inner, node, i + 1);
    }
    throw RuleError{"malformed-file", "no graph is among the arguments of `" + node.op + "`"};
  }
  if (is_symbolic_number(node.op)) {
    const auto lookup = [this](const std::string& name) { return find(name); };
    const Number number = evaluate_number(node, lookup, [this](const SizeExpr& expr) { return evaluate(expr); });
    if (!node.results.empty() && !node.results[0].names.empty()) scopes_.back()[node.results[0].names[0]].number = number;
    return;
  }
  const int first_new = graph_->num_values();
  const HandlerMatch match = find_handler(node.op);
  Builder builder = builder_at(node.module.empty() ? node.name : node.module + "/" + node.name);
  Call call(*this, builder, node, *match.handler);
  match.handler->import(call);
  if (match.in_place) call.write(match.signature->parameters.at(0).name, call.results_.at(0).at(0));
  take_results(graph, node, call, first_new);
}

void Importer::take_results(const ProgramGraph& graph, const ProgramNode& node, Call& call, int first_new) {
  if (call.number_) {
    if (!node.results.empty() && !node.results[0].names.empty()) scopes_.back()[node.results[0].names[0]].number = call.number_;
    return;
  }
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
      check_declared(graph, name, value);
      if (value->kind == Value::Kind::result && value->id >= first_new && value->name != name) graph_->rename(value, name);
      Slot& slot = scopes_.back()[name];
      const bool aliased = i == 0 && k < call.aliases_.size();
      slot.tensor = aliased ? call.aliases_[k] : Alias::of_new_storage(value);
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

void Importer::inline_graph(const ProgramGraph& graph, const ProgramNode& node, size_t first_operand) {
  std::vector<Slot> operands;
  for (size_t i = first_operand; i < node.arguments.size(); ++i) {
    std::vector<std::string> names;
    collect_names(node.arguments[i].argument, names);
    for (const std::string& name : names) {
      const Slot* slot = find(name);
      if (slot == nullptr) throw RuleError{"malformed-file", "`" + name + "` is made by no node and is no input"};
      operands.push_back(*slot);
    }
    if (names.empty()) {
      if (const auto number = number_in(node.arguments[i].argument)) operands.push_back({.number = number});
    }
  }
  if (operands.size() != graph.inputs.size())
    throw RuleError{"malformed-file", "a graph of " + std::to_string(graph.inputs.size()) + " inputs is called with " +
                                          std::to_string(operands.size()) + " operands"};
  Scope inner;
  for (size_t i = 0; i < operands.size(); ++i) inner[graph.inputs[i]] = operands[i];
  scopes_.push_back(std::move(inner));
  const int errors = diagnostics_.num_errors();
  import_nodes(graph);
  std::vector<Slot> outputs;
  for (const Argument& output : graph.outputs) {
    const auto* name = output.as<ValueName>();
    const Slot* slot = name == nullptr ? nullptr : find(name->name);
    outputs.push_back(slot == nullptr ? Slot() : *slot);
  }
  scopes_.pop_back();
  if (node.op == "hop.wrap_with_set_grad_enabled" && !node.arguments.empty()) {
    const bool* enabled = node.arguments[0].argument.as<bool>();
    Builder builder = builder_at(node.name);
    for (Slot& output : outputs) {
      if (enabled != nullptr && !*enabled && output.tensor != nullptr)
        output.tensor = Alias::of_new_storage(stop_gradient(builder, output.tensor->read(builder)));
    }
  }
  size_t next = 0;
  for (const Result& result : node.results) {
    for (const std::string& name : result.names) {
      Slot& slot = scopes_.back()[name];
      if (next < outputs.size()) slot = outputs[next];
      if (slot.tensor == nullptr && !slot.number) slot.is_faulty = true;
      ++next;
    }
  }
  if (next != outputs.size() && diagnostics_.num_errors() == errors)
    throw RuleError{"malformed-file", "a graph of " + std::to_string(outputs.size()) + " outputs is called for " + std::to_string(next)};
}

const Slot* Importer::find(const std::string& name) const {
  const auto found = scopes_.back().find(name);
  return found == scopes_.back().end() ? nullptr : &found->second;
}

Value* Importer::seed() { return seed_input(*graph_); }

Builder Importer::builder_at(const std::string& node) { return Builder(*graph_, graph_->body, {file_, node, ""}); }

std::string Importer::where(const ProgramNode& node) const {
  return file_ + ":" + (node.module.empty() ? "" : node.module + "/") + (node.name.empty() ? node.op : node.name);
}

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

void Importer::report(const RuleError& error, const std::string& where, const std::string& snippet) {
  if (error.kind.starts_with("unsupported-")) diagnostics_.not_supported(error.kind, where, error.message, snippet);
  else diagnostics_.error(error.kind, where, error.message, snippet);
}

}  // namespace tcc::fx
