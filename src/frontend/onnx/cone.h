// The part of a graph that one value is computed from.
#pragma once

#include <memory>

#include "tcc/graph/graph.h"

namespace tcc::onnx {

/// A graph with one output, `value`, of the nodes that it depends on, their weights, and the inputs they read, by their names. What is read for its shape
/// alone, and has a constant one, is an input of that type: the cost is that of the shape arithmetic, not of the model before it.
std::unique_ptr<Graph> cone_of(const Graph& graph, Value* value);

}  // namespace tcc::onnx
