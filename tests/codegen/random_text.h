// What tests that write random units as text share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>

namespace tcc::codegen {

using Random = std::mt19937;

template <class T> T pick(Random& random, std::initializer_list<T> values) {
  return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
}

inline std::string text(int64_t number) { return std::to_string(number); }

}  // namespace tcc::codegen
