// Runs the units of groups, each on the graph interpreter's values, and compares what it writes with those.
#pragma once

#include <cmath>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#include "tcc/group/group.h"
#include "tcc/rules/interpret.h"

namespace tcc::group {

struct Tolerance {
  double relative = 0, absolute = 0;
};

/// The first elements that differ, as text; empty when all agree.
inline std::string differences(const Tensor& found, const Tensor& expected, Tolerance tolerance) {
  std::ostringstream text;
  int reported = 0;
  for (int64_t i = 0; i < expected.count() && reported < 3; ++i) {
    const double a = found.as_double(i), b = expected.as_double(i);
    if (a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance.absolute + tolerance.relative * std::abs(b)) continue;
    text << " [" << i << "] is " << a << ", expected " << b << ";";
    ++reported;
  }
  return text.str();
}

/// Every fault of the groups and of the first forms, and every difference; empty when all is well.
inline std::string run_units(const Graph& graph, const Groups& groups, const std::vector<Tensor>& inputs, Tolerance tolerance) {
  std::ostringstream faults;
  for (const std::string& fault : verify(groups)) faults << fault << "\n";
  std::unordered_map<const Value*, Tensor> values;
  for (size_t i = 0; i < inputs.size(); ++i) values[graph.body.args[i]] = inputs[i];
  interpret(graph, inputs, false, [&](const Value& value, const Tensor& tensor) { values[&value] = tensor; });
  auto tensor_of = [&](const Value* value) { return value->kind == Value::Kind::weight ? value->weight->tensor : values.at(value); };
  for (const Unit& unit : groups.units) {
    const loop::Unit lowered = lower(graph, unit);
    std::string text;
    for (const std::string& fault : loop::verify_first_form(lowered)) text += fault + "\n";
    std::vector<Tensor> params;
    for (const Value* value : unit.inputs) params.push_back(tensor_of(value));
    for (const Value* value : unit.outputs) params.emplace_back(value->type.dtype, value->type.shape());
    if (text.empty()) loop::interpret(lowered, params);
    for (size_t i = 0; i < unit.outputs.size() && text.empty(); ++i) {
      const std::string difference = differences(params[unit.inputs.size() + i], values.at(unit.outputs[i]), tolerance);
      if (!difference.empty()) text += "%" + unit.outputs[i]->name + ":" + difference + "\n";
    }
    if (!text.empty()) faults << "unit " << unit.id << " \"" << unit.label << "\":\n" << text << loop::print(lowered);
  }
  return faults.str();
}

}  // namespace tcc::group
