#include "frontend/fx/rebuilt.h"

#include <algorithm>

#include "frontend/fx/arguments.h"
#include "frontend/fx/importer.h"
#include "tcc/autograd/pullback.h"
#include "tcc/rules/limits.h"
#include "tcc/support/diagnostics.h"

namespace tcc::fx {

Rebuilt::Rebuilt(Call& call, std::string_view op) : call_(call) {
  node_.op = "aten." + std::string(op);
  const HandlerMatch match = find_handler(node_.op);
  if (match.handler == nullptr) internal_error("`" + node_.op + "`, which is to be rebuilt, is in no table");
  for (const Parameter& parameter : match.signature->parameters) {
    const auto given = std::find_if(call.arguments_.begin(), call.arguments_.end(),
                                    [&](const auto& argument) { return argument.first == parameter.name; });
    if (given != call.arguments_.end()) set(parameter.name, passed(*given->second, parameter.name));
  }
}

/// Tensors get the name of the argument, and numbers that have names become numbers.
Argument Rebuilt::passed(const Argument& argument, const std::string& name) {
  if (const auto number = call_.number_of(argument)) {
    return std::visit([](auto value) { return Argument{value}; }, *number);
  }
  if (const auto* list = argument.as<std::vector<Argument>>()) {
    std::vector<Argument> elements;
    for (const Argument& element : *list) elements.push_back(passed(element, name + "." + std::to_string(elements.size())));
    return {std::move(elements)};
  }
  const auto* tensor = argument.as<ValueName>();
  if (tensor == nullptr) return argument;
  const Slot* slot = call_.importer_.find(tensor->name);
  if (slot == nullptr || slot->tensor == nullptr) call_.wrong(name, "a tensor");
  Value* value = slot->tensor->read(call_.build());
  tensors_[name] = {value->type, value};
  return {ValueName{name}};
}

void Rebuilt::set(std::string_view name, Argument value) {
  const auto known = std::find_if(node_.arguments.begin(), node_.arguments.end(), [&](const auto& given) { return given.name == name; });
  if (known != node_.arguments.end()) known->argument = std::move(value);
  else node_.arguments.push_back({std::string(name), std::move(value)});
}

void Rebuilt::set(std::string_view name, Value* tensor) {
  tensors_[std::string(name)] = {tensor->type, tensor};
  set(name, Argument{ValueName{std::string(name)}});
}

void Rebuilt::set_unread(std::string_view name, Type type) {
  check_size(type);
  tensors_[std::string(name)] = {std::move(type), nullptr};
  set(name, Argument{ValueName{std::string(name)}});
}

void Rebuilt::save(size_t result, Value* value) { saved_.push_back({result, value}); }

std::vector<Value*> Rebuilt::gradients(const std::vector<Cotangent>& cotangents, const std::vector<std::string>& of) {
  Graph forward("forward");
  Builder inner(forward, forward.body, call_.build().loc());
  Pullback pullback;
  pullback.loc = call_.build().loc();
  std::map<std::string, Value*> operands;
  for (const auto& [name, operand] : tensors_) {
    operands[name] = forward.add_input(name, operand.type);
    pullback.inputs.push_back(operand.value);
  }
  for (const std::string& name : of) {
    if (!operands.contains(name)) Call::refuse("malformed-file", "`" + name + "`, which gradients are asked for, is None");
    pullback.wrt.push_back(operands[name]->name);
  }
  const std::vector<std::vector<Value*>> results = call_.importer_.import_apart(inner, node_, operands);
  const auto result_at = [&](size_t i) {
    Value* value = i < results.size() && results[i].size() == 1 ? results[i][0] : nullptr;
    if (value == nullptr) internal_error("`" + node_.op + "`, rebuilt, has no result " + std::to_string(i));
    return value;
  };
  for (const auto& [result, value] : saved_) {
    Value* computed = result_at(result);
    if (shape_of(computed) != shape_of(value))
      Call::refuse("type-error", "what was saved is " + to_string(value->type) + ", the forward pass makes " + to_string(computed->type));
    Value* input = forward.add_input("saved." + std::to_string(result), computed->type);
    pullback.saved[computed->name] = input->name;
    pullback.inputs.push_back(call_.build().cast(value, computed->type.dtype));
  }
  for (const auto& [result, value] : cotangents) {
    Value* computed = result_at(result);
    if (shape_of(computed) != shape_of(value))
      Call::refuse("type-error", "a gradient is " + to_string(value->type) + ", what it is of " + to_string(computed->type));
    forward.add_output(computed, "y" + std::to_string(result));
    pullback.cotangents.push_back(call_.build().cast(value, computed->type.dtype));
  }
  return append_pullback(call_.build(), forward, pullback);
}

std::vector<Value*> Rebuilt::gradients(const std::vector<Cotangent>& cotangents, const std::vector<std::string>& of,
                                       const std::vector<int64_t>& mask) {
  if (mask.size() != of.size())
    Call::refuse("malformed-file", "the mask has " + std::to_string(mask.size()) + " elements, expected is " + std::to_string(of.size()));
  std::vector<std::string> wanted;
  for (size_t i = 0; i < of.size(); ++i) {
    if (mask[i] != 0) wanted.push_back(of[i]);
  }
  const std::vector<Value*> found = gradients(cotangents, wanted);
  std::vector<Value*> results;
  for (size_t i = 0, next = 0; i < of.size(); ++i) results.push_back(mask[i] != 0 ? found.at(next++) : nullptr);
  return results;
}

}  // namespace tcc::fx
