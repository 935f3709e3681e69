// What a model becomes when its functions are inlined, counted before anything is made.
//
//   f0 has two nodes, f1 calls f0 twice, ... f30 calls f29 twice:     2^31 nodes, in a file of 2 kB
//
// Each function is looked at once. A model that would become too large, or whose calls and subgraphs are nested too deep for the importer's recursion, is
// refused as `too-complex`.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tcc {

/// Nodes that calls may add to those that the file has, and bytes of their names, which hold those of the calls around them.
inline constexpr double kMaxInlinedNodes = 1 << 18, kMaxInlinedNameBytes = 1 << 28;
/// Calls and subgraphs in each other.
inline constexpr int kMaxNesting = 200;

/// A graph or the body of a function, where the file has it.
struct InlinedBody {
  const void* at;
  std::string name;
  bool is_function;  ///< each call of it adds nodes; a subgraph stands in the file where it is inlined
};
struct InlinedNode {
  size_t name_bytes;
  std::vector<InlinedBody> bodies;  ///< that stand in the node's place, or in its attributes
};

/// RuleError where the model is beyond a limit. `model` is its graph. A function that calls itself is no fault here: the importer reports where.
void check_inlining(const InlinedBody& model, const std::function<std::vector<InlinedNode>(const InlinedBody&)>& nodes_of);

}  // namespace tcc
