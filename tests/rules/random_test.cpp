// Random composites: against the generator's definition and published values, their moments, and what is exact (bounds, ratios of 0 and 1, seeds).

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "tcc/graph/graph.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/verify.h"
#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

Tensor seed_of(int64_t value) {
  Tensor seed(DType::i64, {});
  seed.set_int64(0, value);
  return seed;
}

/// The outputs of a graph with the input %seed last. As prims, unless they are checked against the composites anyway.
std::vector<Tensor> run(const std::string& text, int64_t seed, std::vector<Tensor> inputs = {}, bool f64 = false) {
  const auto graph = parse_graph(text, "", {});
  Diagnostics diagnostics;
  decompose(*graph, diagnostics);
  diagnostics.checkpoint();
  eliminate_common_subexpressions(*graph);
  eliminate_dead_code(*graph);
  EXPECT_EQ(verify(*graph, GraphStage::prims), std::vector<std::string>());
  inputs.push_back(seed_of(seed));
  return interpret(*graph, inputs, f64);
}

std::string random_graph(const std::string& type, const std::string& op, const std::string& attributes) {
  const std::string dtype = type.substr(0, type.find('[')), shape = type.substr(type.find('['));
  return "graph @g(%seed: i64[]) -> (%y: " + type + ") { %y: " + type + " = " + op + "(%seed) {dtype=" + dtype + ", shape=" + shape + ", " +
         attributes + "} }";
}

std::vector<double> values(const Tensor& tensor) {
  std::vector<double> all(static_cast<size_t>(tensor.count()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = tensor.as_double(static_cast<int64_t>(i));
  return all;
}

/// The mean of f over the elements.
template <class F> double mean_of(const std::vector<double>& x, F f) {
  double sum = 0;
  for (const double value : x) sum += f(value);
  return sum / static_cast<double>(x.size());
}
double mean_of(const std::vector<double>& x) {
  return mean_of(x, [](double value) { return value; });
}

double correlation(const std::vector<double>& a, const std::vector<double>& b, size_t lag = 0) {
  const double mean_a = mean_of(a), mean_b = mean_of(b);
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i + lag < a.size(); ++i) {
    const double x = a[i] - mean_a, y = b[i + lag] - mean_b;
    ab += x * y;
    aa += x * x;
    bb += y * y;
  }
  return ab / std::sqrt(aa * bb);
}

std::array<uint32_t, 2> philox2x32(std::array<uint32_t, 2> counter, uint32_t key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product = uint64_t{0xD256D193} * counter[0];
    counter = {static_cast<uint32_t>(product >> 32) ^ key ^ counter[1], static_cast<uint32_t>(product)};
    key += 0x9E3779B9;
  }
  return counter;
}

TEST(PrimsRandom, BitsAreThoseOfPhilox) {
  // The known answers that the authors publish.
  using Words = std::array<uint32_t, 2>;
  EXPECT_EQ(philox2x32({0, 0}, 0), (Words{0xff1dae59, 0x6cd10df2}));
  EXPECT_EQ(philox2x32({0xffffffff, 0xffffffff}, 0xffffffff), (Words{0x2c3f628b, 0xab4fd7ad}));
  EXPECT_EQ(philox2x32({0x243f6a88, 0x85a308d3}, 0x13198a2e), (Words{0xdd7ce038, 0xf62a4c12}));

  const int64_t seeds[] = {0, 7, 0xffffffff, (int64_t{5} << 32) + 3, -1};
  for (const int64_t seed : seeds) {
    for (const int64_t stream : {int64_t{0}, int64_t{1}, int64_t{0xfffffff0}}) {
      const std::string rest = "stream=" + std::to_string(stream);
      const Tensor words = run(random_graph("u32[3, 5]", "rng_bits", rest), seed)[0];
      const Tensor pairs = run(random_graph("u64[3, 5]", "rng_bits", rest), seed)[0];
      const uint64_t both = static_cast<uint64_t>(seed) + static_cast<uint64_t>(stream) * 0x9E3779B97F4A7C15U;
      const auto key = static_cast<uint32_t>(both), high = static_cast<uint32_t>(both >> 32);
      for (int64_t i = 0; i < 15; ++i) {
        const Words expected = philox2x32({static_cast<uint32_t>(i) + key, high}, key);
        ASSERT_EQ(words.data<uint32_t>()[i], expected[0]) << seed << " " << stream << " " << i;
        ASSERT_EQ(pairs.data<uint64_t>()[i], expected[0] | (uint64_t{expected[1]} << 32));
      }
    }
  }
  EXPECT_EQ(run(random_graph("u32[]", "rng_bits", "stream=0"), 0)[0].data<uint32_t>()[0], 0xff1dae59U);
  EXPECT_EQ(run(random_graph("u64[2, 0]", "rng_bits", "stream=0"), 0)[0].count(), 0);
}

