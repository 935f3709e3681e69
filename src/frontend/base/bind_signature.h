// Sizes and values that the command line gives for inputs, while a model is imported.
#pragma once

#include <string>
#include <vector>

#include "tcc/frontend/import.h"

namespace tcc {

/// What is known of the inputs, which are declared; no node is imported yet. `sizes`: further symbols that can be bound.
Bindings bindings_of(const ImportOptions& options, const Graph& signature, const std::vector<std::string>& sizes = {});

/// Applies them to a graph that has inputs and no nodes. Returns for each input that it had what stands for it now: itself with the sizes given, or a
/// constant. Errors as bind_shapes() and resolve(): a size that is not given is one of them. `help` says what can be done about it.
std::vector<Value*> bind_signature(Graph& graph, const Bindings& bindings, Diagnostics& diagnostics, const std::string& help = "");

}  // namespace tcc
