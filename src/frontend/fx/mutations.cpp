// What a program changes when it runs, beside its outputs.
//
//   a buffer or parameter   state of the graph: state(@cache.keys = %t), which a library keeps between runs
//   an input                an output `new.<input>`: a library writes to no input
//
// Functional programs say it in their signature. Others write in place, which the aliases have seen; a buffer of those is known to change only when the
// whole program has been read, so nothing may take it for a constant before.
#include <algorithm>

#include "frontend/fx/importer.h"
#include "tcc/graph/rule_error.h"

namespace tcc::fx {

const InputSpec& Importer::mutated_input(const OutputSpec& output) const {
  const bool is_input = output.kind == OutputSpec::Kind::input_mutation;
  const auto found = std::find_if(program_.inputs.begin(), program_.inputs.end(), [&](const InputSpec& input) {
    // Buffers go by their dotted names, which may be those that other inputs have in the graph.
    const std::string& name = input.target.empty() ? input.name : input.target;
    return input.is_tensor && (input.kind == InputSpec::Kind::user) == is_input && name == output.target;
  });
  if (found == program_.inputs.end())
    throw RuleError{"malformed-file", "the program changes `" + output.target + "`, which is none of its " +
                                          (is_input ? "inputs" : "buffers and parameters")};
  return *found;
}

void Importer::add_mutation(const InputSpec& input, Value* value, Builder& builder) {
  const std::string& name = input.target.empty() ? input.name : input.target;
  const auto found = on_entry_.find(input.name);
  if (found == on_entry_.end()) throw RuleError{"unsupported-op", "the program changes `" + name + "`, which is not a tensor of its own"};
  const OnEntry& entry = found->second;
  if (value->type != entry.value->type) {
    throw RuleError{"type-error",
                    "`" + name + "` is " + to_string(entry.value->type) + ", the program leaves " + to_string(value->type) + " in it"};
  }
  value = guarded(value, builder);
  if (entry.is_weight) graph_->update_state(entry.value, value);
  else graph_->add_output(value, output_names_.add("new." + name));
}

/// In the order of the inputs, whoever says it.
void Importer::add_mutations() {
  const auto attempt = [&](const auto& import) { faults_.attempt(import, [&] { return faults_.file(); }, [] { return ""; }); };
  Builder builder = builder_at("outputs");
  std::unordered_map<const InputSpec*, Value*> declared;
  for (const OutputSpec& output : program_.outputs) {
    if (output.kind != OutputSpec::Kind::buffer_mutation && output.kind != OutputSpec::Kind::input_mutation) continue;
    attempt([&] {
      Value* value = output_value(output, builder);
      if (value == nullptr || !declared.emplace(&mutated_input(output), value).second)
        throw RuleError{"malformed-file", "the program changes `" + output.target + "` twice, or to nothing"};
    });
  }
  for (const InputSpec& input : program_.inputs) {
    const Slot* slot = input.is_tensor ? find(input.name) : nullptr;
    if (slot == nullptr || slot->tensor == nullptr) continue;
    const auto found = declared.find(&input);
    if (found == declared.end() && !slot->tensor->was_written()) continue;
    attempt([&] { add_mutation(input, found != declared.end() ? found->second : slot->tensor->read(builder), builder); });
  }
  if (!element_guards_.empty() && !diagnostics_.has_errors())
    diagnostics_.warning("ignored", faults_.file(),
                         "the guard that " + element_guards_[0].text + " is not checked: the program has no results with elements");
  if (graph_->body.results.empty() && graph_->state_updates.empty() && !diagnostics_.has_errors())
    diagnostics_.error("malformed-file", faults_.file(), "the program has no outputs");
}

}  // namespace tcc::fx
