// Control flow, as far as a graph without branches and loops can hold it.
//
//   cond                    a predicate that is known takes its branch; one that depends on data chooses between the results of both
//   map, scan,              the graph once for each step: the first axis of what is iterated over is known
//   associative_scan
//   while_loop              the graph as often as the condition, known before each step, holds
//
// Sides that write in place, or read positions that depend on data, are no such sides: what they do can't be done and thrown away.
#include "frontend/base/control_flow.h"
#include "frontend/fx/arguments.h"
#include "frontend/fx/importer.h"
#include "tcc/graph/rule_error.h"

namespace tcc::fx {

namespace {

const ProgramGraph& graph_at(const ProgramNode& node, size_t i) {
  const auto* graph = i < node.arguments.size() ? node.arguments[i].argument.as<GraphRef>() : nullptr;
  if (graph == nullptr) throw RuleError{"malformed-file", "argument " + std::to_string(i) + " of `" + node.op + "` is not a graph"};
  return **graph;
}

Slot slot_of(Value* value) { return {.tensor = Alias::of_new_storage(value), .number = std::nullopt}; }

/// x[i] along the first axis.
Value* element(Builder& b, Value* x, int64_t i) {
  Shape starts(static_cast<size_t>(x->type.rank()), 0), limits = shape_of(x), shape = limits;
  starts[0] = i;
  limits[0] = i + 1;
  shape.erase(shape.begin());
  return b.reshape(b.slice(x, starts, limits), shape);
}

Value* stacked(Builder& b, const std::vector<Value*>& values) {
  std::vector<Value*> rows;
  for (Value* value : values) {
    if (value->type != values[0]->type)
      throw RuleError{"type-error", "a step gives " + to_string(value->type) + ", the first one " + to_string(values[0]->type)};
    Shape shape = shape_of(value);
    shape.insert(shape.begin(), 1);
    rows.push_back(b.reshape(value, shape));
  }
  return rows.size() == 1 ? rows[0] : b.concat(rows, 0);
}

}  // namespace

std::vector<Slot> Importer::slots_of(const Argument& argument) const {
  if (const auto* list = argument.as<std::vector<Argument>>()) {
    std::vector<Slot> slots;
    for (const Argument& element : *list) {
      for (Slot& slot : slots_of(element)) slots.push_back(std::move(slot));
    }
    return slots;
  }
  if (const auto* name = argument.as<ValueName>()) {
    const Slot* slot = find(name->name);
    if (slot == nullptr) throw RuleError{"malformed-file", "`" + name->name + "` is made by no node and is not an input"};
    return {*slot};
  }
  if (const auto number = number_in(argument)) return {Slot{.tensor = nullptr, .number = number}};
  throw RuleError{"malformed-file", "an operand is neither a tensor nor a number"};
}

Value* Importer::tensor_of(const Slot& slot, Builder& builder) {
  if (slot.tensor == nullptr) throw RuleError{"unsupported-control-flow", "a number goes through control flow, lowered are tensors"};
  return slot.tensor->read(builder);
}

std::vector<Slot> Importer::run_graph(const ProgramGraph& graph, const std::vector<Slot>& operands) {
  if (operands.size() != graph.inputs.size())
    throw RuleError{"malformed-file", "a graph of " + std::to_string(graph.inputs.size()) + " inputs is called with " +
                                          std::to_string(operands.size()) + " operands"};
  num_unrolled_nodes_ += static_cast<int64_t>(graph.nodes.size()) + 1;
  if (num_unrolled_nodes_ > kMaxUnrolledNodes)
    throw RuleError{"too-complex", "control flow is unrolled to more than " + std::to_string(kMaxUnrolledNodes) + " nodes"};
  // Its inputs are its own: a write to one would not be seen outside.
  Scope<Slot> inputs;
  std::vector<std::shared_ptr<Alias>> own;
  Builder builder = builder_at("operands");
  for (size_t i = 0; i < operands.size(); ++i) {
    Slot operand = operands[i];
    if (operand.tensor != nullptr) own.push_back(operand.tensor = Alias::of_new_storage(operand.tensor->read(builder)));
    inputs.set(graph.inputs[i], operand);
  }
  scopes_.push_back(std::move(inputs));
  import_nodes(graph);
  const Scope<Slot> inner = std::move(scopes_.back());
  scopes_.pop_back();
  for (const auto& alias : own) {
    if (alias->was_written()) throw RuleError{"unsupported-control-flow", "a graph of control flow writes to its operands in place"};
  }
  std::vector<Slot> outputs;
  for (const Argument& output : graph.outputs) {
    std::optional<Slot> slot = output_of_call(output, inner);
    if (!slot) throw Poisoned();
    outputs.push_back(std::move(*slot));
  }
  return outputs;
}

void Importer::set_results(const ProgramNode& node, const std::vector<Slot>& slots) {
  std::vector<std::string> names;
  for (const Result& result : node.results) names.insert(names.end(), result.names.begin(), result.names.end());
  if (names.size() != slots.size())
    throw RuleError{"malformed-file", "`" + node.op + "` has " + std::to_string(slots.size()) + " results, the program names " +
                                          std::to_string(names.size())};
  for (size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty()) scope().set(names[i], slots[i]);
  }
}

