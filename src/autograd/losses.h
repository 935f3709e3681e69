// The built-in losses as nodes of the graph.
#pragma once

#include "tcc/autograd/autograd.h"
#include "tcc/rules/builder.h"

namespace tcc::autograd {

/// Appends the loss of `output` and adds the input `target`; gives the rank-0 loss. Error usage when the loss does not fit the output.
Value* append_loss(Builder& b, Value* output, const LossOptions& options);

}  // namespace tcc::autograd
