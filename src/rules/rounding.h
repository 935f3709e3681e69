// What rounds, for the reference (tcc/rules/reference.h).
#pragma once

#include "tcc/graph/graph.h"

namespace tcc {

/// Binary digits of a float's significand.
int digits_of(DType dtype);
/// Whether every element of the results is an element of an operand, or follows from some without any rounding.
bool only_chooses(const Node& node);

}  // namespace tcc