TEST(PrimsRandom, StreamsBeyond32BitsDiffer) {
  const auto bits = [](int64_t stream) {
    return run(random_graph("u32[1]", "rng_bits", "stream=" + std::to_string(stream)), 1)[0].data<uint32_t>()[0];
  };
  EXPECT_NE(bits(2), bits(2 + (int64_t{1} << 32)));
  EXPECT_NE(bits(2 + (int64_t{1} << 32)), bits(2 + (int64_t{2} << 32)));
}

/// No tables are computed at compile time, and two ops have no node in common, whose result would be stored.
TEST(PrimsRandom, NothingIsStored) {
  const auto graph = parse_graph(R"(graph @g(%seed: i64[]) -> (%a: u32[64, 64], %b: u32[64, 64]) {
                                      %a: u32[64, 64] = rng_bits(%seed) {dtype=u32, shape=[64, 64], stream=3}
                                      %b: u32[64, 64] = rng_bits(%seed) {dtype=u32, shape=[64, 64], stream=4}
                                    })",
                                 "", {});
  Diagnostics diagnostics;
  decompose(*graph, diagnostics);
  for (int i = 0; i < 2; ++i) {
    fold_constants(*graph);
    canonicalize(*graph);
    eliminate_common_subexpressions(*graph);
  }
  for (const auto& weight : graph->weights()) EXPECT_LE(weight->tensor.count(), 1) << weight->name;
  const Node* first = graph->body.results[0]->producer;
  std::set<const Node*> seen;
  const std::function<void(const Node*)> visit = [&](const Node* node) {
    if (node == nullptr || !seen.insert(node).second) return;
    for (const Value* operand : node->operands) visit(operand->producer);
  };
  visit(first);
  const std::set<const Node*> of_first = std::exchange(seen, {});
  visit(graph->body.results[1]->producer);
  for (const Node* node : seen) {
    const Lowering lowering = info(node->op).lowering;
    if (lowering != Lowering::create && lowering != Lowering::view) { EXPECT_FALSE(of_first.contains(node)) << print(*node); }
  }
}

constexpr int64_t kRow = 1000, kCount = 100 * kRow;
// Five standard errors of a mean over kCount elements.
const double kSlack = 5 / std::sqrt(static_cast<double>(kCount));

std::vector<double> uniform(int64_t stream, int64_t seed) {
  return values(run(random_graph("f32[100, 1000]", "random_uniform", "low=0, high=1, stream=" + std::to_string(stream)), seed)[0]);
}

TEST(PrimsRandom, UniformMoments) {
  const auto x = uniform(0, 42);
  for (const double value : x) ASSERT_TRUE(value >= 0 && value < 1);
  EXPECT_NEAR(mean_of(x), 0.5, kSlack * std::sqrt(1 / 12.0));
  EXPECT_NEAR(mean_of(x, [](double v) { return (v - 0.5) * (v - 0.5); }), 1 / 12.0, kSlack * std::sqrt(1 / 180.0));
  // Every bit of the fraction, and 64 bins.
  for (int bit = 1; bit <= 24; ++bit) {
    const double ones = mean_of(x, [&](double v) { return std::fmod(std::floor(std::ldexp(v, bit)), 2); });
    EXPECT_NEAR(ones, 0.5, kSlack * 0.5) << bit;
  }
  std::array<int, 64> bins{};
  for (const double value : x) ++bins[static_cast<size_t>(value * 64)];
  double chi_square = 0;
  for (const int count : bins) chi_square += (count - kCount / 64.0) * (count - kCount / 64.0) / (kCount / 64.0);
  EXPECT_NEAR(chi_square, 63, 5 * std::sqrt(2 * 63.0));
}

