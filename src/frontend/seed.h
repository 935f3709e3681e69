// The input that random operators read.
#pragma once

#include "tcc/graph/graph.h"

namespace tcc {

/// The run-time input `seed`, i64[], behind the inputs that the model has; made when it is first asked for. RuleError when the model has another
/// value of that name.
inline Value* seed_input(Graph& graph) {
  const Type type(DType::i64, {});
  for (Value* input : graph.body.args) {
    if (input->name == "seed" && input->type == type) return input;
  }
  Value* input = graph.add_input("seed", type);
  if (input->name == "seed") return input;
  throw RuleError{"unsupported-op",
                  "random ops read an i64 that is given at run time as `seed`, but the model has another value of that name"};
}

}  // namespace tcc
