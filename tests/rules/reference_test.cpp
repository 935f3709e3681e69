// The reference that compiled code is held against rounds where the model does, and nowhere else.
#include "tcc/rules/reference.h"
#include "tcc/rules/interpret.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tcc/graph/graph.h"

namespace tcc {
namespace {

constexpr DType kNarrow[] = {DType::f16, DType::bf16, DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz};
constexpr int64_t kCount = 300;

std::string with_dtype(std::string text, DType dtype) {
  for (size_t at = 0; (at = text.find("T[", at)) != std::string::npos; at += name_of(dtype).size()) text.replace(at, 1, name_of(dtype));
  for (size_t at = 0; (at = text.find("=T}", at)) != std::string::npos; at += name_of(dtype).size())
    text.replace(at + 1, 1, name_of(dtype));
  return text;
}

std::unique_ptr<Graph> graph_of(const std::string& text, DType dtype = DType::f32) {
  return parse_graph(with_dtype(text, dtype), "test", {});
}

/// Magnitudes from far below the smallest number of a narrow float to far above its largest, both signs, and the special ones.
Tensor wide_range(DType dtype, int seed) {
  Tensor tensor(dtype, {kCount});
  std::mt19937 random(static_cast<unsigned>(seed));
  std::uniform_real_distribution<double> exponent(-30, 20), mantissa(1, 2);
  for (int64_t i = 0; i < kCount; ++i) tensor.set_double(i, (i % 2 == 0 ? 1 : -1) * mantissa(random) * std::exp2(exponent(random)));
  const double special[] = {0, -0.0, 1, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), std::nan("")};
  for (size_t i = 0; i < std::size(special); ++i) tensor.set_double(static_cast<int64_t>(i), special[i]);
  return tensor;
}

void expect_equal(const Tensor& found, const Tensor& expected) {
  ASSERT_EQ(found.shape(), expected.shape());
  for (int64_t i = 0; i < found.count(); ++i) {
    const double f = found.as_double(i), e = expected.as_double(i);
    EXPECT_TRUE(f == e || (std::isnan(f) && std::isnan(e))) << "element " << i << ": " << f << ", expected " << e;
  }
}

TEST(Reference, NarrowingCastsRound) {
  for (const DType narrow : kNarrow) {
    SCOPED_TRACE(name_of(narrow));
    const auto graph = graph_of(R"(graph @g(%x: f32[300]) -> (%y: f32[300]) {
      %n: T[300] = cast(%x) {dtype=T}
      %y: f32[300] = cast(%n) {dtype=f32}
    })",
                                narrow);
    const std::vector<Tensor> inputs = {wide_range(DType::f32, 1)};
    const Tensor found = interpret_reference(*graph, inputs)[0];
    EXPECT_EQ(found.dtype(), DType::f64);
    expect_equal(found, interpret(*graph, inputs, false)[0]);
    expect_equal(interpret(*graph, inputs, true)[0], inputs[0]);  // differences of functions need one that is not made of steps
  }
}

TEST(Reference, CastsToF32RoundOnce) {
  const auto from_f64 = graph_of("graph @g(%x: f64[300]) -> (%y: f32[300]) { %y: f32[300] = cast(%x) {dtype=f32} }");
  const std::vector<Tensor> doubles = {wide_range(DType::f64, 2)};
  expect_equal(interpret_reference(*from_f64, doubles)[0], doubles[0].cast_to(DType::f32));
  Tensor integers(DType::i64, {4});
  const int64_t values[] = {(int64_t{1} << 60) + (int64_t{1} << 36) + 1, 16777217, -3, std::numeric_limits<int64_t>::max()};
  for (int64_t i = 0; i < 4; ++i) integers.set_int64(i, values[i]);
  for (const DType to : {DType::f32, DType::f16, DType::bf16}) {
    const auto from_i64 = graph_of("graph @g(%x: i64[4]) -> (%y: T[4]) { %y: T[4] = cast(%x) {dtype=T} }", to);
    expect_equal(interpret_reference(*from_i64, {{integers}})[0], integers.cast_to(to));
  }
}

