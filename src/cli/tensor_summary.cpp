#include "cli/tensor_summary.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace tcc::cli {

TensorSummary summarize(const Tensor& tensor) {
  TensorSummary summary;
  summary.min = std::numeric_limits<double>::infinity();
  summary.max = -summary.min;
  double sum = 0;
  const int64_t count = tensor.count();
  for (int64_t i = 0; i < count; ++i) {
    const double value = tensor.as_double(i);
    if (std::isnan(value)) {
      ++summary.num_nan;
      continue;
    }
    summary.min = std::min(summary.min, value);
    summary.max = std::max(summary.max, value);
    sum += value;
  }
  if (count == summary.num_nan) {
    summary.min = summary.max = summary.mean = std::numeric_limits<double>::quiet_NaN();
  } else {
    summary.mean = sum / static_cast<double>(count - summary.num_nan);
  }
  return summary;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";  // its sign means nothing, and depends on the machine
  if (value == 0) value = 0;            // nor does that of a zero, to a reader
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

}  // namespace tcc::cli
