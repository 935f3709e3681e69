// Weights of the model that are no parameters.
#pragma once

#include <unordered_set>

#include "tcc/graph/graph.h"

namespace tcc::autograd {

/// What batch norms remember of their inputs: the means and variances that they read.
std::unordered_set<const Value*> running_statistics(const Graph& graph);

}  // namespace tcc::autograd