TEST(PrimsRandom, NeighboursStreamsAndSeedsAreIndependent) {
  const auto x = uniform(0, 42);
  for (const size_t lag : {size_t{1}, size_t{2}, size_t{32}, size_t{kRow}}) EXPECT_LT(std::abs(correlation(x, x, lag)), kSlack) << lag;
  for (const auto& [stream, seed] : {std::pair{1, 42}, {2, 42}, {0, 43}, {1, 41}, {0, 42 + 1024}}) {
    const auto y = uniform(stream, seed);
    EXPECT_LT(std::abs(correlation(x, y)), kSlack) << stream << " " << seed;
    EXPECT_LT(std::abs(correlation(x, y, 1)), kSlack) << stream << " " << seed;
  }
  EXPECT_EQ(uniform(3, 9), uniform(3, 9));
}

TEST(PrimsRandom, UniformKeepsItsBounds) {
  for (const char* dtype : {"f16", "bf16", "f32", "f64"}) {
    const auto unit = values(run(random_graph(std::string(dtype) + "[20000]", "random_uniform", "low=0, high=1, stream=5"), 3)[0]);
    for (const double value : unit) ASSERT_TRUE(value >= 0 && value < 1) << dtype << " " << value;
    EXPECT_NEAR(mean_of(unit), 0.5, 0.012) << dtype;
    const auto shifted = values(run(random_graph(std::string(dtype) + "[20000]", "random_uniform", "low=-3, high=5, stream=5"), 3)[0]);
    for (const double value : shifted) ASSERT_TRUE(value >= -3 && value < 5) << dtype << " " << value;
    EXPECT_NEAR(mean_of(shifted), 1, 0.1) << dtype;
  }
  const std::string like =
      "graph @g(%x: i32[2, 3], %seed: i64[]) -> (%y: f16[2, 3]) { %y: f16[2, 3] = random_uniform(%seed, %x) {dtype=f16, "
      "shape=[], low=0, high=1, stream=0} }";
  EXPECT_EQ(run(like, 0, {Tensor(DType::i32, {2, 3})})[0].shape(), (Shape{2, 3}));
}

TEST(PrimsRandom, NormalMoments) {
  for (const char* dtype : {"f32", "f64", "f16", "bf16"}) {
    const auto x = values(run(random_graph(std::string(dtype) + "[100000]", "random_normal", "mean=2, scale=3, stream=1"), 11)[0]);
    const auto moment = [&](int power) { return mean_of(x, [&](double v) { return std::pow((v - 2) / 3, power); }); };
    const double rounding = std::string(dtype) == "bf16" ? 2e-3 : 0;
    EXPECT_NEAR(moment(1), 0, kSlack + rounding) << dtype;
    EXPECT_NEAR(moment(2), 1, kSlack * std::sqrt(2.0) + rounding) << dtype;
    EXPECT_NEAR(moment(3), 0, kSlack * std::sqrt(15.0) + rounding) << dtype;
    EXPECT_NEAR(moment(4), 3, kSlack * std::sqrt(96.0) + 3 * rounding) << dtype;
    EXPECT_LT(std::abs(correlation(x, x, 1)), kSlack) << dtype;
    EXPECT_NEAR(mean_of(x, [](double v) { return std::abs(v - 2) > 6 ? 1 : 0; }), std::erfc(std::sqrt(2.0)), 0.003) << dtype;
  }
  // The interpreter's f64 computes from the same numbers.
  const std::string text = random_graph("f32[1000]", "random_normal", "mean=0, scale=1, stream=1");
  const auto narrow = values(run(text, 4)[0]), wide = values(run(text, 4, {}, true)[0]);
  for (size_t i = 0; i < narrow.size(); ++i) ASSERT_NEAR(narrow[i], wide[i], 1e-5);
}

std::string dropout_graph(const std::string& dtype, const std::string& shape, double ratio, int stream = 0) {
  const std::string type = dtype + shape, mask = "bool" + shape;
  return "graph @g(%x: " + type + ", %seed: i64[]) -> (%y: " + type + ", %kept: " + mask + ") { %y: " + type + ", %kept: " + mask +
         " = dropout(%x, %seed) {ratio=" + std::to_string(ratio) + ", stream=" + std::to_string(stream) + "} }";
}

Tensor filled(DType dtype, const Shape& shape, double value) {
  Tensor tensor(dtype, shape);
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_double(i, value);
  return tensor;
}

