// Sums of many terms, as units are scheduled and compiled for the host, against long double: the error grows like the logarithm of the number of terms, whatever
// lies side by side in memory, whether the addends are all the same or not.
#include <gtest/gtest.h>

#include <cmath>

#include "host_unit.h"

namespace tcc::codegen {
namespace {

using Real = long double;

/// [outer, n, inner] summed over n.
struct Sums {
  int64_t outer, n, inner;
};

std::string shape_text(const Sums& s) {
  return "[" + std::to_string(s.outer) + ", " + std::to_string(s.n) + ", " + std::to_string(s.inner) + "]";
}

/// `second`: the sum of the squared distances from the first sum's mean, as a variance.
std::string unit_text(const Sums& s, bool second) {
  const std::string n = std::to_string(s.n);
  std::string text = "unit (%a0: f32" + shape_text(s) + ") -> (%r0: f32[" + std::to_string(s.outer) + ", " + std::to_string(s.inner) +
                     "]) { map %i in " + std::to_string(s.outer) + ", %j in " + std::to_string(s.inner) +
                     " {\n%s: f32 = reduce sum %k in " + n + " { %x: f32 = load %a0[%i, %k, %j]\nyield %x }\n";
  if (!second) return text + "store %s, %r0[%i, %j] } }";
  return text + "%m: f32 = div(%s, " + n + ".0)\n%q: f32 = reduce sum %l in " + n +
         " { %y: f32 = load %a0[%i, %l, %j]\n%d: f32 = sub(%y, %m)\nyield mul(%d, %d) }\nstore %q, %r0[%i, %j] } }";
}

/// kind 0: all 0.1; 1: in [0, 1); 2: in [-1, 1); 3: about 1000.
Tensor addends(const Sums& s, int kind) {
  Tensor tensor(DType::f32, {s.outer, s.n, s.inner});
  uint32_t state = 99991;
  float* data = tensor.mutable_data<float>();
  for (int64_t i = 0; i < tensor.count(); ++i) {
    state = state * 1664525 + 1013904223;
    const float u = static_cast<float>(state >> 8) * 0x1p-24f;
    data[i] = kind == 0 ? 0.1f : kind == 1 ? u : kind == 2 ? 2 * u - 1 : 1000 + u;
  }
  return tensor;
}

void check_sums(const Sums& s, const HostUnit& unit, bool second, int kind) {
  std::vector<Tensor> params{addends(s, kind), Tensor(DType::f32, {s.outer, s.inner})};
  unit.run(params);
  const float* data = params[0].data<float>();
  for (int64_t i = 0; i < s.outer; ++i) {
    for (int64_t j = 0; j < s.inner; ++j) {
      const auto at = [&](int64_t k) { return static_cast<Real>(data[(i * s.n + k) * s.inner + j]); };
      Real sum = 0, size = 0, rest = 0;
      for (int64_t k = 0; k < s.n; ++k) {
        sum += at(k);
        size += std::fabs(at(k));
      }
      if (second) {
        const Real mean = sum / static_cast<Real>(s.n);
        Real squares = 0, largest = 0;
        for (int64_t k = 0; k < s.n; ++k) {
          squares += (at(k) - mean) * (at(k) - mean);
          largest = std::max(largest, std::fabs(at(k)));
        }
        // Each difference carries the rounding of the mean and its own: first in proportion to the deviation, then, where there is none, squared.
        size = squares + 2 * largest * std::sqrt(squares * static_cast<Real>(s.n));
        rest = static_cast<Real>(s.n) * largest * largest * 0x1p-35L;
        sum = squares;
      }
      const Real bound = 4 * 0x1p-24L * (std::log2(static_cast<Real>(s.n)) + 4) * size + rest;
      const Real got = params[1].data<float>()[i * s.inner + j];
      ASSERT_LE(std::fabs(got - sum), bound) << shape_text(s) << (second ? " squares" : "") << " of kind " << kind << " at " << i << ", "
                                             << j << ": " << got << ", exact " << sum << ", off by "
                                             << std::fabs(got - sum) / (0x1p-24L * size) << " units";
    }
  }
}

TEST(Sums, ErrorsGrowLikeALogarithm) {
  for (const Sums& s : {Sums{1, 100, 1},
                        {1, 4099, 1},
                        {1, 65536, 1},
                        {1, 1000003, 1},
                        {1, 4000000, 1},
                        {3, 200001, 1},
                        {40, 30000, 1},
                        {1, 50021, 5},
                        {1, 65536, 33},
                        {2, 30011, 7},
                        {1, 20000, 100},
                        {5, 257, 3}}) {
    for (const bool second : {false, true}) {
      const HostUnit unit(loop::parse_unit(unit_text(s, second), "test"));
      for (int kind = 0; kind < 4; ++kind) check_sums(s, unit, second, kind);
    }
  }
}

/// The items of the pool share a single sum.
TEST(Sums, AreSharedOut) {
  for (const Sums& s : {Sums{1, 4000000, 1}, {1, 1000003, 1}, {1, 300000, 8}, {2, 900000, 1}}) {
    const HostUnit unit(loop::parse_unit(unit_text(s, false), "test"));
    ASSERT_EQ(unit.num_kernels(), 2u) << shape_text(s);
    EXPECT_GE(unit.kernel(0).kernel().grid, 8) << shape_text(s);
  }
  // Not where they are many, or short.
  for (const Sums& s : {Sums{64, 100000, 1}, {1, 2000, 1}, {1, 4000, 512}})
    EXPECT_EQ(HostUnit(loop::parse_unit(unit_text(s, false), "test")).num_kernels(), 1u) << shape_text(s);
}

}  // namespace
}  // namespace tcc::codegen
