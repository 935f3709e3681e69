// The larger and the smaller of two values as IEEE 754 has it in `maximum` and `minimum`: NaN when either is, and -0 is less than +0. One place for
// everything that is interpreted; src/codegen/llvm/emit_extremes.cpp makes code for the same.
#pragma once

#include <cmath>
#include <type_traits>

namespace tcc {

template <class T> T larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a == b) return std::signbit(a) ? b : a;
    return a > b || a != a ? a : b;
  } else {
    return a > b ? a : b;
  }
}

template <class T> T smaller(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a == b) return std::signbit(a) ? a : b;
    return a < b || a != a ? a : b;
  } else {
    return a < b ? a : b;
  }
}

}  // namespace tcc
