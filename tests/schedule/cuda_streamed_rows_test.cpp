// Rows between two products that are never stored: kernels compute what attention does, whatever the size, the mask and the layout, rows of nothing but -inf and
// those with NaN included.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "attention_unit.h"
#include "streamed_kernel.h"
#include "tcc/loop/streamed_rows.h"

namespace tcc::schedule {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using examples::Attention;

/// How a mask changes an element, for the reference.
using Mask = std::function<double(double x, int row, int column, double given)>;

/// The results, then the maximum of each row, then 1 / its sum.
std::array<std::vector<double>, 3> reference(const Attention& a, const Mask& mask, const std::vector<Tensor>& params) {
  const auto at = [&](const Tensor& tensor, int batch, int row, int column, int rows, int columns) {
    return tensor.as_double(a.heads_inside ? (int64_t{row} * a.batch + batch) * columns + column
                                           : (int64_t{batch} * rows + row) * columns + column);
  };
  std::vector<double> result(static_cast<size_t>(a.batch * a.rows * a.width)), maxima, inverses;
  for (int b = 0; b < a.batch; b++) {
    for (int i = 0; i < a.rows; i++) {
      std::vector<double> x(static_cast<size_t>(a.columns));
      double maximum = -kInfinity, sum = 0;
      for (int j = 0; j < a.columns; j++) {
        double s = 0;
        for (int k = 0; k < a.depth; k++) s += at(params[0], b, i, k, a.rows, a.depth) * at(params[1], b, j, k, a.columns, a.depth);
        double& element = x[static_cast<size_t>(j)];
        element = mask(s / 8, i, j, params[3].as_double(int64_t{i} * a.columns + j));
        maximum = std::isnan(element) || std::isnan(maximum) ? std::nan("") : std::max(maximum, element);
      }
      for (double& element : x) sum += element = std::exp(element - maximum);
      maxima.push_back(maximum);
      inverses.push_back(1 / sum);
      for (int d = 0; d < a.width; d++) {
        double total = 0;
        for (int j = 0; j < a.columns; j++) {
          double weight = x[static_cast<size_t>(j)] / sum;
          if (a.guarded && std::isnan(weight)) weight = 0;
          total += weight * at(params[2], b, j, d, a.columns, a.width);
        }
        result[static_cast<size_t>(a.heads_inside ? (i * a.batch + b) * a.width + d : (b * a.rows + i) * a.width + d)] = total;
      }
    }
  }
  return {result, maxima, inverses};
}

void check_attention(const Attention& a, const Mask& mask, const std::string& schedule,
                     const std::function<void(std::vector<Tensor>&)>& change = {}) {
  const loop::Unit unit = loop::parse_unit(examples::attention(a), "test");
  std::vector<Tensor> params = random_params(unit, 17);
  if (change) change(params);
  const std::array<std::vector<double>, 3> expected = reference(a, mask, params);
  std::string texts;
  ASSERT_NO_FATAL_FAILURE(run_streamed(unit, schedule, params, texts));
  const size_t results = a.statistics ? 3 : 1;
  for (size_t result = 0; result < results; result++) {
    const Tensor& found = params[params.size() - results + result];
    for (size_t i = 0; i < expected[result].size(); i++) {
      const double is = found.as_double(static_cast<int64_t>(i)), wanted = expected[result][i];
      ASSERT_TRUE(agrees(is, wanted, 0.01 + 0.01 * std::abs(wanted)))
          << "result " << result << " at " << i << ": " << is << ", expected " << wanted << "\n"
          << texts;
    }
  }
}

double no_mask(double x, int, int, double) { return x; }

TEST(CudaStreamedRows, SizesAndTiles) {
  check_attention({.rows = 64, .columns = 64}, no_mask, "");
  check_attention({.batch = 2, .rows = 70, .columns = 72}, no_mask, "stream(m, 64, 32, 2, 240, 24)");
  check_attention({.rows = 130, .columns = 40}, no_mask, "stream(m, 128, 48, 1, 240, 24)");
  check_attention({.rows = 150, .columns = 100}, no_mask, "stream(m, 192, 64, 2, 152, 24)");
  check_attention({.rows = 40, .columns = 50, .depth = 128, .width = 64}, no_mask, "");
  check_attention({.rows = 40, .columns = 50, .depth = 64, .width = 128, .heads_inside = true}, no_mask, "");
  check_attention({.batch = 3, .rows = 33, .columns = 80, .heads_inside = true, .dtype = "f16"}, no_mask, "");
}

TEST(CudaStreamedRows, Masks) {
  const auto added = [](double x, int, int, double given) { return x + given; };
  check_attention({.rows = 70, .columns = 90, .mask = "add($x, cast<f32>(load %a3[%j, $k]))"}, added, "stream(m, 64, 32, 2, 240, 24)");
  const auto causal = [](double x, int row, int column, double) { return column <= row ? x : -kInfinity; };
  check_attention({.rows = 100, .columns = 100, .mask = "select(le(index($k), index(%j)), $x, -inf)"}, causal,
                  "stream(m, 64, 32, 2, 240, 24)");
  // the first tiles of a row are nothing but -inf
  const auto later = [](double x, int row, int column, double) { return column >= row ? x : -kInfinity; };
  check_attention({.rows = 90, .columns = 90, .mask = "select(ge(index($k), index(%j)), $x, -inf)"}, later,
                  "stream(m, 64, 16, 2, 240, 24)");
}

TEST(CudaStreamedRows, WhatIsStoredOfRows) {
  const auto causal = [](double x, int row, int column, double) { return column <= row ? x : -kInfinity; };
  const std::string text = "select(le(index($k), index(%j)), $x, -inf)";
  check_attention({.batch = 2, .rows = 150, .columns = 100, .statistics = true}, no_mask, "stream(m, 192, 64, 2, 152, 24)");
  check_attention({.rows = 100, .columns = 100, .mask = text, .heads_inside = true, .statistics = true}, causal,
                  "stream(m, 64, 32, 2, 240, 24)");
  const auto some = [](double x, int row, int, double) { return row < 8 ? -kInfinity : x; };
  check_attention({.rows = 40, .columns = 40, .mask = "select(lt(index(%j), 8), -inf, $x)", .guarded = true, .statistics = true}, some, "");
}

TEST(CudaStreamedRows, RowsWithoutNumbers) {
  const auto some = [](double x, int row, int, double) { return row < 8 ? -kInfinity : x; };
  const std::string text = "select(lt(index(%j), 8), -inf, $x)";
  check_attention({.rows = 40, .columns = 40, .mask = text}, some, "stream(m, 64, 16, 2, 240, 24)");
  check_attention({.rows = 40, .columns = 40, .mask = text, .guarded = true}, some, "stream(m, 64, 16, 2, 240, 24)");
  for (const double odd : {std::nan(""), kInfinity, -kInfinity}) {
    for (const bool guarded : {false, true}) {
      const auto change = [&](std::vector<Tensor>& params) {
        params[0].set_double(3 * 64 + 5, odd);
        params[1].set_double(9 * 64 + 2, odd);
        if (!guarded) params[2].set_double(7 * 64 + 1, odd);  // 0 times that is not 0
      };
      check_attention({.rows = 40, .columns = 40, .guarded = guarded}, no_mask, "stream(m, 64, 16, 2, 240, 24)", change);
    }
  }
}

TEST(CudaStreamedRows, WhatIsNone) {
  const auto why_not = [](std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    std::string why;
    const loop::Unit unit = loop::parse_unit(text, "test");
    EXPECT_FALSE(loop::as_streamed_rows(unit.body[0], &why)) << text;
    EXPECT_FALSE(stream_ns(unit, Target::cuda_sm90a()));
    return why;
  };
  const std::string text = examples::attention({});
  EXPECT_EQ(why_not(text, "reduce max %k", "reduce min %k"), "the reduces along the row are no maximum and sum of f32");
  EXPECT_EQ(why_not(text, "exp(sub(%x1, %m))", "exp(sub(%m, %x1))"), "the sum is not of exponentials less the maximum");
  EXPECT_EQ(why_not(text, "exp(sub(%x2, %m))", "exp(mul(%x2, %m))"), "the weights are not exponentials times what is one for the row");
  EXPECT_EQ(why_not(text, "mul(%s1, 0.125)", "mul(%s1, 0.25)"), "the sum is not of exponentials less the maximum");
  EXPECT_EQ(why_not(text, "load %a1[%i, %kb, %l1]", "load %a2[%i, %kb, %l1]"), "loops along the row take different products");
  EXPECT_FALSE(stream_ns(loop::parse_unit(text, "test"), Target::cuda_sm80()));
  EXPECT_FALSE(stream_ns(loop::parse_unit(examples::attention({.depth = 80}), "test"), Target::cuda_sm90a()));
  EXPECT_FALSE(stream_ns(loop::parse_unit(examples::attention({.rows = 1}), "test"), Target::cuda_sm90a()));
}

}  // namespace
}  // namespace tcc::schedule
