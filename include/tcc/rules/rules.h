// The functions that the rows of ops.def name: an evaluator for each prim, a decomposition for each composite. A row whose function is missing stops
// the link.
#pragma once

#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/rules/builder.h"
#include "tcc/rules/eval.h"

namespace tcc {

/// Evaluates the prim `input.node`: one tensor per result, of make_result's dtype and shape.
using EvalRule = std::vector<Tensor> (*)(const EvalInput& input);
/// Emits what the composite `node` computes with prims and other composites; returns as many values as the node has results, of their types.
/// The operands have static types (absent ones are null); their values are not to be looked at: the shape rule calls this too, with placeholders.
using DecomposeRule = std::vector<Value*> (*)(Builder& builder, const Node& node);

#define TCC_SCALAR_CLASS(name, operands, infer_rule, eval_rule) std::vector<Tensor> eval_rule(const EvalInput& input);
#define TCC_PRIM(name, min_operands, max_operands, results, lowering, gradient, precision, infer_rule, eval_rule, attributes) \
  std::vector<Tensor> eval_rule(const EvalInput& input);
#define TCC_COMPOSITE(name, min_operands, max_operands, results, gradient, precision, infer_rule, decompose_rule, attributes) \
  std::vector<Value*> decompose_rule(Builder& builder, const Node& node);
#include "tcc/ops/ops.def"

/// The rule of an op, null for an op of another kind.
EvalRule eval_rule(Op op);
DecomposeRule decompose_rule(Op op);

/// Decomposes one composite node with a builder; returns its results. RuleError on unsupported forms.
std::vector<Value*> decompose_node(Builder& builder, const Node& node);

}  // namespace tcc
