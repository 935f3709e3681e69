#include "cli/comparison_text.h"

#include <cstdio>
#include <span>
#include <utility>

namespace tcc::cli {

namespace {

/// Enough digits for two numbers that differ to look different.
std::string digits_text(double value, double other) {
  char text[40], of_other[40];
  for (int digits = 6; digits < 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    std::snprintf(of_other, sizeof of_other, "%.*g", digits, other);
    if (std::string(text) != of_other) {
      std::snprintf(text, sizeof text, "%.*g", digits + 2, value);  // and by how much
      break;
    }
  }
  return text;
}

std::string place_text(int64_t flat, const Shape& shape) {
  Shape index(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    index[i] = flat % shape[i];
    flat /= shape[i];
  }
  return to_string(std::span(std::as_const(index)));
}

}  // namespace

std::string describe_worst(const driver::Comparison& comparison, const Shape& shape, const std::string& whose) {
  return std::to_string(comparison.num_wrong) + " of " + std::to_string(comparison.num_elements) + " elements differ, the worst at " +
         place_text(comparison.worst, shape) + ": " + digits_text(comparison.found, comparison.expected) + ", " + whose + " " +
         digits_text(comparison.expected, comparison.found);
}

}  // namespace tcc::cli
