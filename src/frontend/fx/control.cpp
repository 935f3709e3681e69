// Control flow: a cond whose predicate is known takes its branch; one that depends on data is refused.
#include "frontend/fx/arguments.h"
#include "frontend/fx/importer.h"

namespace tcc::fx {

/// (predicate, graph where it holds, graph where it doesn't, operands)
void Importer::import_cond(const ProgramNode& node) {
  const ProgramGraph* branches[2] = {};
  for (size_t i = 0; i < 2; ++i) {
    const auto* graph = i + 1 < node.arguments.size() ? node.arguments[i + 1].argument.as<GraphRef>() : nullptr;
    if (graph == nullptr) throw RuleError{"malformed-file", "argument " + std::to_string(i + 1) + " of `" + node.op + "` is no graph"};
    branches[i] = graph->get();
  }
  const std::optional<bool> holds = known_condition(node.arguments[0].argument);
  if (!holds)
    throw RuleError{"unsupported-control-flow", "higher-order operator `cond`: its predicate depends on the inputs of the program"};
  const ProgramGraph& branch = *branches[*holds ? 0 : 1];
  std::set<const ProgramGraph*> seen;
  if (!check_ops(branch, seen)) throw Poisoned();  // the other branch may hold anything
  inline_graph(branch, node, 3);
}

std::optional<bool> Importer::known_condition(const Argument& argument) {
  if (const auto number = number_in(argument)) return to_double(*number) != 0;
  const auto* name = argument.as<ValueName>();
  const Slot* slot = name == nullptr ? nullptr : find(name->name);
  if (slot == nullptr) throw RuleError{"malformed-file", "the predicate is made by no node and is no input"};
  if (slot->number) return to_double(*slot->number) != 0;
  if (slot->tensor == nullptr) throw RuleError{"malformed-file", "the predicate is not a tensor or number"};
  Builder builder = builder_at("predicate");
  const Value* value = slot->tensor->read(builder);
  if (value->type.count() != 1)
    throw RuleError{"type-error", "the predicate has " + std::to_string(value->type.count()) + " elements, 1 was expected"};
  const std::optional<Tensor> tensor = shape_arithmetic_.value_of(value);
  return tensor ? std::optional(tensor->as_double(0) != 0) : std::nullopt;
}

}  // namespace tcc::fx
