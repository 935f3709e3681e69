// A range of integers.
#pragma once

#include <cstdint>

namespace tcc {

/// Both ends included.
struct IntRange {
  int64_t low = 0, high = 0;
  bool operator==(const IntRange&) const = default;
  bool empty() const { return low > high; }
};

}  // namespace tcc