TEST(PrimsRandom, DropoutKeepsAndScales) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    for (const double ratio : {0.1, 0.5, 0.9}) {
      const auto out = run(dropout_graph(std::string(name_of(dtype)), "[200, 100]", ratio), 5, {filled(dtype, {200, 100}, 1.5)});
      const Tensor scaled = filled(dtype, {1}, 1.5 / (1 - ratio));
      int64_t kept = 0;
      for (int64_t i = 0; i < out[0].count(); ++i) {
        const bool keeps = out[1].as_int64(i) != 0;
        kept += keeps;
        ASSERT_NEAR(out[0].as_double(i), keeps ? scaled.as_double(0) : 0, keeps ? 1e-6 : 0);
      }
      EXPECT_NEAR(static_cast<double>(kept) / 20000, 1 - ratio, 5 * std::sqrt(ratio * (1 - ratio) / 20000)) << ratio;
    }
  }
}

TEST(PrimsRandom, DropoutOfNothingAndOfAll) {
  Tensor x = filled(DType::f32, {3, 4}, 1);
  x.set_double(5, std::numeric_limits<double>::quiet_NaN());
  const auto none = run(dropout_graph("f32", "[3, 4]", 0), 5, {x});
  const auto all = run(dropout_graph("f32", "[3, 4]", 1), 5, {x});
  for (int64_t i = 0; i < 12; ++i) {
    EXPECT_EQ(none[1].as_int64(i), 1);
    EXPECT_EQ(std::isnan(none[0].as_double(i)), i == 5);
    EXPECT_EQ(all[1].as_int64(i), 0);
    EXPECT_EQ(all[0].as_double(i), 0);  // what is dropped leaves nothing, NaN included
  }
  EXPECT_EQ(run(dropout_graph("f16", "[0, 4]", 0.5), 5, {Tensor(DType::f16, {0, 4})})[0].shape(), (Shape{0, 4}));
}

TEST(PrimsRandom, DropoutDependsOnSeedAndStream) {
  const auto mask = [](int stream, int64_t seed) {
    return values(run(dropout_graph("f32", "[400]", 0.5, stream), seed, {filled(DType::f32, {400}, 1)})[1]);
  };
  EXPECT_EQ(mask(0, 1), mask(0, 1));
  EXPECT_LT(std::abs(correlation(mask(0, 1), mask(0, 2))), 0.25);
  EXPECT_LT(std::abs(correlation(mask(0, 1), mask(1, 1))), 0.25);
}

TEST(PrimsRandom, Bernoulli) {
  Tensor p(DType::f16, {4, 5000});
  const double probabilities[] = {0, 0.25, 0.875, 1};
  for (int64_t i = 0; i < p.count(); ++i) p.set_double(i, probabilities[i / 5000]);
  const auto y =
      values(run("graph @g(%p: f16[4, 5000], %seed: i64[]) -> (%y: i64[4, 5000]) { %y: i64[4, 5000] = bernoulli(%p, %seed) {dtype=i64, "
                 "stream=3} }",
                 8, {p})[0]);
  for (size_t row = 0; row < 4; ++row) {
    double ones = 0;
    for (size_t i = 0; i < 5000; ++i) {
      ASSERT_TRUE(y[row * 5000 + i] == 0 || y[row * 5000 + i] == 1);
      ones += y[row * 5000 + i];
    }
    const double expected = probabilities[row];
    EXPECT_NEAR(ones / 5000, expected, 5 * std::sqrt(expected * (1 - expected) / 5000));
  }
}

TEST(PrimsRandom, Multinomial) {
  // Weights 1 : 0 : 3 : 4, in another scale in the second row.
  Tensor logits(DType::f32, {2, 4});
  const double weights[] = {1, 0, 3, 4};
  for (int64_t i = 0; i < 8; ++i) logits.set_double(i, std::log(weights[i % 4]) + (i < 4 ? 0 : 90));
  const auto y =
      values(run("graph @g(%x: f32[2, 4], %seed: i64[]) -> (%y: i32[2, 8000]) { %y: i32[2, 8000] = multinomial(%x, %seed) {dtype=i32, "
                 "sample_size=8000, stream=0} }",
                 8, {logits})[0]);
  for (size_t row = 0; row < 2; ++row) {
    std::array<double, 4> counts{};
    for (size_t i = 0; i < 8000; ++i) counts.at(static_cast<size_t>(y[row * 8000 + i])) += 1;
    for (size_t k = 0; k < 4; ++k) {
      const double expected = weights[k] / 8;
      EXPECT_NEAR(counts[k] / 8000, expected, 5 * std::sqrt(expected * (1 - expected) / 8000)) << k;
    }
  }
}

}  // namespace
}  // namespace tcc
