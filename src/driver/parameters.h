// --parameters: values from a training in place of those that the model has.
#pragma once

#include <string>

#include "tcc/graph/graph.h"
#include "tcc/support/diagnostics.h"

namespace tcc::driver {

/// Replaces the weights of `graph` that `path` has, by name: a safetensors file as `tcc run --save-state` and `save_state` of a library write it.
/// State of the optimizer (`optimizer.*`) is left out. Parameters that the file lacks stay as they are, and a note counts and names them.
/// `graph` is as imported: nothing has been computed from its weights yet.
/// Errors (usage), all together: unknown-parameter for a name that the model lacks; invalid-argument for another dtype or shape, and for a file
/// without any parameter.
void take_parameters(Graph& graph, const std::string& path, const std::string& model, Diagnostics& diagnostics);

/// A text of prims may have weights that were computed from parameters, and would keep the old values: Error (usage) for those.
void require_unfolded(const Graph& prims, const std::string& model);

}  // namespace tcc::driver
