// Loops over the elements of tensors and sequences, of which there is one copy of the body each.
#include <algorithm>
#include <array>

#include "frontend/base/control_flow.h"
#include "frontend/onnx/arithmetic.h"
#include "frontend/onnx/handlers.h"

namespace tcc::onnx {
namespace {

/// What a Scan goes over and collects, along which axes and from which end.
struct Scan {
  const pb::GraphProto* body = nullptr;
  std::vector<Value*> inputs;
  std::vector<int64_t> input_axes, output_axes;
  std::vector<bool> input_reversed, output_reversed;
};

std::vector<bool> directions_of(NodeContext& node, const char* attribute, size_t count) {
  std::vector<int64_t> given = node.integers(attribute);
  if (given.empty()) given.resize(count, 0);
  std::vector<bool> reversed;
  for (const int64_t direction : given) {
    if (direction != 0 && direction != 1)
      node.refuse("malformed-file", "`" + std::string(attribute) + "` has " + std::to_string(direction) + ", 0 and 1 are known");
    reversed.push_back(direction == 1);
  }
  if (reversed.size() != count)
    node.refuse("malformed-file", "`" + std::string(attribute) + "` has " + std::to_string(reversed.size()) + " entries, expected are " +
                                      std::to_string(count));
  return reversed;
}

std::vector<int64_t> axes_of(NodeContext& node, const char* attribute, size_t count) {
  std::vector<int64_t> axes = node.integers(attribute);
  if (axes.empty()) axes.resize(count, 0);
  if (axes.size() != count)
    node.refuse("malformed-file",
                "`" + std::string(attribute) + "` has " + std::to_string(axes.size()) + " entries, expected are " + std::to_string(count));
  return axes;
}

int64_t from_front(NodeContext& node, int64_t axis, int64_t rank, const char* attribute) {
  if (axis < -rank || axis >= rank)
    node.refuse("type-error", "`" + std::string(attribute) + "` has " + std::to_string(axis) + ", rank is " + std::to_string(rank));
  return axis < 0 ? axis + rank : axis;
}

/// Checks the axes of what is gone over; the number of steps.
int64_t steps_of(NodeContext& node, Scan& scan) {
  std::optional<int64_t> steps;
  for (size_t k = 0; k < scan.inputs.size(); ++k) {
    const Type type = node.type_of(scan.inputs[k]);
    if (!type.is_static()) node.refuse("unknown-value", "the shape of what this Scan goes over is not known: " + to_string(type));
    scan.input_axes[k] = from_front(node, scan.input_axes[k], type.rank(), "scan_input_axes");
    const int64_t extent = type.shape()[static_cast<size_t>(scan.input_axes[k])];
    if (steps && *steps != extent)
      node.refuse("type-error", "a Scan goes over " + std::to_string(*steps) + " and over " + std::to_string(extent) + " elements");
    steps = extent;
  }
  if (!steps) node.refuse("malformed-file", "this Scan goes over nothing");
  if (*steps > kMaxUnrolledNodes)
    node.refuse("too-complex",
                "this Scan has " + std::to_string(*steps) + " steps, " + std::to_string(kMaxUnrolledNodes) + " at most can be unrolled");
  return *steps;
}

/// Runs the first `length` steps of those that there are; `first_step` tells them from those of other runs. Changes `states`; returns what each step
/// makes beside them, by result.
std::vector<std::vector<Value*>> run_steps(NodeContext& node, const Scan& scan, int64_t steps, int64_t length, std::vector<Value*>& states,
                                           int64_t first_step) {
  Arithmetic m(node);
  const size_t num_scanned = static_cast<size_t>(scan.body->output_size()) - states.size();
  std::vector<std::vector<Value*>> scanned(num_scanned);
  for (int64_t i = 0; i < length; ++i) {
    std::vector<Value*> operands = states;
    for (size_t k = 0; k < scan.inputs.size(); ++k)
      operands.push_back(m.element(scan.inputs[k], scan.input_reversed[k] ? length - 1 - i : i, scan.input_axes[k]));
    const std::vector<Value*> made =
        node.inline_subgraph(*scan.body, {.operands = operands, .step = first_step + i, .predicate = nullptr, .taken = true});
    std::copy_n(made.begin(), states.size(), states.begin());
    for (size_t k = 0; k < num_scanned; ++k) {
      auto& own = scanned[k];
      own.insert(scan.output_reversed[k] ? own.begin() : own.end(), made[states.size() + k]);
    }
  }
  for (auto& own : scanned) {
    for (int64_t i = length; i < steps; ++i) own.push_back(m.zeros_of(own.front()));
  }
  return scanned;
}

/// Operands: first states, then what is gone over. `first`: the number of the first state among the operands.
Scan read_scan(NodeContext& node, int first, std::vector<Value*>& states) {
  Scan scan;
  scan.body = &node.graph("body");
  const int64_t num_operands = node.num_inputs() - first, num_inputs = node.integer("num_scan_inputs");
  if (num_inputs < 1 || num_inputs > num_operands)
    node.refuse("malformed-file",
                "`num_scan_inputs` is " + std::to_string(num_inputs) + ", there are " + std::to_string(num_operands) + " operands");
  const int64_t num_states = num_operands - num_inputs;
  if (scan.body->output_size() < num_states)
    node.refuse("malformed-file", "the body has " + std::to_string(scan.body->output_size()) + " outputs, there are " +
                                      std::to_string(num_states) + " states");
  for (int i = first; i < node.num_inputs(); ++i) (i < first + num_states ? states : scan.inputs).push_back(node.in(i));
  return scan;
}

/// Opset 9 and newer: no batch, any axis.
void import_scan_of_axes(NodeContext& node) {
  std::vector<Value*> states;
  Scan scan = read_scan(node, 0, states);
  const size_t num_scanned = static_cast<size_t>(scan.body->output_size()) - states.size();
  scan.input_axes = axes_of(node, "scan_input_axes", scan.inputs.size());
  scan.output_axes = axes_of(node, "scan_output_axes", num_scanned);
  scan.input_reversed = directions_of(node, "scan_input_directions", scan.inputs.size());
  scan.output_reversed = directions_of(node, "scan_output_directions", num_scanned);
  const int64_t steps = steps_of(node, scan);
  if (steps == 0) node.refuse("unsupported-control-flow", "this Scan goes over an axis without elements, at least one was expected");
  const auto scanned = run_steps(node, scan, steps, steps, states, 0);
  for (size_t k = 0; k < states.size(); ++k) node.set(static_cast<int>(k), states[k]);
  for (size_t k = 0; k < num_scanned; ++k) {
    const int result = static_cast<int>(states.size() + k);
    if (!node.wants(result)) continue;
    const Type type = node.type_of(scanned[k][0]);
    int64_t axis = scan.output_axes[k];
    if (axis != 0) {
      if (!type.ranked) node.refuse("unknown-value", "the rank of what this Scan collects is not known");
      axis = from_front(node, axis, type.rank() + 1, "scan_output_axes");
    }
    node.set(result, Arithmetic(node).stacked(scanned[k], axis));
  }
}

/// Lengths of the sequences of a batch; all steps where they are absent.
std::vector<int64_t> lengths_of(NodeContext& node, int64_t batch, int64_t steps) {
  std::vector<int64_t> lengths(static_cast<size_t>(batch), steps);
  if (!node.has(0)) return lengths;
  const auto given = node.constant(0);
  if (!given) node.refuse("unsupported-control-flow", "the lengths of the sequences of this Scan depend on " + inputs_behind(node.in(0)));
  if (given->count() != batch)
    node.refuse("type-error", "`sequence_lens` has " + std::to_string(given->count()) + " elements, the batch " + std::to_string(batch));
  for (int64_t i = 0; i < batch; ++i) {
    lengths[static_cast<size_t>(i)] = given->as_int64(i);
    if (given->as_int64(i) < 1 || given->as_int64(i) > steps)
      node.refuse("type-error",
                  "`sequence_lens` has " + std::to_string(given->as_int64(i)) + ", 1 to " + std::to_string(steps) + " was expected");
  }
  return lengths;
}

/// Opset 8: axis 0 is the batch, axis 1 is gone over; each sequence has its length.
void import_scan_of_batch(NodeContext& node) {
  std::vector<Value*> states;
  Scan scan = read_scan(node, 1, states);
  scan.input_axes.assign(scan.inputs.size(), 1);
  scan.input_reversed = directions_of(node, "directions", scan.inputs.size());
  scan.output_reversed.assign(static_cast<size_t>(scan.body->output_size()) - states.size(), false);
  const int64_t steps = steps_of(node, scan), batch = node.type_of(scan.inputs[0]).shape()[0];
  if (steps == 0 || batch == 0) node.refuse("unsupported-control-flow", "this Scan goes over nothing, at least one element was expected");
  const std::vector<int64_t> lengths = lengths_of(node, batch, steps);
  Arithmetic m(node);
  std::vector<std::vector<Value*>> results(static_cast<size_t>(scan.body->output_size()));
  for (int64_t i = 0; i < batch; ++i) {
    Scan own = scan;
    for (Value*& input : own.inputs) input = m.element(input, i, 0);
    own.input_axes.assign(own.inputs.size(), 0);
    std::vector<Value*> own_states;
    for (Value* state : states) own_states.push_back(m.element(state, i, 0));
    const auto scanned = run_steps(node, own, steps, lengths[static_cast<size_t>(i)], own_states, i * steps);
    for (size_t k = 0; k < own_states.size(); ++k) results[k].push_back(own_states[k]);
    for (size_t k = 0; k < scanned.size(); ++k) results[states.size() + k].push_back(m.stacked(scanned[k], 0));
  }
  for (size_t k = 0; k < results.size(); ++k) node.set(static_cast<int>(k), m.stacked(results[k], 0));
}

void import_scan(NodeContext& node) { node.opset() < 9 ? import_scan_of_batch(node) : import_scan_of_axes(node); }

/// The body for each element of sequences of one length; tensors among the operands are the same for all.
void import_sequence_map(NodeContext& node) {
  const auto& body = node.graph("body");
  const size_t length = node.sequence(0).size();
  std::vector<std::vector<Value*>> results(static_cast<size_t>(body.output_size()));
  for (size_t i = 0; i < length; ++i) {
    std::vector<Value*> operands;
    for (int k = 0; k < node.num_inputs(); ++k) {
      if (node.is_list(k) && node.sequence(k).size() != length)
        node.refuse("type-error",
                    "a sequence has " + std::to_string(node.sequence(k).size()) + " elements, the first one " + std::to_string(length));
      operands.push_back(node.is_list(k) ? node.sequence(k)[i] : node.in(k));
    }
    const std::vector<Value*> made =
        node.inline_subgraph(body, {.operands = std::move(operands), .step = static_cast<int64_t>(i), .predicate = nullptr, .taken = true});
    for (size_t k = 0; k < made.size(); ++k) results[k].push_back(made[k]);
  }
  for (size_t k = 0; k < results.size(); ++k) {
    const int declared = body.output(static_cast<int>(k)).type().tensor_type().elem_type();
    if (results[k].empty() && declared == 0)
      node.refuse("unknown-value", "the sequence is empty, and the body does not declare what it makes");
    const DType dtype = results[k].empty() ? element_type_of(declared).dtype : results[k][0]->type.dtype;
    node.set_sequence(static_cast<int>(k), std::move(results[k]), dtype);
  }
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "Scan", import_scan},
    {"", "SequenceMap", import_sequence_map},
});

}  // namespace

std::span<const Handler> scan_handlers() { return kHandlers; }

}  // namespace tcc::onnx
