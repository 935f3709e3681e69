// Control flow in a graph that has neither branches nor loops: sides and steps whose results are chosen, or thrown away.
#pragma once

#include <string>
#include <vector>

#include "frontend/base/shape_arithmetic.h"
#include "frontend/base/stop_gradient.h"

namespace tcc {

/// Nodes that the steps of all loops make, by those of their graphs.
inline constexpr int64_t kMaxUnrolledNodes = 1 << 15;

/// What a side sees of a value from outside that is taken only where `predicate` (bool[]) is `taken`. Gradients pass only there: those of a side that
/// isn't taken may be infinite or NaN, which no zero hides.
Value* gated_value(Builder& builder, Value* value, Value* predicate, bool taken);

/// The first of the nodes from `first_new` on that reads positions which depend on data; null when there is none. A position is checked wherever it is
/// read, so a side with one can't be computed and thrown away.
const Node* reads_unknown_positions(const Graph& graph, size_t first_new, ShapeArithmetic& shapes);

/// "the input `x`", "the inputs `x` and `y`": those whose values `value` is computed from.
std::string inputs_behind(const Value* value);

}  // namespace tcc
