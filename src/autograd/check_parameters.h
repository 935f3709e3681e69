// Signs that an export has changed the parameters it is asked to train.
#pragma once

#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/support/diagnostics.h"

namespace tcc::autograd {

/// Warns ("merged-parameters") when parameters that train look merged or renamed, and names the remedy. `trained`: weights of the forward graph.
void check_parameters(const Graph& forward, const std::vector<const Value*>& trained, Diagnostics& diagnostics);

}  // namespace tcc::autograd
