// What a model becomes when its functions are inlined, counted before anything is made.
//
//   f0 has two nodes, f1 calls f0 twice, ... f30 calls f29 twice:     2^31 nodes, in a file of 2 kB
//
// Each function is looked at once. A model that would become too large, or whose calls and subgraphs are nested too deep for the importer's recursion, is
// refused as `too-complex`.
#pragma once

#include <functional>

#include "frontend/onnx/proto.h"

namespace tcc::onnx {

/// Nodes that calls may add to those that the file has, and bytes of their names, which hold those of the calls around them.
inline constexpr double kMaxInlinedNodes = 1 << 18, kMaxInlinedNameBytes = 1 << 28;
/// Calls and subgraphs in each other.
inline constexpr int kMaxNesting = 200;

/// The function that a node calls; null when it is an op.
using FindFunction = std::function<const pb::FunctionProto*(const pb::NodeProto&)>;

/// RuleError where the model is beyond a limit. A function that calls itself is no fault here: the importer reports where.
void check_inlining(const pb::GraphProto& graph, const FindFunction& find);

}  // namespace tcc::onnx
