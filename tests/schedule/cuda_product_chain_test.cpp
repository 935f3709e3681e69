// Products whose results make a factor of a further product, and are never stored: kernels compute what the first form does, whatever the size, the mask and the
// layout; what a mask hides is skipped.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "chain_unit.h"
#include "streamed_kernel.h"
#include "tcc/loop/product_chain.h"

namespace tcc::schedule {
namespace {

using examples::Chain;

/// What is stored is NaN before, and maxima are large enough for no exponential to be.
std::vector<Tensor> chain_params(const loop::Unit& unit) {
  std::vector<Tensor> params = random_params(unit, 17);
  for (size_t number = 0; number < params.size(); number++) {
    Tensor& tensor = params[number];
    for (int64_t i = 0; i < tensor.count(); i++) {
      if (unit.params[number].written) tensor.set_double(i, std::nan(""));
      else if (number == 5) tensor.set_double(i, 3 + std::abs(tensor.as_double(i)));
    }
  }
  return params;
}

/// Which elements a mask shows, for the reference.
using Shown = std::function<bool(int row, int column)>;

/// The results, or with `second` the others.
std::vector<double> reference(const Chain& c, const Shown& shown, const std::vector<Tensor>& params, bool second) {
  const auto at = [&](const Tensor& tensor, int batch, int row, int column) {
    const Shape& shape = tensor.shape();
    return tensor.as_double(c.heads_inside ? (row * shape[1] + batch) * shape[2] + column : (batch * shape[1] + row) * shape[2] + column);
  };
  std::vector<double> result(static_cast<size_t>(c.batch * c.rows * c.width));
  for (int b = 0; b < c.batch; b++) {
    for (int i = 0; i < c.rows; i++) {
      std::vector<double> total(static_cast<size_t>(c.width));
      for (int j = 0; j < c.columns; j++) {
        double s = 0, t = 0;
        for (int k = 0; k < c.depth; k++) {
          s += at(params[0], b, i, k) * at(params[1], b, j, k);
          t += at(params[2], b, i, k) * at(params[3], b, j, k);
        }
        const auto statistic = [&](size_t number) {
          return params[number].as_double(c.of_columns ? int64_t{b} * c.columns + j : int64_t{b} * c.rows + i);
        };
        double p = (shown(i, j) ? std::exp(s / 8 - statistic(5)) : 0) * statistic(6);
        if (c.guarded && std::isnan(p)) p = 0;
        const double weight = second || c.products == 1 ? p : p * (t - statistic(7));
        for (int d = 0; d < c.width; d++)
          total[static_cast<size_t>(d)] += weight * at(second ? params[3] : c.shares_value ? params[1] : params[4], b, j, d);
      }
      for (int d = 0; d < c.width; d++) {
        const int row = c.heads_inside ? i * c.batch + b : b * c.rows + i;
        result[static_cast<size_t>(row * c.width + d)] = total[static_cast<size_t>(d)] / 2;
      }
    }
  }
  return result;
}

bool all(int, int) { return true; }

void check_chain(const Chain& c, const std::string& schedule, const Shown& shown = all,
                 const std::function<void(std::vector<Tensor>&)>& change = {}) {
  const loop::Unit unit = loop::parse_unit(examples::chain(c), "test");
  std::string why, texts;
  EXPECT_TRUE(loop::as_product_chain(unit.body.at(0), &why)) << why;
  std::vector<Tensor> params = chain_params(unit);
  if (change) change(params);
  std::vector<std::vector<double>> results{reference(c, shown, params, false)};
  if (c.both) results.push_back(reference(c, shown, params, true));
  ASSERT_NO_FATAL_FAILURE(run_streamed(unit, schedule, params, texts));
  for (size_t number = 0; number < results.size(); number++) {
    const Tensor& found = params[params.size() - results.size() + number];
    double largest = 0;
    for (const double value : results[number]) largest = std::isfinite(value) ? std::max(largest, std::abs(value)) : largest;
    for (size_t i = 0; i < results[number].size(); i++) {
      const double is = found.as_double(static_cast<int64_t>(i)), wanted = results[number][i];
      ASSERT_TRUE(agrees(is, wanted, 0.015 * largest))
          << "result " << number << " at " << i << ": " << is << ", expected " << wanted << "\n"
          << texts;
    }
  }
}

TEST(CudaProductChain, SizesAndTiles) {
  check_chain({.rows = 64, .columns = 64}, "chain(o, 64, 64, 1, 240, 24)");
  check_chain({.batch = 2, .rows = 70, .columns = 72}, "chain(o, 64, 32, 2, 240, 24)");
  check_chain({.rows = 130, .columns = 40, .products = 1}, "chain(o, 128, 48, 1, 240, 24)");
  check_chain({.rows = 150, .columns = 100, .of_columns = true}, "chain(o, 192, 64, 2, 152, 24)");
  check_chain({.rows = 40, .columns = 50, .depth = 128, .width = 64}, "");
  check_chain({.rows = 40, .columns = 50, .depth = 64, .width = 128, .of_columns = true, .heads_inside = true}, "");
  check_chain({.batch = 3, .rows = 33, .columns = 80, .heads_inside = true, .shares_value = true, .dtype = "f16"}, "");
  check_chain({.batch = 2, .rows = 40, .columns = 33, .products = 1, .of_columns = true, .shares_value = true}, "");
}

/// Sums of the same rows and columns share their products.
TEST(CudaProductChain, SeveralResults) {
  const std::optional<loop::ProductChain> form =
      loop::as_product_chain(loop::parse_unit(examples::chain({.both = true}), "test").body.at(0));
  ASSERT_TRUE(form);
  EXPECT_EQ(form->products.size(), 2U);
  EXPECT_EQ(form->results.size(), 2U);
  check_chain({.batch = 2, .rows = 70, .columns = 72, .of_columns = true, .both = true}, "chain(o, 64, 32, 2, 240, 24)");
  check_chain({.rows = 130, .columns = 90, .of_columns = true, .both = true, .shares_value = true}, "");
  check_chain({.rows = 100, .columns = 90, .mask = "le(index(%j), index(%m))", .guarded = true, .heads_inside = true, .both = true}, "",
              [](int row, int column) { return row <= column; });
}

TEST(CudaProductChain, Masks) {
  const std::pair<std::string, Shown> masks[] = {
      {"le(index(%m), index(%j))", [](int row, int column) { return column <= row; }},
      {"le(index(%j), index(%m))", [](int row, int column) { return row <= column; }},
      {"ge(index(%j - %m), 3)", [](int row, int column) { return column + 3 <= row; }},
      {"lt(index(%m), index(%j + 20))", [](int row, int column) { return column < row + 20; }},
  };
  for (const auto& [mask, shown] : masks) {
    for (const bool of_columns : {false, true}) {
      for (const char* schedule : {"chain(o, 64, 32, 2, 240, 24)", "chain(o, 128, 16, 2, 240, 24)"}) {
        SCOPED_TRACE(mask + ", " + schedule);
        check_chain({.rows = 100, .columns = 90, .of_columns = of_columns, .mask = mask, .guarded = of_columns}, schedule, shown);
      }
    }
  }
  check_chain({.rows = 40, .columns = 100, .products = 1, .mask = "gt(index(%m + 3), index(%j))", .guarded = true}, "",
              [](int row, int column) { return column + 3 > row; });
}

/// Nothing is assumed of what is not a difference of places.
TEST(CudaProductChain, OtherMasks) {
  const loop::Unit unit = loop::parse_unit(examples::chain({.mask = "lt(index(%m), 20)"}), "test");
  const std::optional<loop::ProductChain> form = loop::as_product_chain(unit.body.at(0));
  ASSERT_TRUE(form);
  EXPECT_FALSE(form->distance);
  check_chain({.rows = 40, .columns = 100, .mask = "lt(index(%m), 20)"}, "", [](int, int column) { return column < 20; });
}

TEST(CudaProductChain, NumbersThatAreNone) {
  for (const bool of_columns : {false, true}) {
    for (const bool guarded : {false, true}) {
      check_chain({.rows = 70, .columns = 50, .of_columns = of_columns, .guarded = guarded}, "chain(o, 64, 32, 2, 240, 24)", all,
                  [](std::vector<Tensor>& params) { params[5].set_double(7, std::nan("")); });
      check_chain({.rows = 70, .columns = 50, .of_columns = of_columns, .guarded = guarded}, "chain(o, 64, 32, 2, 240, 24)", all,
                  [](std::vector<Tensor>& params) { params[0].set_double(5 * 64 + 3, std::numeric_limits<double>::infinity()); });
    }
  }
}

TEST(CudaProductChain, WhatIsNone) {
  const auto why_not = [](std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos);
    text.replace(at, from.size(), to);
    std::string why;
    EXPECT_FALSE(loop::as_product_chain(loop::parse_unit(text, "test").body.at(0), &why));
    return why;
  };
  const std::string text = examples::chain({});
  EXPECT_EQ(why_not(text, "yield mul(cast<f32>(%w), cast<f32>(%v))", "yield add(cast<f32>(%w), cast<f32>(%v))"),
            "the sum is not of products");
  EXPECT_EQ(why_not(text, "yield mul(cast<f32>(%w), cast<f32>(%v))", "yield mul(cast<f32>(%v), cast<f32>(%v))"),
            "no factor is made of products");
  EXPECT_EQ(why_not(text, "reduce sum %m", "reduce max %m"), "it is no sum of f32 over one dim");
}

}  // namespace
}  // namespace tcc::schedule
