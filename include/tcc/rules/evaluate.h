// Evaluation of single nodes, for the interpreter and for the passes that compute at compile time.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tcc/graph/graph.h"

namespace tcc {

/// Evaluates one prim. `f64`: floats are held and computed in f64 whatever the type says (the oracle). Operands are row-major.
std::vector<Tensor> evaluate_prim(const Node& node, std::span<const Tensor> operands, bool f64);
/// Evaluates a prim or composite of static types. An undefined tensor is an absent operand. Composites run through their decomposition, prims of
/// stage `graph` are broadcast first.
std::vector<Tensor> evaluate_node(const Node& node, std::span<const Tensor> operands, bool f64);
/// The same for passes that compute at compile time: nothing where it, or a prim that it decomposes into, would take more memory or work than limits.h
/// allows there. Such a node stays in the graph.
std::optional<std::vector<Tensor>> evaluate_cheap_node(const Node& node, std::span<const Tensor> operands);

/// Whether it is a pointwise prim whose operands still broadcast implicitly.
bool broadcasts_implicitly(const Node& node);

}  // namespace tcc
