// The formulas of optimizers as nodes, for tensors of any shape.
#pragma once

#include <vector>

#include "tcc/autograd/optimizer.h"
#include "tcc/rules/builder.h"

namespace tcc::autograd {

/// A tensor per parameter that an optimizer keeps, under torch's name of it.
struct Slot {
  const char* name;
  double fill;
};
std::vector<Slot> slots_of(const OptimizerOptions& options);
/// Whether the formulas read the number of the step.
bool counts_steps(const OptimizerOptions& options);

struct Updated {
  Value* parameter;
  std::vector<Value*> slots;
};
/// `gradient` and the slots have the type of `parameter`. `lr` and `step` (from 1; null where it is not counted) are f32[].
Updated update_rule(Builder& b, const OptimizerOptions& options, Value* parameter, Value* gradient, const std::vector<Value*>& slots,
                    Value* lr, Value* step);

}  // namespace tcc::autograd
