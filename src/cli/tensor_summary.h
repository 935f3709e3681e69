// A line about a tensor.
#pragma once

#include <string>

#include "tcc/support/tensor.h"

namespace tcc::cli {

struct TensorSummary {
  double min = 0, max = 0, mean = 0;
  int64_t num_nan = 0;  ///< left out of the other three
};
TensorSummary summarize(const Tensor& tensor);
std::string number_text(double value);  ///< 6 digits

}  // namespace tcc::cli
