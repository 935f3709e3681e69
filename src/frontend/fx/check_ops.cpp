// Which operators of a program are unknown, and whether its graphs become too large by standing in the place of their calls.
#include <set>

#include "frontend/base/inlining.h"
#include "frontend/fx/graph_ops.h"
#include "frontend/fx/importer.h"
#include "frontend/fx/node_kinds.h"
#include "frontend/fx/symbolic_numbers.h"

namespace tcc::fx {

namespace {

MissingOps::Remark remark_on(const std::string& op) {
  if (is_higher_order(op)) return {"unsupported-control-flow", ""};
  if (op.starts_with("aten."))
    return {"unsupported-op", "save what program.run_decompositions() returns: it writes many operators in terms of others"};
  return {"unsupported-op", "it is not one of torch's own (aten): write the model without it"};
}

/// A graph that several nodes name stands in the place of each.
void check_size_inlined(const Program& program) {
  check_inlining({&program.graph, program.name, false}, [](const InlinedBody& body) {
    std::vector<InlinedNode> nodes;
    for (const ProgramNode& node : static_cast<const ProgramGraph*>(body.at)->nodes) {
      InlinedNode& inlined = nodes.emplace_back(InlinedNode{name_of(node).size(), {}});
      for (const NamedArgument& argument : node.arguments) {
        if (const ProgramGraph* inner = graph_of(argument.argument)) inlined.bodies.push_back({inner, node.op, true});
      }
    }
    return nodes;
  });
}

}  // namespace

bool is_known_op(const std::string& op) {
  return is_graph_op(op) || is_wrapper(op) || is_cond(op) || is_loop(op) || is_assertion(op) || is_symbolic_number(op) ||
         find_handler(op).handler != nullptr;
}

void Importer::check_ops() {
  if (!faults_.attempt([&] { check_size_inlined(program_); }, [&] { return faults_.file(); })) return;
  std::set<const ProgramGraph*> seen;
  check_ops(program_.graph, seen);
  missing_ops_.report(diagnostics_, options_.report_every_node);
}

void Importer::report_missing_ops() {
  missing_ops_.report(diagnostics_, options_.report_every_node);
  faults_.checkpoint();
}

bool Importer::check_ops(const ProgramGraph& graph, std::set<const ProgramGraph*>& seen) {
  if (!seen.insert(&graph).second) return true;
  bool has_all = true;
  for (const ProgramNode& node : graph.nodes) {
    if (is_cond(node.op)) continue;  // a branch is looked at when it is taken
    for (const NamedArgument& argument : node.arguments) {
      if (const ProgramGraph* inner = graph_of(argument.argument)) has_all &= check_ops(*inner, seen);
    }
    if (is_known_op(node.op)) continue;
    has_all = false;
    const std::string text = is_higher_order(node.op) ? "higher-order operator `" + node.op.substr(4) + "`" : "operator `" + node.op + "`";
    missing_ops_.add(text, where(node), name_of(node), [&] { return remark_on(node.op); });
  }
  return has_all;
}

}  // namespace tcc::fx
