// What `tcc verify` takes for rounding and what for a fault.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "tcc/driver/finite_differences.h"
#include "tcc/driver/tolerance.h"
#include "tcc/graph/graph.h"

namespace tcc::driver {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor row(std::initializer_list<double> values, DType dtype = DType::f32) {
  Tensor tensor(dtype, {static_cast<int64_t>(values.size())});
  int64_t i = 0;
  for (const double value : values) tensor.set_double(i++, value);
  return tensor;
}

TEST(Compare, NumbersThatAreNone) {
  const Tolerance tolerance = default_tolerance(DType::f32);
  const auto wrong = [&](double found, double expected) {
    return compare(row({found, 1}), row({expected, 1}, DType::f64), tolerance).num_wrong;
  };
  const double nan = std::nan("");
  EXPECT_EQ(wrong(nan, nan), 0);
  EXPECT_EQ(wrong(-nan, nan), 0);
  EXPECT_EQ(wrong(kInfinity, kInfinity), 0);
  EXPECT_EQ(wrong(-kInfinity, -kInfinity), 0);
  EXPECT_EQ(wrong(-0.0, 0.0), 0);
  EXPECT_EQ(wrong(kInfinity, -kInfinity), 1);
  EXPECT_EQ(wrong(kInfinity, 1), 1);
  EXPECT_EQ(wrong(1, kInfinity), 1);
  EXPECT_EQ(wrong(nan, 0), 1);
  EXPECT_EQ(wrong(0, nan), 1);
}

TEST(Compare, TheBoundIsPartOfEachElementAndOfTheLargest) {
  const Tolerance tolerance = {1e-3, 1e-5, 1e-4};
  const auto wrong = [&](double found, double expected, double largest) {
    return compare(row({found, largest}, DType::f64), row({expected, largest}, DType::f64), tolerance).num_wrong;
  };
  EXPECT_EQ(wrong(9e-6, 0, 0), 0);  // absolutely
  EXPECT_EQ(wrong(11e-6, 0, 0), 1);
  EXPECT_EQ(wrong(0.5 + 4e-4, 0.5, 0.5), 0);  // relatively
  EXPECT_EQ(wrong(0.5 + 7e-4, 0.5, 0.5), 1);
  EXPECT_EQ(wrong(9e-4, 0, 10), 0);  // in units of the largest
  EXPECT_EQ(wrong(11e-4, 0, -10), 1);
  EXPECT_EQ(wrong(11e-4, 0, kInfinity), 1);  // an infinity allows nothing
  EXPECT_EQ(to_string(tolerance), "rtol 1e-3, atol 1e-5 or 1e-4 of the largest element");
  EXPECT_EQ(to_string(default_tolerance(DType::f8e5m2)), "rtol 0.2, atol 5e-2 or 0.1 of the largest element");
  EXPECT_EQ(to_string(default_tolerance(std::nullopt)), "exact");
}

/// A product [M, K] x [K, N], in f64 and as a program in `dtype` would make it: f32 sums in another order, rounded to the dtype.
struct Product {
  int64_t m, k, n;
  std::vector<double> a, b;

  Product(int64_t m, int64_t k, int64_t n, DType dtype, bool cancels, std::mt19937& random)
      : m(m), k(k), n(n), a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n)) {
    std::normal_distribution<double> normal;
    const auto rounded = [&](double value) { return Tensor::scalar(dtype, value).as_double(0); };
    for (double& value : a) value = rounded(normal(random));
    for (double& value : b) value = rounded(normal(random));
    if (!cancels) return;
    // The second half of the terms takes away the first one, but for a hundredth, in every other column.
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t t = 0; t < k / 2; ++t) a[static_cast<size_t>(i * k + t + k / 2)] = a[static_cast<size_t>(i * k + t)];
    }
    for (int64_t t = 0; t < k / 2; ++t) {
      for (int64_t j = 0; j < n; j += 2) b[static_cast<size_t>((t + k / 2) * n + j)] = rounded(-0.99 * b[static_cast<size_t>(t * n + j)]);
    }
  }

  double term(int64_t i, int64_t t, int64_t j) const { return a[static_cast<size_t>(i * k + t)] * b[static_cast<size_t>(t * n + j)]; }
  Tensor exact() const {
    Tensor result(DType::f64, {m, n});
    for (int64_t i = 0; i < m * n; ++i) {
      double sum = 0;
      for (int64_t t = 0; t < k; ++t) sum += term(i / n, t, i % n);
      result.set_double(i, sum);
    }
    return result;
  }
  /// Without the term `dropped`, when it is one.
  Tensor computed(DType dtype, int64_t dropped = -1) const {
    Tensor result(dtype, {m, n});
    for (int64_t i = 0; i < m * n; ++i) {
      float sum = 0;
      for (int64_t t = k; t-- > 0;) {
        if (t != dropped) sum += static_cast<float>(term(i / n, t, i % n));
      }
      result.set_double(i, sum);
    }
    return result;
  }
};

Tensor copy_of(const Tensor& tensor, const std::function<int64_t(int64_t)>& from) {
  Tensor result(tensor.dtype(), tensor.shape());
  for (int64_t i = 0; i < tensor.count(); ++i) result.set_double(i, tensor.as_double(from(i)));
  return result;
}

