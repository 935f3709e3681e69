// Softmaxes among prims, as their decomposition writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tcc/graph/alike.h"

namespace tcc {

/// exp(x - maximum) * inverse, both spread along the axes: the maximum of x there, and one over the sum of the exponentials. A row is NaN where, and only where,
/// its inverse is: a sum of exponentials of which one is 1 is neither zero nor infinite.
struct Softmax {
  Value *x, *maximum, *inverse;
  std::vector<int64_t> axes;  ///< of x, in order
};

/// The value as a softmax; what it has in common with what computed its maximum and its inverse may be computed again.
std::optional<Softmax> as_softmax(const Value* value, Alike& alike);

/// Whether rows spread along axes of x are nowhere less than the maximum there: that maximum, or the logarithm of the sum of exponentials as
/// residuals/log_sums.cpp writes it.
bool bounds_rows(const Value* rows, const Value* x, Alike& alike);

}  // namespace tcc
