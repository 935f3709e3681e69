#include "tcc/driver/tolerance.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "tcc/support/diagnostics.h"

namespace tcc::driver {

namespace {

bool same(double found, double expected) { return found == expected || (std::isnan(found) && std::isnan(expected)); }

/// "0.2", "1e-4": an exponent as it is written by hand.
std::string short_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value >= 0.1 || value == 0 ? "%.3g" : "%.2e", value);
  std::string result = text;
  const size_t exponent = result.find('e');
  if (exponent == std::string::npos) return result;
  std::string mantissa = result.substr(0, exponent);
  while (mantissa.back() == '0') mantissa.pop_back();
  if (mantissa.back() == '.') mantissa.pop_back();
  return mantissa + "e" + std::to_string(std::stoi(result.substr(exponent + 1)));
}

}  // namespace

// Powers of ten near a few hundred units in the last place (f64, f32), near ten (16 bits) and near two (8 bits). A deep network's largest element carries
// up to some fifty units of f32; 2e-5 of it is 170.
Tolerance default_tolerance(std::optional<DType> rounding) {
  if (!rounding) return {};
  switch (*rounding) {
    case DType::f64: return {1e-9, 1e-12, 1e-12};
    case DType::f32: return {1e-4, 1e-5, 2e-5};
    case DType::f16: return {1e-2, 1e-3, 5e-3};
    case DType::bf16: return {4e-2, 1e-2, 3e-2};
    default: return {0.2, 0.05, 0.1};
  }
}

Tolerance gradient_tolerance(std::optional<DType> rounding, double largest_of_model) {
  const Tolerance tolerance = default_tolerance(rounding);
  return {10 * tolerance.rtol, 0, tolerance.of_largest, largest_of_model / 100, 0};
}

std::string to_string(const Tolerance& tolerance) {
  if (tolerance.rtol == 0 && tolerance.atol == 0 && tolerance.of_largest == 0) return "exact";
  std::string text = "rtol " + short_text(tolerance.rtol);
  if (tolerance.atol > 0) text += ", atol " + short_text(tolerance.atol);
  if (tolerance.of_largest > 0) text += (tolerance.atol > 0 ? " or " : ", ") + short_text(tolerance.of_largest) + " of the largest element";
  return text;
}

double largest_magnitude(const Tensor& tensor) {
  double largest = 0;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const double value = std::abs(tensor.as_double(i));
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  return largest;
}

Comparison compare(const Tensor& found, const Tensor& expected, const Tolerance& tolerance) {
  if (found.shape() != expected.shape()) {
    internal_error("a result is " + tcc::to_string(std::span(found.shape())) + ", the interpreter gives " +
                   tcc::to_string(std::span(expected.shape())));
  }
  Comparison result;
  result.num_elements = found.count();
  result.largest = largest_magnitude(expected);
  const double absolute =
      std::max({tolerance.atol, tolerance.moved, tolerance.of_largest * std::max(result.largest, tolerance.least_largest)});
  double furthest = 0;
  for (int64_t i = 0; i < result.num_elements; ++i) {
    const double f = found.as_double(i), e = expected.as_double(i);
    if (same(f, e)) continue;
    double beyond = std::numeric_limits<double>::infinity();
    if (std::isfinite(f) && std::isfinite(e)) {
      const double difference = std::abs(f - e);
      result.max_absolute = std::max(result.max_absolute, difference);
      beyond = difference - (absolute + tolerance.rtol * std::abs(e));
    }
    if (!(beyond > 0)) continue;
    ++result.num_wrong;
    if (beyond > furthest || result.worst < 0) {
      furthest = beyond;
      result.worst = i;
      result.found = f;
      result.expected = e;
    }
  }
  return result;
}

}  // namespace tcc::driver
