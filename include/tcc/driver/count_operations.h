#pragma once

#include "tcc/graph/graph.h"

namespace tcc::driver {

/// Arithmetic operations of one run of a graph of prims, as papers count them: two for each multiply-add of a contraction, one for each element
/// of a pointwise function and each operand of a reduction; nothing for what only moves or makes data. In floating point: a size may be large.
double count_operations(const Graph& prims);

}  // namespace tcc::driver
