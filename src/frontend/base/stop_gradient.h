// What detach() and regions without gradients mean in a graph that is differentiated later.
#pragma once

#include "tcc/rules/builder.h"

namespace tcc {

/// The same bits, through which no gradient passes: read as integers and back. Inference folds that away.
Value* stop_gradient(Builder& b, Value* x);

}  // namespace tcc
