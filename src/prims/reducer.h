// The folding operations of reductions, scans and windows, with their identities: one place for what max does with NaN.
//
// Floats add and multiply in f64 whatever the working dtype is, which is more exact than any order of f32 additions; max and min stay.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "tcc/support/diagnostics.h"
#include "tcc/support/dtype.h"
#include "tcc/support/extremes.h"

namespace tcc::prims {

template <class T> struct Sum {
  using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
  static Accumulator identity() { return 0; }
  static Accumulator fold(Accumulator a, Accumulator b) { return a + b; }
};
template <class T> struct Product {
  using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
  static Accumulator identity() { return 1; }
  static Accumulator fold(Accumulator a, Accumulator b) { return a * b; }
};
/// NaN wins, and the zeros are ordered. The identity is the lowest value that the dtype of the tensor holds, given by the caller for integers.
template <class T> struct Maximum {
  using Accumulator = T;
  static Accumulator fold(Accumulator a, Accumulator b) { return larger(a, b); }
};
template <class T> struct Minimum {
  using Accumulator = T;
  static Accumulator fold(Accumulator a, Accumulator b) { return smaller(a, b); }
};
template <class T> struct And {
  using Accumulator = T;
  static Accumulator fold(Accumulator a, Accumulator b) { return a & b; }
};
template <class T> struct Or {
  using Accumulator = T;
  static Accumulator fold(Accumulator a, Accumulator b) { return a | b; }
};

/// The smallest (largest) value of `dtype` in its working type T: infinities for floats, the bounds for integers, 0 and 1 for bool.
template <class T> T lowest(DType dtype) {
  if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
  else if constexpr (std::is_signed_v<T>) return static_cast<T>(-1) << (size_bits(dtype) - 1);
  else return 0;
}
template <class T> T highest(DType dtype) {
  if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::infinity();
  else if constexpr (std::is_signed_v<T>) return ~lowest<T>(dtype);
  else return dtype == DType::boolean ? T(1) : std::numeric_limits<T>::max() >> (64 - size_bits(dtype));
}

/// Calls f(Reducer, identity) for `name`: sum, prod, max, min, and, or. `dtype` is that of the tensor, not the working one.
template <class T, class F> void visit_reducer(std::string_view name, DType dtype, F&& f) {
  if (name == "sum") f(Sum<T>{}, Sum<T>::identity());
  else if (name == "prod") f(Product<T>{}, Product<T>::identity());
  else if (name == "max") f(Maximum<T>{}, lowest<T>(dtype));
  else if (name == "min") f(Minimum<T>{}, highest<T>(dtype));
  else if constexpr (std::is_integral_v<T>) {
    if (name == "and") f(And<T>{}, dtype == DType::boolean ? T(1) : static_cast<T>(~T(0)));
    else if (name == "or") f(Or<T>{}, T(0));
    else internal_error("a reduction by `" + std::string(name) + "`");
  } else {
    internal_error("a reduction by `" + std::string(name) + "` of floats");
  }
}

}  // namespace tcc::prims
