#include "frontend/fx/node_kinds.h"

#include <algorithm>
#include <array>

namespace tcc::fx {

namespace {

constexpr auto kWrappers =
    std::to_array<std::string_view>({"hop.wrap_with_set_grad_enabled", "hop.wrap_with_autocast", "hop.hints_wrapper", "hop.invoke_subgraph",
                                     "hop.tag_activation_checkpoint", "hop.wrap_activation_checkpoint", "hop.wrap"});

constexpr auto kAssertions = std::to_array<std::string_view>(
    {"aten._assert_tensor_metadata.default", "aten._assert_async.msg", "aten._assert_async.default", "aten._assert_scalar.default",
     "aten.sym_constrain_range.default", "aten.sym_constrain_range_for_size.default"});

constexpr auto kLoops = std::to_array<std::string_view>({"hop.map", "hop.map_impl", "hop.scan", "hop.associative_scan", "hop.while_loop"});

}  // namespace

bool is_loop(std::string_view op) { return std::ranges::find(kLoops, op) != kLoops.end(); }
bool is_wrapper(std::string_view op) { return std::ranges::find(kWrappers, op) != kWrappers.end(); }
bool is_assertion(std::string_view op) { return std::ranges::find(kAssertions, op) != kAssertions.end(); }

std::string name_of(const ProgramNode& node) {
  return (node.module.empty() ? "" : node.module + "/") + (node.name.empty() ? node.op : node.name);
}

const ProgramGraph* graph_of(const Argument& argument) {
  const auto* graph = argument.as<GraphRef>();
  return graph == nullptr ? nullptr : graph->get();
}

void collect_names(const Argument& argument, std::vector<std::string>& names) {
  if (const auto* name = argument.as<ValueName>()) names.push_back(name->name);
  if (const auto* list = argument.as<std::vector<Argument>>()) {
    for (const Argument& element : *list) collect_names(element, names);
  }
}

}  // namespace tcc::fx