// A value that is stored in 16 bits has 16 bits, whatever it was computed in: each node is what that node alone gives.
TEST(Reference, EveryNarrowValueIsOfItsDtype) {
  for (const DType narrow : kNarrow) {
    SCOPED_TRACE(name_of(narrow));
    const auto graph = graph_of(R"(graph @g(%x: T[300], %z: T[300]) -> (%s: T[300], %p: T[300], %e: T[300], %t: T[]) {
      %s: T[300] = add(%x, %z)
      %p: T[300] = mul(%s, %z)
      %e: T[300] = tanh(%p)
      %t: T[] = reduce_sum(%e) {axes=[0]}
    })",
                                narrow);
    const std::vector<Tensor> inputs = {wide_range(narrow, 3), wide_range(narrow, 4)};
    const std::vector<Tensor> reference = interpret_reference(*graph, inputs);
    for (const Tensor& value : reference) expect_equal(value, value.cast_to(narrow));
    // A sum and a product of two narrow numbers are exact in f32: both arithmetics round the same number.
    const std::vector<Tensor> own = interpret(*graph, inputs, false);
    expect_equal(reference[0], own[0]);
    expect_equal(reference[1], own[1]);
  }
}

TEST(Reference, SinglePrecisionHasItsRangeAndNotItsRounding) {
  const auto graph = graph_of(R"(graph @g(%x: f32[4]) -> (%p: f32[4], %q: f32[4], %c: f32[]) {
    %p: f32[4] = mul(%x, %x)
    %q: f32[4] = mul(%p, %x)
    %c: f32[] = full() {dtype=f32, shape=[], value=0.1}
  })");
  Tensor x(DType::f32, {4});
  const float values[] = {1.0F + 0x1p-23F, 1e20F, 1e-30F, -1e20F};
  for (int64_t i = 0; i < 4; ++i) x.set_double(i, values[i]);
  const std::vector<Tensor> results = interpret_reference(*graph, {{x}});
  const double first = values[0];
  EXPECT_EQ(results[0].as_double(0), first * first);
  EXPECT_EQ(results[0].as_double(1), std::numeric_limits<double>::infinity());
  EXPECT_EQ(results[0].as_double(2), 0);
  EXPECT_EQ(results[1].as_double(3), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(results[2].as_double(0), 0.1F);
}

double moved(const std::string& text, DType dtype, uint64_t seed) {
  const auto graph = graph_of(text, dtype);
  std::mt19937 random(5);
  std::uniform_real_distribution<double> between(1, 2);
  Tensor x(dtype, {kCount});
  for (int64_t i = 0; i < kCount; ++i) x.set_double(i, between(random));
  const Tensor still = interpret_reference(*graph, {{x}})[0], noisy = interpret_reference(*graph, {{x}}, seed)[0];
  double largest = 0;
  for (int64_t i = 0; i < kCount; ++i)
    largest = std::max(largest, std::abs(noisy.as_double(i) - still.as_double(i)) / std::abs(still.as_double(i)));
  return largest;
}

// Noise moves what is computed by about a unit in the last place, what magnifies that by more, and what is only moved not at all.
TEST(Reference, NoiseIsAUnitInTheLastPlace) {
  const std::string once = "graph @g(%x: T[300]) -> (%y: T[300]) { %y: T[300] = mul(%x, %x) }";
  const std::string magnified = R"(graph @g(%x: T[300]) -> (%y: T[300]) {
    %a: T[300] = mul(%x, %x)
    %b: T[300] = mul(%a, %a)
    %y: T[300] = exp(%b)
  })";
  const std::string stored = "graph @g(%x: T[300]) -> (%y: T[300]) { %r: T[300] = reverse(%x) {axes=[0]}  %y: T[300] = neg(%r) }";
  for (const auto& [dtype, unit] : {std::pair{DType::f64, 0x1p-52}, {DType::f32, 0x1p-23}, {DType::f16, 0x1p-10}, {DType::bf16, 0x1p-7}}) {
    SCOPED_TRACE(name_of(dtype));
    EXPECT_GT(moved(once, dtype, 1), unit / 8);
    EXPECT_LE(moved(once, dtype, 1), 2 * unit);
    EXPECT_EQ(moved(once, dtype, 1), moved(once, dtype, 1));
    EXPECT_GT(moved(magnified, dtype, 1), 4 * unit);
    EXPECT_EQ(moved(stored, dtype, 1), 0);
  }
}

}  // namespace
}  // namespace tcc
