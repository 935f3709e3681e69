// The one number whose gradients are checked.
#pragma once

#include <vector>

#include "tcc/support/tensor.h"

namespace tcc {

/// The sum of all elements of the float outputs, each times that of its cotangent.
inline double weighted_sum(const std::vector<Tensor>& outputs, const std::vector<Tensor>& cotangents) {
  double sum = 0;
  size_t k = 0;
  for (const Tensor& output : outputs) {
    if (!is_float(output.dtype())) continue;
    for (int64_t i = 0; i < output.count(); ++i) sum += output.as_double(i) * cotangents[k].as_double(i);
    ++k;
  }
  return sum;
}

}  // namespace tcc
