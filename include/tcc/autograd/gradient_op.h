// The op `gradient`.
#pragma once

#include <vector>

#include "tcc/graph/graph.h"

namespace tcc {

class Builder;

/// Emits the derivatives that the `gradient` node asks for; resolve() takes this as its GradientRule. RuleError where something between the x and y has
/// none, or is not a float.
std::vector<Value*> expand_gradient(Builder& b, const Node& node);

}  // namespace tcc
