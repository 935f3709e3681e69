#include "onnx/compare.h"

#include <algorithm>
#include <cmath>

namespace tcc::onnx_suite {

std::string difference(const Tensor& found, const Tensor& expected, double rtol, double atol) {
  auto type = [](const Tensor& tensor) { return std::string(name_of(tensor.dtype())) + to_string(tensor.shape()); };
  if (found.dtype() != expected.dtype() || found.shape() != expected.shape())
    return "type is " + type(found) + ", expected " + type(expected);
  // The suite's results of 16-bit floats are rounded after each step of its own: two units in the last place are within that.
  if (expected.dtype() == DType::bf16) rtol = std::max(rtol, 2 * std::ldexp(1.0, -7));
  if (expected.dtype() == DType::f16) rtol = std::max(rtol, 2 * std::ldexp(1.0, -10));
  int64_t faults = 0, first = -1;
  for (int64_t i = 0; i < expected.count(); ++i) {
    bool same = false;
    if (is_float(expected.dtype())) {
      const double a = found.as_double(i), b = expected.as_double(i);
      same = a == b || (std::isnan(a) && std::isnan(b)) || (std::isfinite(b) && std::abs(a - b) <= atol + rtol * std::abs(b));
    } else {  // the tolerance counts for integers too: 1 in 1000 of a large one
      const auto a = static_cast<double>(found.as_int64(i)), b = static_cast<double>(expected.as_int64(i));
      same = found.as_int64(i) == expected.as_int64(i) || std::abs(a - b) <= atol + rtol * std::abs(b);
    }
    if (same) continue;
    if (first < 0) first = i;
    ++faults;
  }
  if (faults == 0) return "";
  return std::to_string(faults) + " of " + std::to_string(expected.count()) + " differ, the first at " + std::to_string(first) + ": " +
         std::to_string(found.as_double(first)) + ", expected " + std::to_string(expected.as_double(first));
}

}  // namespace tcc::onnx_suite
