// Runs the units of groups, each on the graph interpreter's values, and compares what it writes with those.
#pragma once

#include <cmath>
#include <random>
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

/// The elements in another order of the axes: axis i of the result is axis `order[i]`. Empty: as they are.
inline Tensor reordered(const Tensor& tensor, const std::vector<int64_t>& order) {
  if (order.empty()) return tensor;
  const Shape from = tensor.shape(), to = in_memory(from, order);
  Tensor result(tensor.dtype(), to);
  for (int64_t i = 0; i < result.count(); ++i) {
    std::vector<int64_t> at(from.size());
    int64_t rest = i, place = 0;
    for (size_t axis = to.size(); axis-- > 0; rest /= to[axis]) at[static_cast<size_t>(order[axis])] = rest % to[axis];
    for (size_t axis = 0; axis < from.size(); ++axis) place = place * from[axis] + at[axis];
    result.set_double(i, tensor.as_double(place));
  }
  return result;
}
inline std::vector<int64_t> inverse(const std::vector<int64_t>& order) {
  std::vector<int64_t> result(order.size());
  for (size_t i = 0; i < order.size(); ++i) result[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return result;
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
    const auto order_of = [&](size_t number) { return unit.order.empty() ? std::vector<int64_t>() : unit.order[number]; };
    for (const Value* value : unit.inputs) params.push_back(reordered(tensor_of(value), order_of(params.size())));
    for (const Value* value : unit.outputs) params.emplace_back(value->type.dtype, in_memory(value->type.shape(), order_of(params.size())));
    if (text.empty()) loop::interpret(lowered, params);
    for (size_t i = 0; i < unit.outputs.size() && text.empty(); ++i) {
      const size_t number = unit.inputs.size() + i;
      const Tensor found = reordered(params[number], inverse(order_of(number)));
      const std::string difference = differences(found, values.at(unit.outputs[i]), tolerance);
      if (!difference.empty()) text += "%" + unit.outputs[i]->name + ":" + difference + "\n";
    }
    if (!text.empty()) faults << "unit " << unit.id << " \"" << unit.label << "\":\n" << text << loop::print(lowered);
  }
  return faults.str();
}

/// The same on inputs that are normal random numbers, and whether the groups' text is read back as them.
inline std::string run_on_random_inputs(const Graph& graph, const Groups& groups, Tolerance tolerance) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  std::vector<Tensor> inputs;
  for (const Value* input : graph.body.args) {
    Tensor tensor(input->type.dtype, input->type.shape());
    for (int64_t i = 0; i < tensor.count(); i++) tensor.set_double(i, normal(random));
    inputs.push_back(std::move(tensor));
  }
  std::string faults = run_units(graph, groups, inputs, tolerance), why;
  if (!equal(parse_groups(print(groups), "test", graph), groups, &why)) faults += "the text: " + why + "\n";
  return faults;
}

}  // namespace tcc::group