bool Importer::import_control_flow(const ProgramNode& node) {
  if (node.op == "hop.cond") import_cond(node);
  else if (node.op == "hop.map_impl" || node.op == "hop.map") import_map(node);
  else if (node.op == "hop.scan") import_scan(node);
  else if (node.op == "hop.associative_scan") import_associative_scan(node);
  else if (node.op == "hop.while_loop") import_while(node);
  else return false;
  return true;
}

// ---- cond: (predicate, graph where it holds, graph where it doesn't, operands)

void Importer::import_cond(const ProgramNode& node) {
  const ProgramGraph &holds = graph_at(node, 1), &fails = graph_at(node, 2);
  const std::optional<bool> known = known_condition(node.arguments[0].argument);
  std::set<const ProgramGraph*> seen;
  if (known) {
    const ProgramGraph& branch = *known ? holds : fails;
    if (!check_ops(branch, seen)) throw Poisoned();  // the other branch may hold anything
    return inline_graph(branch, node, 3);
  }
  const bool has_all = check_ops(holds, seen);
  if (!check_ops(fails, seen) || !has_all) throw Poisoned();
  Builder builder = builder_at(node.name);
  Value* predicate = builder.reshape(builder.cast(tensor_of(slots_of(node.arguments[0].argument).at(0), builder), DType::boolean), {});
  std::vector<Slot> operands;
  for (size_t i = 3; i < node.arguments.size(); ++i) {
    for (Slot& slot : slots_of(node.arguments[i].argument)) operands.push_back(std::move(slot));
  }
  const size_t first_new = graph_->body.nodes.size();
  const std::vector<Slot> of_true = run_graph(holds, gated(operands, predicate, true));
  const std::vector<Slot> of_false = run_graph(fails, gated(operands, predicate, false));
  check_can_be_thrown_away(first_new);
  if (of_true.size() != of_false.size()) throw RuleError{"malformed-file", "the branches of a cond differ in the number of their results"};
  std::vector<Slot> results;
  for (size_t i = 0; i < of_true.size(); ++i) {
    Value *a = tensor_of(of_true[i], builder), *b = tensor_of(of_false[i], builder);
    if (a->type != b->type)
      throw RuleError{"type-error", "a cond gives " + to_string(a->type) + " on one side and " + to_string(b->type) + " on the other"};
    results.push_back(slot_of(builder.select(predicate, a, b)));
  }
  set_results(node, results);
}

/// The operands of one branch, through which gradients pass only if it is taken: its own may be infinite where it isn't.
std::vector<Slot> Importer::gated(const std::vector<Slot>& operands, Value* predicate, bool taken) {
  Builder builder = builder_at("branch");
  std::vector<Slot> result;
  for (const Slot& operand : operands) {
    Value* value = operand.tensor == nullptr ? nullptr : operand.tensor->read(builder);
    Value* seen = value == nullptr ? nullptr : gated_value(builder, value, predicate, taken);
    result.push_back(seen == value ? operand : slot_of(seen));
  }
  return result;
}

