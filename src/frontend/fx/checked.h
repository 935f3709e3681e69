// Arithmetic of sizes. RuleError "type-error" when a result doesn't fit an i64, or a size is divided by zero.
#pragma once

#include <cstdint>
#include <limits>

#include "tcc/graph/graph.h"
#include "tcc/graph/rule_error.h"

namespace tcc::fx {

[[noreturn]] inline void too_large() { throw RuleError{"type-error", "a size doesn't fit a 64-bit integer"}; }

inline int64_t plus(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) too_large();
  return result;
}

inline int64_t minus(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_sub_overflow(a, b, &result)) too_large();
  return result;
}

inline int64_t times(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) too_large();
  return result;
}

/// Rounds towards minus infinity.
inline int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) throw RuleError{"type-error", "a size is divided by zero"};
  if (b == -1 && a == std::numeric_limits<int64_t>::min()) too_large();
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

/// Has the sign of the divisor.
inline int64_t modulo(int64_t a, int64_t b) { return b == -1 ? 0 : a - floor_div(a, b) * b; }

/// Of a natural exponent.
inline int64_t power(int64_t a, int64_t b) {
  if (b < 0 || b > 63) too_large();
  int64_t result = 1;
  for (; b > 0; --b) result = times(result, a);
  return result;
}

}  // namespace tcc::fx
