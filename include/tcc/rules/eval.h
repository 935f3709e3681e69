// What the evaluator of a prim sees (src/rules/eval_*.cpp). Evaluators define the meaning of the prims: they are the oracle of tests and fold constants.
#pragma once

#include <span>
#include <vector>

#include "tcc/graph/graph.h"

namespace tcc {

/// One prim and its operands, row-major, with static shapes; pointwise operands have the shape of the result.
struct EvalInput {
  const Node& node;
  std::span<const Tensor> operands;
  bool
      f64;  ///< floats are held and computed in f64 whatever the types of the graph say: every float operand is f64, every float result must be

  const Tensor& operand(int i) const { return operands[static_cast<size_t>(i)]; }
  const Attrs& attrs() const { return node.attrs; }
  /// The dtype that result i is held in.
  DType result_dtype(int i = 0) const {
    const DType dtype = node.result(i)->type.dtype;
    return f64 && is_float(dtype) ? DType::f64 : dtype;
  }
  /// Zeros of the dtype and shape of result i.
  Tensor make_result(int i = 0) const { return Tensor(result_dtype(i), node.result(i)->type.shape()); }
};

}  // namespace tcc
