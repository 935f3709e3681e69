// What a node of a captured program is that calls no operator of a table, and what it is called.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/fx/program.h"

namespace tcc::fx {

/// Says how a part of the model is run, not what it computes: (settings..., graph, operands...).
bool is_wrapper(std::string_view op);
/// A check that the framework makes when it runs; the types of every value are compared with the declared ones anyway.
bool is_assertion(std::string_view op);
/// (predicate, graph where it holds, graph where it doesn't, operands)
inline bool is_cond(std::string_view op) { return op == "hop.cond"; }
/// Of which each graph is imported as often as it runs (control.cpp).
bool is_loop(std::string_view op);
/// Calls graphs.
inline bool is_higher_order(std::string_view op) { return op.starts_with("hop."); }

/// Whether such nodes are imported: operators of the tables, and control flow, wrappers, assertions, arithmetic of sizes (check_ops.cpp).
bool is_known_op(const std::string& op);

/// With the module that called it; a node without a name is named by its operator.
std::string name_of(const ProgramNode& node);
/// Null when the argument is no graph.
const ProgramGraph* graph_of(const Argument& argument);
/// Adds the values that an argument names, those of a list in order.
void collect_names(const Argument& argument, std::vector<std::string>& names);

}  // namespace tcc::fx