void Importer::check_can_be_thrown_away(size_t first_new) {
  if (reads_unknown_positions(*graph_, first_new, shape_arithmetic_) == nullptr) return;
  throw RuleError{"unsupported-control-flow",
                  "higher-order operator `cond`: its predicate depends on the inputs of the program, and a branch "
                  "reads positions that do, too"};
}

std::optional<bool> Importer::known_condition(const Argument& argument) {
  const std::vector<Slot> slots = slots_of(argument);
  if (slots.size() != 1) throw RuleError{"malformed-file", "the predicate is not a tensor or number"};
  return known_condition(slots[0]);
}

std::optional<bool> Importer::known_condition(const Slot& slot) {
  if (slot.number) return to_double(*slot.number) != 0;
  if (slot.tensor == nullptr) throw RuleError{"malformed-file", "the predicate is not a tensor or number"};
  Builder builder = builder_at("predicate");
  const Value* value = slot.tensor->read(builder);
  if (value->type.count() != 1)
    throw RuleError{"type-error", "the predicate has " + std::to_string(value->type.count()) + " elements, 1 was expected"};
  const std::optional<Tensor> tensor = shape_arithmetic_.value_of(value);
  return tensor ? std::optional(tensor->as_double(0) != 0) : std::nullopt;
}

// ---- loops

/// What is iterated over, by the steps.
struct Importer::Iterated {
  std::vector<Value*> tensors;
  int64_t steps = 0;
};

Importer::Iterated Importer::iterated(const ProgramNode& node, size_t argument, Builder& builder) {
  Iterated result;
  for (const Slot& slot : slots_of(node.arguments.at(argument).argument)) result.tensors.push_back(tensor_of(slot, builder));
  for (const Value* value : result.tensors) {
    if (value->type.rank() == 0 || value->type.dims[0].bound != result.tensors[0]->type.dims[0].bound)
      throw RuleError{"type-error",
                      "`" + node.op + "` iterates over " + to_string(value->type) + " beside " + to_string(result.tensors[0]->type)};
  }
  if (!result.tensors.empty()) result.steps = result.tensors[0]->type.dims[0].bound;
  if (result.steps == 0) throw RuleError{"unsupported-control-flow", "higher-order operator `" + node.op.substr(4) + "` without steps"};
  return result;
}

/// (graph, iterated over, operands): each step gives elements of the results.
void Importer::import_map(const ProgramNode& node) {
  const ProgramGraph& graph = graph_at(node, 0);
  if (node.arguments.size() < 3) throw RuleError{"malformed-file", "`" + node.op + "` has fewer than three arguments"};
  run_steps(node, graph, {}, 1, slots_of(node.arguments[2].argument));
}

/// (graph, first state, iterated over, operands): each step gives the next state, then elements of the results.
void Importer::import_scan(const ProgramNode& node) {
  const ProgramGraph& graph = graph_at(node, 0);
  if (node.arguments.size() < 4) throw RuleError{"malformed-file", "`" + node.op + "` has fewer than four arguments"};
  run_steps(node, graph, slots_of(node.arguments[1].argument), 2, slots_of(node.arguments[3].argument));
}

