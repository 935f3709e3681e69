// How far a computed tensor may be from what is expected of it, and how far it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tcc/support/dtype.h"
#include "tcc/support/tensor.h"

namespace tcc::driver {

/// |found - expected| <= rtol * |expected| + max(atol, of_largest * L), where L is the largest finite magnitude in the expected tensor. The last is what
/// sums that cancel need: their rounding is that of their terms, not of their value. NaN fits NaN, an infinity itself, and 0 fits -0.
/// `moved` is absolute too, and measured: how far the rounding of what a tensor is computed from can move it.
struct Tolerance {
  double rtol = 0, atol = 0, of_largest = 0;
  double least_largest = 0;  ///< L is at least this
  double moved = 0;
};

/// What rounding alone explains for a whole model whose values were rounded to that dtype on the way to an output (rounding_of_outputs); exact when there
/// is none.
Tolerance default_tolerance(std::optional<DType> rounding);
/// Of a gradient: ten times the relative tolerance, nothing absolute, and the largest element counts as at least a hundredth of the model's largest
/// gradient.
Tolerance gradient_tolerance(std::optional<DType> rounding, double largest_of_model);
/// "rtol 1e-4, atol 1e-5 or 2e-5 of the largest element"
std::string to_string(const Tolerance& tolerance);

/// Over elements that are finite; 0 when none is.
double largest_magnitude(const Tensor& tensor);

struct Comparison {
  int64_t num_elements = 0, num_wrong = 0;
  double max_absolute = 0;         ///< largest difference, over elements that are finite in both
  double largest = 0;              ///< largest magnitude of what is expected
  int64_t worst = -1;              ///< flat index of the element furthest beyond the tolerance
  double found = 0, expected = 0;  ///< there
};
/// `expected` may be of another dtype (f64); the shapes must be equal.
Comparison compare(const Tensor& found, const Tensor& expected, const Tolerance& tolerance);

}  // namespace tcc::driver
