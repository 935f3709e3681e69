#include "frontend/base/random_ops.h"
#include "tcc/graph/rule_error.h"

namespace tcc {

Value* RandomOps::seed() {
  const Type type(DType::i64, {});
  for (Value* input : graph_.body.args) {
    if (input->name == "seed" && input->type == type) return input;
  }
  Value* input = graph_.add_input("seed", type);
  if (input->name == "seed") return input;
  throw RuleError{"unsupported-op",
                  "random ops read an i64 that is given at run time as `seed`, but the model has another value of that name"};
}

}  // namespace tcc
