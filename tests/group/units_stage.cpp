// Units of prims, each run by the interpreter of loops and compared with the interpreter of graphs.
#include "run_units.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/verify.h"
#include "tools/stages.h"

namespace tcc::stages {

std::string units(const Arguments& arguments) {
  const auto graph = parse_graph(arguments.text, arguments.file, {}, true);
  require_none(verify(*graph, GraphStage::prims), print(*graph));
  group::copy_concat_pieces(*graph);
  require_none(verify(*graph, GraphStage::prims), print(*graph));
  group::GroupOptions options;
  if (arguments.flag("channels-last", "no") == "yes") options.channels_last = [](DType dtype) { return is_float(dtype); };
  const group::Groups groups = group::form_groups(*graph, options);
  require_none(group::verify(groups), print(groups));
  if (std::string why; !equal(group::parse_groups(print(groups), "groups", *graph), groups, &why)) throw Fault(why + "\n" + print(groups));
  // Small numbers: sums and products of a few are exact. Indices count up.
  const auto fill = [](const Type& type) {
    Tensor tensor(type.dtype, type.shape());
    for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_double(i, static_cast<double>(is_float(type.dtype) ? i % 5 - 2 : i));
    return tensor;
  };
  std::vector<Tensor> inputs;
  for (const Value* input : graph->body.args) inputs.push_back(fill(input->type));
  for (const auto& weight : graph->weights()) weight->tensor = fill(graph->find_weight(weight->name)->type);
  const double tolerance = std::stod(arguments.flag("tolerance", "0"));
  if (const std::string faults = group::run_units(*graph, groups, inputs, {tolerance, tolerance}); !faults.empty())
    throw Fault(faults + print(groups));
  return print(groups);
}

}  // namespace tcc::stages
