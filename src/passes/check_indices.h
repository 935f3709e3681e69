// Indices that are known when compiling.
#pragma once

#include <functional>

#include "tcc/graph/graph.h"

namespace tcc {

/// RuleError "index-out-of-range" when `node` gathers or scatters by indices that `known` has (null: not known) and one of them lies outside of the axis it
/// addresses. Negative ones count from the end. Types are static.
void check_indices(const Node& node, const std::function<const Tensor*(const Value*)>& known);

}  // namespace tcc