// Rounding passes, also where sums cancel; an element in a wrong place, a term too few and a shifted row do not.
TEST(Compare, RoundingPassesAndFaultsDoNot) {
  std::mt19937 random(7);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const bool cancels : {false, true}) {
      for (int round = 0; round < 12; ++round) {
        const int64_t m = 2 + static_cast<int64_t>(random() % 9), n = 2 + static_cast<int64_t>(random() % 30);
        const int64_t k = 2 * (1 + static_cast<int64_t>(random() % (dtype == DType::f32 ? 500 : 60)));
        SCOPED_TRACE(std::string(name_of(dtype)) + (cancels ? " cancels " : " ") + std::to_string(m) + "x" + std::to_string(k) + "x" +
                     std::to_string(n));
        const Product product(m, k, n, dtype, cancels, random);
        const Tolerance tolerance = default_tolerance(dtype);
        const Tensor exact = product.exact(), computed = product.computed(dtype);
        EXPECT_EQ(compare(computed, exact, tolerance).num_wrong, 0);
        // The largest element in the place of the smallest.
        int64_t smallest = 0, largest = 0;
        for (int64_t i = 0; i < m * n; ++i) {
          if (std::abs(exact.as_double(i)) < std::abs(exact.as_double(smallest))) smallest = i;
          if (std::abs(exact.as_double(i)) > std::abs(exact.as_double(largest))) largest = i;
        }
        const Comparison misplaced = compare(copy_of(computed, [&](int64_t i) { return i == smallest ? largest : i; }), exact, tolerance);
        EXPECT_EQ(misplaced.num_wrong, 1);
        EXPECT_EQ(misplaced.worst, smallest);
        EXPECT_GT(compare(product.computed(dtype, static_cast<int64_t>(random() % static_cast<unsigned>(k))), exact, tolerance).num_wrong,
                  0);
        EXPECT_GT(compare(copy_of(computed, [&](int64_t i) { return (i + n) % (m * n); }), exact, tolerance).num_wrong, 0);
      }
    }
  }
}

std::vector<DirectionalDerivative> derivatives_of(const std::string& text, const std::vector<Tensor>& inputs) {
  return check_gradients(*parse_graph(text, "test", {}), inputs, 0, nullptr);
}

// d/de x^e = x^e log(x) is not a number for a negative x, and neither is the difference: that agrees. The other elements are held against theirs.
TEST(FiniteDifferences, NoNumberAgreesWithNoNumber) {
  const std::string head =
      "graph @g(%x: f32[4], %e: f32[4], %cotangent.y: f32[4]) -> (%y: f32[4], %grad.e: f32[4]) {\n"
      "%y: f32[4] = pow(%x, %e)\n"
      "%log: f32[4] = log(%x)\n";
  const std::vector<Tensor> inputs = {row({-2, 3, -1, 0.5}), row({2, 2, 3, 4}), row({1, 2, 3, 4})};
  const auto right = derivatives_of(head + "%a: f32[4] = mul(%y, %log)\n %grad.e: f32[4] = mul(%a, %cotangent.y)\n}", inputs);
  ASSERT_EQ(right.size(), 1U);
  EXPECT_TRUE(right[0].agrees);
  EXPECT_EQ(right[0].num_not_finite, 2);
  EXPECT_TRUE(std::isfinite(right[0].gradient) && std::isfinite(right[0].difference));
  const auto wrong = derivatives_of(head + "%grad.e: f32[4] = mul(%log, %cotangent.y)\n}", inputs);
  EXPECT_FALSE(wrong.at(0).agrees);
}

TEST(FiniteDifferences, NoNumberWhereTheFunctionIsSmoothIsWrong) {
  const auto found = derivatives_of(
      "graph @g(%x: f32[3], %cotangent.y: f32[3]) -> (%y: f32[3], %grad.x: f32[3]) {\n"
      "%y: f32[3] = mul(%x, %x)\n %l: f32[3] = log(%x)\n %two: f32[3] = add(%x, %x)\n"
      "%nothing: f32[3] = sub(%l, %l)\n %a: f32[3] = add(%two, %nothing)\n %grad.x: f32[3] = mul(%a, %cotangent.y)\n}",
      {row({1, -2, 3}), row({1, 1, 1})});
  EXPECT_FALSE(found.at(0).agrees);
}

// What a Cast rounds is a staircase; the gradient is that of the line through it.
TEST(FiniteDifferences, CastsAreNotRounded) {
  const auto found = derivatives_of(
      "graph @g(%x: f32[3], %cotangent.y: f32[3]) -> (%y: f32[3], %grad.x: f32[3]) {\n"
      "%h: bf16[3] = cast(%x) {dtype=bf16}\n %y: f32[3] = cast(%h) {dtype=f32}\n"
      "%g: bf16[3] = cast(%cotangent.y) {dtype=bf16}\n %grad.x: f32[3] = cast(%g) {dtype=f32}\n}",
      {row({1.1, -2.3, 3.7}), row({0.3, 1.7, -1.3})});
  EXPECT_TRUE(found.at(0).agrees);
}

}  // namespace
}  // namespace tcc::driver
