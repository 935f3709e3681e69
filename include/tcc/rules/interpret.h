// The interpreter of graphs.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tcc/graph/graph.h"

namespace tcc {

/// Runs a resolved or prims graph on `inputs` (in order; dtypes and shapes must match). Composites run through their decomposition.
/// `f64`: floats in f64; outputs of float type are then f64 tensors. `observe` (may be null) sees every value computed, in order.
std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs, bool f64,
                              const std::function<void(const Value&, const Tensor&)>& observe = nullptr);

}  // namespace tcc
