// Inputs and outputs of a captured program: what the signature says each is, and what the command line binds.
#include <algorithm>
#include <set>

#include "frontend/base/bind_signature.h"
#include "frontend/base/names.h"
#include "frontend/fx/arguments.h"
#include "frontend/fx/importer.h"
#include "tcc/graph/rule_error.h"

namespace tcc::fx {

void Importer::add_inputs() {
  for (const InputSpec& input : program_.inputs) {
    faults_.attempt([&] { add_input(input); }, [&] { return faults_.where(input.target.empty() ? input.name : input.target); });
  }
}

void Importer::add_input(const InputSpec& input) {
  if (input.size || input.kind == InputSpec::Kind::seed) return;  // known when sizes are bound
  if (!input.is_tensor) {
    if (input.name.empty()) return;
    const auto number = number_in(input.fixed);
    if (!number && (!input.fixed.is_none() || input.kind == InputSpec::Kind::user))
      throw RuleError{"unsupported-dtype", "input `" + input.name + "` is not a tensor"};
    return scope().set(input.name, {.tensor = nullptr, .number = number});
  }
  const auto meta = program_.graph.tensors.find(input.name);
  if (meta == program_.graph.tensors.end()) throw RuleError{"malformed-file", "the type of input `" + input.name + "` is not declared"};
  if (!meta->second.dtype) throw RuleError{"unsupported-dtype", "input `" + input.name + "` is " + meta->second.dtype_name};
  // Parameters without bytes are inputs under their own names.
  if (input.kind != InputSpec::Kind::user && weights_(input, meta->second)) return;
  Type type = Type::unranked(*meta->second.dtype);
  type.ranked = true;
  for (const SizeExpr& size : meta->second.sizes) {
    type.dims.push_back(size.op == SizeExpr::Op::constant ? Dim(size.value) : Dim(to_string(size)));
  }
  graph_->add_input(input.target.empty() ? input.name : input.target, std::move(type));
  graph_inputs_.push_back(input.name);
}

std::vector<std::string> Importer::free_sizes() const {
  std::set<std::string> free, bound;
  for (const InputSpec& input : program_.inputs) {
    if (input.size) free.merge(symbols_of(*input.size));
    if (!input.is_tensor) continue;
    for (const SizeExpr& size : program_.graph.tensors.at(input.name).sizes) bound.merge(symbols_of(size));
  }
  std::erase_if(free, [&](const std::string& symbol) { return bound.contains(symbol); });
  return {free.begin(), free.end()};
}

/// What a user could bind, where the file says it.
std::string Importer::sizes_at_capture() const {
  std::set<std::string> symbols;
  for (const InputSpec& input : program_.inputs) {
    if (input.size) symbols.merge(symbols_of(*input.size));
    if (!input.is_tensor) continue;
    for (const SizeExpr& size : program_.graph.tensors.at(input.name).sizes) symbols.merge(symbols_of(size));
  }
  std::string list;
  for (const auto& [symbol, size] : program_.hints) {
    if (symbols.contains(symbol)) list += (list.empty() ? "" : ",") + symbol + "=" + std::to_string(size);
  }
  return list.empty() ? "" : "the sizes at capture were --bind " + list;
}

void Importer::bind_inputs(Bindings bindings) {
  for (const std::string& symbol : free_sizes()) {
    const auto given = bindings.symbols.find(symbol);
    if (given == bindings.symbols.end()) continue;
    symbols_.emplace(symbol, given->second);
    bindings.symbols.erase(given);
  }
  const std::vector<Value*> values = bind_signature(*graph_, bindings, diagnostics_, sizes_at_capture());
  if (options_.is_bound != nullptr) *options_.is_bound = true;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto tensor = Alias::of_new_storage(values[i]);
    scope().set(graph_inputs_[i], {.tensor = tensor, .number = {}});
    on_entry_[graph_inputs_[i]] = {values[i], false};
  }
  learn_symbols();
}

