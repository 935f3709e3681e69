// Products of f32 by those of parts in bf16: kernels compute what the first form does, as exactly as multiply-adds, and with its infinities and NaN.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "check_contract.h"
#include "contract_units.h"

namespace tcc::schedule {
namespace {

/// A chip for which parts pay for sizes that can be interpreted.
Target small_chip() {
  Target target = Target::cuda_sm90a();
  target.cores = 1;
  target.second_kernel_ns = target.launch_ns = 0;
  target.bytes_per_ns *= 100;
  target.flops_per_ns /= 100;
  return target;
}

/// r = sum over `sum` of a * b, by the dims of the map and of the sum, and the indices of all three.
std::string product(const std::string& map, const std::string& sum, const std::string& a, const std::string& b, const std::string& r) {
  const auto parts = [](const std::string& text) { return std::pair(text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)); };
  const auto [extents_a, at_a] = parts(a);
  const auto [extents_b, at_b] = parts(b);
  const auto [extents_r, at_r] = parts(r);
  return "unit (%a0: f32[" + extents_a + "], %a1: f32[" + extents_b + "]) -> (%r0: f32[" + extents_r + "]) {\n  map " + map +
         " {\n    %v0: f32 = reduce sum " + sum + " {\n      %v1: f32 = load %a0[" + at_a + "]\n      %v2: f32 = load %a1[" + at_b +
         "]\n      yield mul(%v1, %v2)\n    }\n    store max(%v0, -1000.0), %r0[" + at_r + "]\n  }\n}\n";
}

TEST(CudaSplitFactors, OrdersAndAxes) {
  const std::string texts[] = {
      examples::matmul("f32", 72, 88, 104, false, true),
      examples::matmul("f32", 72, 88, 104, false, false),
      examples::matmul("f32", 72, 88, 104, true, false),
      examples::matmul("f32", 72, 88, 104, true, true),
      // a sum of several rounds, the last one half empty, and tiles with tails
      examples::matmul("f32", 136, 136, 200, false, true),
      // batches between rows and sum
      product("%b in 2, %h in 2, %i in 40, %d in 48", "%j in 72", "2,2,40,72 %b, %h, %i, %j", "2,72,2,48 %b, %j, %h, %d",
              "2,40,2,48 %b, %i, %h, %d"),
      // a sum over two axes
      product("%i in 72, %j in 80", "%b in 4, %s in 36", "4,36,72 %b, %s, %i", "4,36,80 %b, %s, %j", "72,80 %i, %j"),
      // few rows: the sides are exchanged
      product("%i in 9, %j in 136", "%k in 64", "9,64 %i, %k", "136,64 %j, %k", "9,136 %i, %j"),
  };
  for (const std::string& text : texts) {
    const std::string schedule = check(text, small_chip(), nullptr, 3);
    EXPECT_TRUE(has(schedule, "split_factors(v0, 128)") && has(schedule, "m64nNk16")) << text << schedule;
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST(CudaSplitFactors, ASumThatIsCut) {
  Target target = small_chip();
  target.cores = 8;
  const std::string schedule = check(examples::matmul("f32", 64, 64, 1024, true, false), target, nullptr, 4);
  EXPECT_TRUE(has(schedule, "split_reduce") && has(schedule, "split_factors(v0_part, 128)")) << schedule;
}

TEST(CudaSplitFactors, WhereItIsWorthIt) {
  const auto chosen = [](const std::string& text, const Target& target) { return print(choose(loop::parse_unit(text, "test"), target)); };
  const std::string large = examples::matmul("f32", 4096, 4096, 4096, false, false);
  const Target chip = Target::cuda_sm90a();
  EXPECT_TRUE(has(chosen(large, chip), "split_factors"));
  EXPECT_TRUE(has(chosen(examples::matmul("f32", 768, 768, 8192, true, false), chip), "split_factors(v0_part, 128)"));
  EXPECT_FALSE(has(chosen(examples::matmul("f32", 256, 256, 256, false, false), chip), "split_factors"));
  EXPECT_FALSE(has(chosen(examples::matmul("f32", 16, 4096, 4096, false, true), chip), "split_factors"));  // the weights are read once
  EXPECT_FALSE(has(chosen(large, Target::cuda_sm80()), "split_factors"));
  Target exact = chip, rounded = chip;
  exact.split_f32 = false;
  rounded.allow_tf32 = true;
  EXPECT_FALSE(has(chosen(large, exact), "split_factors"));
  EXPECT_TRUE(has(chosen(large, rounded), "m64nNk8") && !has(chosen(large, rounded), "split_factors"));
}

/// What the chosen kernels and the first form make of the same factors.
struct Results {
  Tensor expected, actual;
};
Results results_of(const std::string& text, const std::vector<float>& a, const std::vector<float>& b) {
  const loop::Unit unit = loop::parse_unit(text, "test");
  const Target target = small_chip();
  std::vector<loop::BufferRef> temporaries;
  const std::vector<loop::Kernel> kernels = split_kernels(apply(unit, choose(unit, target), target), target, &temporaries);
  EXPECT_EQ(kernels.size(), 3U);
  std::vector<Tensor> expected = make_params(unit), actual = make_params(unit);
  for (std::vector<Tensor>* params : {&expected, &actual}) {
    std::copy(a.begin(), a.end(), (*params)[0].mutable_data<float>());
    std::copy(b.begin(), b.end(), (*params)[1].mutable_data<float>());
  }
  loop::interpret(unit, expected);
  run(unit, kernels, temporaries, actual, interpret_kernel);
  return {expected.back(), actual.back()};
}

TEST(CudaSplitFactors, AsExactAsMultiplyAdds) {
  constexpr int kRows = 48, kColumns = 40, kLength = 264;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> a(kRows * kLength), b(kLength * kColumns);
  for (float& x : a) x = normal(random) * std::ldexp(1.0F, static_cast<int>(random() % 9) - 4);
  for (float& x : b) x = normal(random);
  const auto [expected, actual] = results_of(examples::matmul("f32", kRows, kColumns, kLength, false, false), a, b);
  double error = 0, fma_error = 0;
  for (int i = 0; i < kRows; i++) {
    for (int j = 0; j < kColumns; j++) {
      double exact = 0, magnitude = 0;
      float sum = 0;
      for (int k = 0; k < kLength; k++) {
        const float x = a[static_cast<size_t>(i * kLength + k)], y = b[static_cast<size_t>(k * kColumns + j)];
        exact += static_cast<double>(x) * y;
        magnitude += std::abs(static_cast<double>(x) * y);
        sum = std::fma(x, y, sum);
      }
      const double off = std::abs(actual.as_double(i * kColumns + j) - exact);
      EXPECT_LT(off, magnitude * std::ldexp(1.0, -20)) << i << " " << j;
      error += off * off;
      fma_error += (sum - exact) * (sum - exact);
    }
  }
  EXPECT_LT(error, fma_error);
}

/// Whether a result is right beside one of multiply-adds, for terms and factors whose magnitudes add up to so much.
bool is_right(double actual, double expected, double terms, double factors) {
  if (!std::isfinite(expected)) return std::isnan(expected) ? std::isnan(actual) : actual == expected;
  return std::abs(actual - expected) <= terms * std::ldexp(1.0, -20) + factors * std::ldexp(1.0, -134);
}

TEST(CudaSplitFactors, Extremes) {
  constexpr int kRows = 40, kColumns = 40, kLength = 136;
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  const float extremes[] = {kInfinity,
                            -kInfinity,
                            kNan,
                            std::bit_cast<float>(0x7f800001U),
                            std::numeric_limits<float>::max(),
                            -std::numeric_limits<float>::max(),
                            std::ldexp(1.0F, 127),
                            std::numeric_limits<float>::min(),
                            std::numeric_limits<float>::denorm_min(),
                            -std::ldexp(1.5F, -140),
                            std::ldexp(1.0F, -112),
                            0.0F,
                            -0.0F,
                            1.0F};
  for (uint32_t seed = 1; seed <= 6; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    // Powers of two, one extreme in a row of some: sums are exact, whatever the order, or not finite.
    std::vector<float> a(kRows * kLength), b(kLength * kColumns);
    for (float& x : a) x = random() % 3 == 0 ? 0.0F : 1.0F;
    for (float& x : b) x = random() % 4 == 0 ? 0.0F : random() % 2 == 0 ? 1.0F : -0.5F;
    for (int i = 0; i < kRows; i += 2) a[static_cast<size_t>(i * kLength) + random() % kLength] = extremes[random() % std::size(extremes)];
    for (int j = 0; j < kColumns; j += 3)
      b[random() % kLength * kColumns + static_cast<size_t>(j)] = extremes[random() % std::size(extremes)];
    const auto [expected, actual] = results_of(examples::matmul("f32", kRows, kColumns, kLength, false, false), a, b);
    for (int i = 0; i < kRows; i++) {
      for (int j = 0; j < kColumns; j++) {
        double terms = 0, factors = 0;
        for (int k = 0; k < kLength; k++) {
          const double x = a[static_cast<size_t>(i * kLength + k)], y = b[static_cast<size_t>(k * kColumns + j)];
          terms += std::abs(x * y);
          factors += std::abs(x) + std::abs(y);
        }
        const double is = actual.as_double(i * kColumns + j), should = expected.as_double(i * kColumns + j);
        EXPECT_TRUE(is_right(is, should, terms, factors)) << i << " " << j << ": " << is << ", expected " << should;
      }
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tcc::schedule
