// Graphs by the interpreter, and what is known of their outputs.
#include <sstream>

#include "tcc/autograd/gradient_op.h"
#include "tcc/graph/graph.h"
#include "tcc/graph/ranges.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/reference.h"
#include "tcc/rules/verify.h"
#include "tcc/support/text.h"
#include "tools/stages.h"

namespace tcc::stages {
namespace {

std::unique_ptr<Graph> resolved(const Arguments& arguments) {
  auto graph = parse_graph(arguments.text, arguments.file, {});
  Diagnostics diagnostics;
  resolve(*graph, diagnostics, expand_gradient);
  diagnostics.checkpoint();
  require_none(verify(*graph, GraphStage::resolved), print(*graph));
  return graph;
}

std::string text_of(const Tensor& tensor) {
  std::string text;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    text += (i == 0 ? "" : ", ") + (is_float(tensor.dtype()) ? print_float(tensor.as_double(i)) : std::to_string(tensor.as_int64(i)));
  }
  return "[" + text + "]";
}

}  // namespace

std::string interpret(const Arguments& arguments) {
  const auto graph = resolved(arguments);
  std::istringstream values(arguments.flag("inputs"));
  std::vector<Tensor> inputs;
  for (const Value* input : graph->body.args) {
    Tensor& tensor = inputs.emplace_back(input->type.dtype, input->type.shape());
    std::string value;
    if (!std::getline(values, value, ',')) value = "0";
    for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_double(i, std::stod(value));
  }
  // Composites are evaluated by their decomposition: both ways give the same.
  Diagnostics diagnostics;
  const std::vector<Tensor> results = tcc::interpret(*graph, inputs, false);
  decompose(*graph, diagnostics);
  diagnostics.checkpoint();
  require_none(verify(*graph, GraphStage::prims), print(*graph));
  const std::vector<Tensor> of_prims = tcc::interpret(*graph, inputs, false);
  std::string text;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].same_bytes(of_prims[i])) throw Fault("output " + graph->output_names[i] + " of prims is " + text_of(of_prims[i]));
    text += graph->output_names[i] + ": " + std::string(name_of(results[i].dtype())) + to_string(std::span(results[i].shape())) + " = " +
            text_of(results[i]) + "\n";
  }
  return text;
}

std::string rounding(const Arguments& arguments) {
  const auto graph = parse_graph(arguments.text, arguments.file, {});
  const auto dtypes = rounding_of_outputs(*graph);
  std::string text;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    text += graph->output_names[i] + ": " + (dtypes[i] ? std::string(name_of(*dtypes[i])) : "not rounded") + "\n";
  }
  return text;
}

std::string ranges(const Arguments& arguments) {
  const auto graph = parse_graph(arguments.text, arguments.file, {});
  const auto text_of_range = [](const std::optional<IntRange>& range) {
    return range ? std::to_string(range->low) + ":" + std::to_string(range->high) + "\n" : "unknown\n";
  };
  std::string text;
  for (size_t i = 0; i < graph->body.results.size(); ++i) {
    text += graph->output_names[i] + ": " + text_of_range(known_range(graph->body.results[i]));
  }
  const auto of_inputs = input_ranges(*graph);
  for (const Value* input : graph->body.args) {
    const auto range = of_inputs.find(input);
    if (is_integer(input->type.dtype))
      text += "input " + input->name + ": " + text_of_range(range == of_inputs.end() ? std::nullopt : std::optional(range->second));
  }
  return text;
}

}  // namespace tcc::stages