/// The sizes that the program calls by name, from those that the inputs have.
void Importer::learn_symbols() {
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
          diagnostics_.error("type-error", faults_.where(input.name),
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
      diagnostics_.error("type-error", faults_.file(),
                         "the size `" + symbol + "` is " + std::to_string(found->second) + ", the program was captured for " +
                             (range.low ? std::to_string(*range.low) : "any") + " to " +
                             (range.high ? std::to_string(*range.high) : "any"));
    }
  }
}

void Importer::add_weights() {
  for (const InputSpec& input : program_.inputs) {
    const auto where = [&] { return faults_.where(input.target.empty() ? input.name : input.target); };
    if (input.size) faults_.attempt([&] { add_size(input); }, where);
    if (!input.is_tensor || input.kind == InputSpec::Kind::user || scope().has_own(input.name)) continue;
    faults_.attempt([&] { add_weight(input); }, where);
  }
}

void Importer::add_size(const InputSpec& input) {
  const auto value = evaluate(*input.size);
  if (!value) throw RuleError{"unbound-size", "the size `" + to_string(*input.size) + "` is not bound"};
  scope().set(input.name, {.tensor = nullptr, .number = *value});
}

void Importer::add_weight(const InputSpec& input) {
  if (input.kind == InputSpec::Kind::seed)
    return scope().set(input.name, {.tensor = Alias::of_new_storage(random_ops_.seed()), .number = {}});
  const TensorMeta& meta = program_.graph.tensors.at(input.name);
  const Tensor tensor = *weights_(input, meta);
  Shape declared;
  for (const SizeExpr& size : meta.sizes) declared.push_back(evaluate(size).value_or(-1));
  if (tensor.dtype() != *meta.dtype || tensor.shape() != declared) {
    throw RuleError{"type-error", "the weight is " + to_string(Type(tensor.dtype(), tensor.shape())) + ", declared is " +
                                      std::string(tcc::name_of(*meta.dtype)) + to_string(std::span(declared))};
  }
  // Only what the signature calls a parameter is one: the rest is never trained.
  const bool is_parameter = input.kind == InputSpec::Kind::parameter;
  Value* weight = graph_->add_weight(input.target, tensor, is_parameter);
  weight->weight->is_buffer = input.kind == InputSpec::Kind::buffer;
  scope().set(input.name, {.tensor = Alias::of_new_storage(weight), .number = {}});
  on_entry_[input.name] = {weight, true};
}

void Importer::add_outputs() {
  Builder builder = builder_at("outputs");
  for (const OutputSpec& output : program_.outputs) {
    faults_.attempt([&] { add_output(output, builder); }, [&] { return faults_.file(); });
  }
}

void Importer::add_output(const OutputSpec& output, Builder& builder) {
  if (output.kind == OutputSpec::Kind::buffer_mutation || output.kind == OutputSpec::Kind::input_mutation) return;  // mutations.cpp
  Value* value = output_value(output, builder);
  if (value == nullptr) return;
  const auto* named = output.value.as<ValueName>();
  std::string name = named != nullptr ? named->name : "output_" + std::to_string(graph_->body.results.size());
  if (!output.target.empty()) name = "grad." + output.target;
  if (!output.name.empty()) name = output.name;
  graph_->add_output(guarded(value, builder), output_names_.add(name));
}

/// Null for None.
Value* Importer::output_value(const OutputSpec& output, Builder& builder) {
  if (output.value.is_none()) return nullptr;
  std::string name = "output_" + std::to_string(graph_->body.results.size());
  if (const auto* named = output.value.as<ValueName>()) {
    name = named->name;
    const Slot* slot = find(name);
    if (slot == nullptr) throw RuleError{"malformed-file", "output `" + name + "` is made by no node and is not an input"};
    if (slot->tensor != nullptr) return slot->tensor->read(builder);
    if (slot->number) return builder.full_int(DType::i64, {}, static_cast<int64_t>(to_double(*slot->number)));
  } else if (const auto number = number_in(output.value)) {
    return std::holds_alternative<double>(*number) ? builder.full(DType::f32, {}, to_double(*number))
                                                   : builder.full_int(DType::i64, {}, static_cast<int64_t>(to_double(*number)));
  }
  throw RuleError{"unsupported-dtype", "output `" + name + "` is not a tensor"};
}

}  // namespace tcc::fx