void Importer::run_steps(const ProgramNode& node, const ProgramGraph& graph, std::vector<Slot> state, size_t over,
                         const std::vector<Slot>& operands) {
  Builder builder = builder_at(node.name);
  const Iterated all = iterated(node, over, builder);
  const size_t num_states = state.size();
  std::vector<std::vector<Value*>> elements;
  for (int64_t i = 0; i < all.steps; ++i) {
    std::vector<Slot> given = state;
    for (Value* value : all.tensors) given.push_back(slot_of(element(builder, value, i)));
    given.insert(given.end(), operands.begin(), operands.end());
    const std::vector<Slot> made = run_graph(graph, given);
    if (made.size() < num_states) throw RuleError{"malformed-file", "the graph of `" + node.op + "` has fewer outputs than states"};
    for (size_t k = 0; k < num_states; ++k) state[k] = next_state(state[k], made[k], builder);
    elements.resize(made.size() - num_states);
    for (size_t k = num_states; k < made.size(); ++k) elements[k - num_states].push_back(tensor_of(made[k], builder));
  }
  std::vector<Slot> results = state;
  for (const std::vector<Value*>& values : elements) results.push_back(slot_of(stacked(builder, values)));
  set_results(node, results);
}

Slot Importer::next_state(const Slot& before, const Slot& after, Builder& builder) {
  if (before.tensor == nullptr && after.number) return after;
  Value *a = tensor_of(before, builder), *b = tensor_of(after, builder);
  if (a->type != b->type)
    throw RuleError{"type-error", "a state is " + to_string(a->type) + " before a step and " + to_string(b->type) + " after it"};
  return after;
}

/// (graph, iterated over, operands): each result is that of the graph for the result before and the element.
void Importer::import_associative_scan(const ProgramNode& node) {
  const ProgramGraph& graph = graph_at(node, 0);
  if (node.arguments.size() < 2) throw RuleError{"malformed-file", "`" + node.op + "` has fewer than two arguments"};
  Builder builder = builder_at(node.name);
  const Iterated all = iterated(node, 1, builder);
  const std::vector<Slot> operands = node.arguments.size() > 2 ? slots_of(node.arguments[2].argument) : std::vector<Slot>();
  std::vector<Slot> last;
  std::vector<std::vector<Value*>> elements(all.tensors.size());
  for (int64_t i = 0; i < all.steps; ++i) {
    std::vector<Slot> given = last;
    for (Value* value : all.tensors) given.push_back(slot_of(element(builder, value, i)));
    if (i > 0) given.insert(given.end(), operands.begin(), operands.end());
    last = i > 0 ? run_graph(graph, given) : given;
    if (last.size() != elements.size())
      throw RuleError{"malformed-file", "the graph of `" + node.op + "` has another number of outputs than there are tensors"};
    for (size_t k = 0; k < last.size(); ++k) elements[k].push_back(tensor_of(last[k], builder));
  }
  std::vector<Slot> results;
  for (const std::vector<Value*>& values : elements) results.push_back(slot_of(stacked(builder, values)));
  set_results(node, results);
}

/// (graph of the condition, graph of a step, first state, operands)
void Importer::import_while(const ProgramNode& node) {
  const ProgramGraph &condition = graph_at(node, 0), &body = graph_at(node, 1);
  if (node.arguments.size() < 3) throw RuleError{"malformed-file", "`" + node.op + "` has fewer than three arguments"};
  std::vector<Slot> state = slots_of(node.arguments[2].argument);
  const std::vector<Slot> operands = node.arguments.size() > 3 ? slots_of(node.arguments[3].argument) : std::vector<Slot>();
  Builder builder = builder_at(node.name);
  while (true) {
    std::vector<Slot> given = state;
    given.insert(given.end(), operands.begin(), operands.end());
    const std::vector<Slot> holds = run_graph(condition, given);
    if (holds.size() != 1)
      throw RuleError{"malformed-file", "the condition of `" + node.op + "` has " + std::to_string(holds.size()) + " outputs"};
    const std::optional<bool> known = known_condition(holds[0]);
    if (!known)
      throw RuleError{"unsupported-control-flow", "higher-order operator `while_loop`: its condition depends on the inputs of the program"};
    if (!*known) break;
    const std::vector<Slot> made = run_graph(body, given);
    if (made.size() != state.size())
      throw RuleError{"malformed-file", "a step of `" + node.op + "` has another number of outputs than there are states"};
    for (size_t k = 0; k < state.size(); ++k) state[k] = next_state(state[k], made[k], builder);
  }
  set_results(node, state);
}

}  // namespace tcc::fx
