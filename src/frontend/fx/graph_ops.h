// Operations of tcc's own graphs in a captured program: `tcc.gemm`, operands by position, attributes by name.
#pragma once

#include <memory>
#include <string>

#include "frontend/fx/importer.h"

namespace tcc::fx {

/// Whether the graphs of tcc have the operation.
bool is_graph_op(const std::string& op);
/// RuleError "malformed-file" for an attribute that the operation lacks or that is of another kind, "unsupported-op" for an operation whose
/// sizes are operands: its type is known when sizes are bound, and among torch's operators all types are known.
Attrs attributes_of(const ProgramNode& node);
Op graph_op_of(const ProgramNode& node);

/// Whether the program is a graph of tcc as it was written by --emit=fx: such operations alone, on tensors, without guards.
bool is_graph(const Program& program);
/// That graph as it was: sizes are not bound, and nothing is inferred that it doesn't say. Faults are reported, with a checkpoint.
std::unique_ptr<Graph> import_graph(const Program& program, const std::string& file, const WeightSource& weights, Diagnostics& diagnostics);

}  // namespace tcc::fx
