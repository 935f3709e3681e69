// Divisions of sizes that round up.
#pragma once

#include <type_traits>

namespace tcc {

/// Pieces of that size that cover the whole, the last one perhaps in part. For a whole of 0 or more and pieces of 1 or more.
template <class Whole, class Piece> constexpr std::common_type_t<Whole, Piece> ceil_div(Whole whole, Piece piece) {
  static_assert(std::is_integral_v<Whole> && std::is_integral_v<Piece>);
  return (whole + piece - 1) / piece;
}

/// The first multiple at or above the value.
template <class Value, class Multiple> constexpr std::common_type_t<Value, Multiple> align_up(Value value, Multiple multiple) {
  return ceil_div(value, multiple) * multiple;
}

}  // namespace tcc
