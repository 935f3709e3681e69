// Slopes of pointwise ops over the whole range of each float dtype, both signs and infinity, against the formula in long double: nothing overflows or
// vanishes on the way to a slope that does neither. And products of many factors, whose partial products leave the range.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "autograd/differences.h"
#include "tcc/rules/interpret.h"

namespace tcc {
namespace {

using Real = long double;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Range {
  DType dtype;
  double largest, normal;  ///< the largest number, the smallest with all its bits
  double unit;             ///< of rounding, relative
};
constexpr Range kRanges[] = {{DType::f32, 3.4028234663852886e38, 1.1754943508222875e-38, 0x1p-24},
                             {DType::f16, 65504, 6.103515625e-5, 0x1p-11},
                             {DType::bf16, 3.3895313892515355e38, 1.1754943508222875e-38, 0x1p-8},
                             {DType::f64, 1.7976931348623157e308, 2.2250738585072014e-308, 0x1p-53}};

/// From the smallest to the largest number, some of them close to 1 and to kinks, with infinity when asked for.
std::vector<double> magnitudes(const Range& range, bool infinity) {
  std::vector<double> values;
  for (double v = range.normal; v < range.largest / 16; v *= 7.3) values.push_back(v);
  for (double v : {range.largest, range.largest / 2, 1 - range.unit, 1 - 64 * range.unit, 1.0, 1 + 64 * range.unit, 0.5, 1.5, 2.5, 4.5, 7.5,
                   12.0, 33.0})
    values.push_back(v);
  if (infinity) values.push_back(kInf);
  return values;
}

Tensor as_tensor(DType dtype, const std::vector<double>& values) {
  Tensor tensor(dtype, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) tensor.set_double(static_cast<int64_t>(i), values[i]);
  return tensor;
}

/// The gradients of the inputs, computed in their dtype; the cotangent is 1.
std::vector<Tensor> gradients(const std::string& call, DType dtype, const std::vector<std::vector<double>>& inputs) {
  const std::string type = std::string(name_of(dtype)) + "[" + std::to_string(inputs[0].size()) + "]";
  std::string params;
  for (size_t i = 0; i < inputs.size(); ++i) params += (i == 0 ? "%x" : ", %x") + std::to_string(i) + ": " + type;
  const auto joint = joint_of(*parse("graph @g(" + params + ") -> (%y: " + type + ") { %y: " + type + " = " + call + " }"));
  std::vector<Tensor> values;
  for (const auto& input : inputs) values.push_back(as_tensor(dtype, input));
  values.push_back(as_tensor(dtype, std::vector<double>(inputs[0].size(), 1)));
  std::vector<Tensor> outputs = interpret(*joint, values, false);
  outputs.erase(outputs.begin());
  return outputs;
}

/// `relative` and `absolute` in units of the dtype; what is below the normal numbers has fewer bits.
bool close(double found, Real expected, const Range& range, double relative, double absolute) {
  if (std::isnan(expected)) return std::isnan(found);
  const Real bound = range.unit * (relative * std::fabs(expected) + 2 * relative * range.normal + absolute);
  if (std::isinf(found)) return std::signbit(found) == std::signbit(expected) && std::fabs(expected) + bound > range.largest;
  return std::fabs(static_cast<Real>(found) - expected) <= bound;
}

struct Slope {
  const char* call;
  std::function<Real(Real)> slope;
  double low = -kInf, high = kInf;  ///< the domain
  double absolute = 0;              ///< units: slopes that are read off a result which is close to 1, or are a difference of such
  bool infinity = true;             ///< otherwise a product of infinity and zero, as in other frameworks
};

Real logistic(Real x) { return 1 / (1 + std::exp(-x)); }
Real square(Real x) { return x * x; }

std::vector<Slope> unary_slopes() {
  const Real pi = std::numbers::pi_v<Real>;
  auto gelu = [=](Real x) {
    return std::erfc(-x / std::sqrt(Real(2))) / 2 + (std::isinf(x) ? 0 : x * std::exp(-x * x / 2) / std::sqrt(2 * pi));
  };
  auto gelu_tanh = [=](Real x) {
    const Real c = std::sqrt(2 / pi), t = std::tanh(c * (x + Real(0.044715) * x * x * x));
    return (1 + t) / 2 + (std::fabs(x) > 100 ? 0 : x * (1 - t * t) * c * (1 + 3 * Real(0.044715) * x * x) / 2);
  };
  auto mish = [](Real x) {
    if (std::fabs(x) > 10000) return x > 0 ? Real(1) : Real(0);
    const Real t = std::tanh(std::log1p(std::exp(x)));
    return t + x * logistic(x) * (1 - t * t);
  };
  auto silu = [](Real x) { return std::fabs(x) > 10000 ? Real(x > 0) : logistic(x) * (1 + x * (1 - logistic(x))); };
  return {
      {"neg(%x0)", [](Real) { return Real(-1); }},
      {"abs(%x0)", [](Real x) { return std::copysign(Real(1), x); }},
      {"mul(%x0, %x0)", [](Real x) { return 2 * x; }},
      {"sqrt(%x0)", [](Real x) { return 1 / (2 * std::sqrt(x)); }, 0},
      {"rsqrt(%x0)", [](Real x) { return -1 / (2 * x * std::sqrt(x)); }, 0},
      {"recip(%x0)", [](Real x) { return -1 / (x * x); }},
      {"exp(%x0)", [](Real x) { return std::exp(x); }},
      {"exp2(%x0)", [](Real x) { return std::exp2(x) * std::numbers::ln2_v<Real>; }},
      {"expm1(%x0)", [](Real x) { return std::exp(x); }, -kInf, kInf, 2},
      {"log(%x0)", [](Real x) { return 1 / x; }, 0},
      {"log2(%x0)", [](Real x) { return 1 / (x * std::numbers::ln2_v<Real>); }, 0},
      {"log1p(%x0)", [](Real x) { return 1 / (1 + x); }, -1},
      {"sin(%x0)", [](Real x) { return std::cos(x); }, -1e4, 1e4},
      {"cos(%x0)", [](Real x) { return -std::sin(x); }, -1e4, 1e4},
      {"tan(%x0)", [](Real x) { return 1 + square(std::tan(x)); }, -1e4, 1e4},
      {"asin(%x0)", [](Real x) { return 1 / std::sqrt((1 - x) * (1 + x)); }, -1, 1},
      {"acos(%x0)", [](Real x) { return -1 / std::sqrt((1 - x) * (1 + x)); }, -1, 1},
      {"atan(%x0)", [](Real x) { return 1 / (1 + x * x); }},
      {"sinh(%x0)", [](Real x) { return std::cosh(x); }},
      {"cosh(%x0)", [](Real x) { return std::sinh(x); }},
      {"tanh(%x0)", [](Real x) { return 1 / square(std::cosh(x)); }, -kInf, kInf, 2},
      {"asinh(%x0)", [](Real x) { return 1 / std::sqrt(1 + x * x); }},
      {"acosh(%x0)", [](Real x) { return 1 / (std::sqrt(x - 1) * std::sqrt(x + 1)); }, 1},
      {"atanh(%x0)", [](Real x) { return 1 / ((1 - x) * (1 + x)); }, -1, 1},
      {"erf(%x0)", [=](Real x) { return 2 / std::sqrt(pi) * std::exp(-x * x); }},
      {"relu(%x0)", [](Real x) { return Real(x > 0); }},
      {"leaky_relu(%x0) {alpha=0.25}", [](Real x) { return x > 0 ? Real(1) : Real(0.25); }},
      {"sigmoid(%x0)", [](Real x) { return logistic(x) * logistic(-x); }, -kInf, kInf, 1},
      {"hard_sigmoid(%x0) {alpha=0.25, beta=0.5}", [](Real x) { return std::fabs(x) < 2 ? Real(0.25) : Real(0); }},
      {"hard_swish(%x0)", [](Real x) { return x <= -3 ? Real(0)
                                              : x < 3 ? x / 3 + Real(0.5)
                                                      : Real(1); }},
      {"silu(%x0)", silu, -kInf, kInf, 64, false},
      {"gelu(%x0) {approximate=\"none\"}", gelu, -kInf, kInf, 16, false},
      {"gelu(%x0) {approximate=\"tanh\"}", gelu_tanh, -kInf, kInf, 16, false},
      {"elu(%x0) {alpha=0.5}", [](Real x) { return x > 0 ? Real(1) : std::exp(x) / 2; }, -kInf, kInf, 1},
      {"elu(%x0) {alpha=-0.5}", [](Real x) { return x > 0 ? Real(1) : -std::exp(x) / 2; }},
      {"selu(%x0) {alpha=1.5, gamma=1.25}", [](Real x) { return x > 0 ? Real(1.25) : Real(1.875) * std::exp(x); }, -kInf, kInf, 3},
      {"celu(%x0) {alpha=2}", [](Real x) { return x > 0 ? Real(1) : std::exp(x / 2); }, -kInf, kInf, 2},
      {"softplus(%x0)", logistic},
      {"softsign(%x0)", [](Real x) { return 1 / square(1 + std::fabs(x)); }},
      {"mish(%x0)", mish, -kInf, kInf, 64, false},
  };
}

TEST(VjpRange, UnarySlopes) {
  const std::vector<Slope> slopes = unary_slopes();
  for (const Range& range : kRanges) {
    for (const Slope& s : slopes) {
      std::vector<double> points;
      for (double magnitude : magnitudes(range, s.infinity)) {
        for (double x : {magnitude, -magnitude}) {
          x = as_tensor(range.dtype, {x}).as_double(0);
          if (x > s.low && x < s.high) points.push_back(x);
        }
      }
      if (s.infinity && s.high == kInf) points.push_back(kInf);
      if (s.infinity && s.low == -kInf) points.push_back(-kInf);
      const Tensor found = gradients(s.call, range.dtype, {points})[0];
      for (size_t i = 0; i < points.size(); ++i) {
        const Real expected = s.slope(points[i]);
        // exp(-x * x) carries the rounding of its exponent.
        const double relative = std::string(s.call).starts_with("erf") ? 1000 : 8;
        ASSERT_TRUE(close(found.as_double(static_cast<int64_t>(i)), expected, range, relative, s.absolute))
            << name_of(range.dtype) << " " << s.call << " at " << points[i] << ": " << found.as_double(static_cast<int64_t>(i))
            << ", expected " << expected;
      }
    }
  }
}

TEST(VjpRange, BinarySlopes) {
  struct Slopes {
    const char* call;
    std::function<Real(Real, Real)> of_first, of_second;
    bool positive = false;  ///< the first operand
    bool exponent = false;  ///< the second operand is one
  };
  const std::vector<Slopes> all = {
      {"mul(%x0, %x1)", [](Real, Real b) { return b; }, [](Real a, Real) { return a; }},
      {"div(%x0, %x1)", [](Real, Real b) { return 1 / b; }, [](Real a, Real b) { return -a / b / b; }},
      {"atan2(%x0, %x1)", [](Real y, Real x) { return x / (x * x + y * y); }, [](Real y, Real x) { return -y / (x * x + y * y); }},
      {"pow(%x0, %x1)", [](Real b, Real e) { return e == 0 ? 0 : e * std::pow(b, e - 1); },
       [](Real b, Real e) { return std::isinf(b) && e < 0 ? 0 : std::pow(b, e) * std::log(b); }, true, true},
  };
  for (const Range& range : kRanges) {
    for (const Slopes& s : all) {
      std::vector<double> first, second, exponents{-3, -2, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3};
      const std::vector<double> sizes = magnitudes(range, false);
      for (size_t i = 0; i < sizes.size(); i += 2) {
        std::vector<double> others;
        for (size_t j = i % 3; j < sizes.size(); j += 3) others.push_back(sizes[j]);
        for (double other : s.exponent ? exponents : others) {
          for (int sign = 0; sign < 4; ++sign) {
            if (s.positive && sign > 0) continue;
            first.push_back(sign % 2 == 0 ? sizes[i] : -sizes[i]);
            second.push_back(sign < 2 ? other : -other);
          }
        }
      }
      if (s.exponent) {
        for (double e : exponents) {
          first.push_back(kInf);
          second.push_back(e);
        }
      }
      const std::vector<Tensor> found = gradients(s.call, range.dtype, {first, second});
      const Tensor x = as_tensor(range.dtype, first), y = as_tensor(range.dtype, second);
      for (int64_t i = 0; i < x.count(); ++i) {
        for (int operand = 0; operand < 2; ++operand) {
          const Real a = x.as_double(i), b = y.as_double(i), expected = operand == 0 ? s.of_first(a, b) : s.of_second(a, b);
          const double got = found[static_cast<size_t>(operand)].as_double(i);
          // The power alone overflows, the slope, that times an exponent below 1, does not.
          if (s.exponent && operand == 0 && std::fabs(expected) > Real(0.99) * range.largest * std::min(Real(1), std::fabs(b))) continue;
          if (std::isnan(expected)) continue;  // infinity times zero
          ASSERT_TRUE(close(got, expected, range, s.exponent ? 1500 : 16, 0))
              << name_of(range.dtype) << " " << s.call << " at " << a << ", " << b << ", operand " << operand << ": " << got
              << ", expected " << expected;
        }
      }
    }
  }
  // Neither side of infinity makes NaN.
  const std::vector<Tensor> at_infinity = gradients("atan2(%x0, %x1)", DType::f32, {{kInf, 1, -kInf, kInf, 0}, {1, -kInf, kInf, kInf, 0}});
  for (const Tensor& gradient : at_infinity) {
    for (int64_t i = 0; i < gradient.count(); ++i) EXPECT_EQ(gradient.as_double(i), 0);
  }
}

/// The products of the other factors, whatever lies between: in the order of the factors a partial product overflows and then meets a zero.
TEST(VjpRange, ProductsOfOtherFactors) {
  const std::string prod = "reduce_prod(%x0) {axes=[0]}";
  auto of = [](const std::string& call, DType dtype, const std::vector<double>& x) {
    const std::string shape = "[" + std::to_string(x.size()) + "]", type = std::string(name_of(dtype));
    const auto joint =
        joint_of(*parse("graph @g(%x: " + type + shape + ") -> (%y: " + type + "[*]) { %y: " + type + "[*] = " + call + " }"));
    std::vector<Tensor> inputs{as_tensor(dtype, x)};
    Tensor ones(dtype, joint->body.args[1]->type.shape());
    for (int64_t i = 0; i < ones.count(); ++i) ones.set_double(i, 1);
    inputs.push_back(ones);
    return interpret(*joint, inputs, false)[1];
  };
  struct Line {
    std::vector<double> x, product, cumulative;  ///< and the gradients
  };
  const std::vector<Line> lines = {
      {{1e30, 1e30, 0, 5, 0}, {0, 0, 0, 0, 0}, {kInf, kInf, kInf, 0, 0}},
      {{0, 1e30, 1e30, 0, 1e30}, {0, 0, 0, 0, 0}, {kInf, 0, 0, 0, 0}},
      {{1e30, 1e30, 0, 1e-30}, {0, 0, 1e30, 0}, {1e30, 1e30, kInf, 0}},
      {{1e30, 1e30, 1e-30, 1e-30}, {1e-30, 1e-30, 1e30, 1e30}, {0, 0, 0, 0}},
      {{2, 0, kInf, 0}, {kNaN, kNaN, 0, kNaN}, {}},
      {{kNaN, 0, 3}, {0, kNaN, kNaN}, {}},
      {{1e-30, 1e-30, 0}, {0, 0, 0}, {}},
  };
  for (const Line& line : lines) {
    const Tensor found = of("reduce_prod(%x) {axes=[0]}", DType::f32, line.x);
    for (size_t i = 0; i < line.x.size(); ++i) {
      const double got = found.as_double(static_cast<int64_t>(i)), want = line.product[i];
      EXPECT_TRUE(std::isnan(want) ? std::isnan(got) : std::fabs(got - want) <= 1e-6 * std::fabs(want))
          << i << ": " << got << ", expected " << want;
    }
    const Tensor scanned = of("cumulative(%x) {op=\"prod\", axis=0, reverse=false, exclusive=false}", DType::f32, line.x);
    for (size_t i = 0; i < line.cumulative.size() && std::isfinite(line.x[i]); ++i)
      EXPECT_FALSE(std::isnan(scanned.as_double(static_cast<int64_t>(i)))) << i;
  }
  // A line of random sizes with one to four zeros, against long double.
  const RandomStream stream{5, 1, 0};
  uint64_t drawn = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const int64_t n = stream.integer(drawn++, 2, 12), zeros = stream.integer(drawn++, 0, 5);
    std::vector<double> x;
    for (int64_t i = 0; i < n; ++i) x.push_back(std::pow(10.0, static_cast<double>(stream.integer(drawn++, -20, 31))));
    for (int64_t z = 0; z < zeros; ++z) x[static_cast<size_t>(stream.integer(drawn++, 0, n))] = 0;
    const Tensor values = as_tensor(DType::f32, x);
    auto factor = [&](int64_t i) { return static_cast<Real>(values.as_double(i)); };
    for (const bool exclusive : {false, true}) {
      for (const bool reverse : {false, true}) {
        const std::string flags = std::string("reverse=") + (reverse ? "true" : "false") + ", exclusive=" + (exclusive ? "true" : "false");
        const Tensor found = of("cumulative(%x) {op=\"prod\", axis=0, " + flags + "}", DType::f32, x);
        auto at = [&](int64_t i) { return reverse ? n - 1 - i : i; };
        for (int64_t k = 0; k < n; ++k) {
          Real sum = 0;
          for (int64_t i = exclusive ? k + 1 : k; i < n; ++i) {
            Real product = 1;
            for (int64_t j = 0; j < (exclusive ? i : i + 1); ++j) product *= j == k ? 1 : factor(at(j));
            sum += product;
          }
          ASSERT_TRUE(close(found.as_double(at(k)), sum, kRanges[0], 64, 0))
              << flags << " " << found.as_double(at(k)) << ", expected " << sum;
        }
      }
    }
    const Tensor found = of("reduce_prod(%x) {axes=[0]}", DType::f32, x);
    for (int64_t k = 0; k < n; ++k) {
      Real product = 1;
      for (int64_t j = 0; j < n; ++j) product *= j == k ? 1 : factor(j);
      ASSERT_TRUE(close(found.as_double(k), product, kRanges[0], 64, 0)) << found.as_double(k) << ", expected " << product;
    }
  }
}

// Thousands of cotangents that meet in one element: a sum in 16 bits would stand still at a few hundred.
TEST(VjpRange, ManyCotangentsOfOneElement) {
  constexpr int64_t kMany = 3000;
  const std::string many = std::to_string(kMany);
  const std::pair<Shape, std::string> readers[] = {
      {{kMany}, "gather(%x, %i) {axis=0}"},
      {{kMany, 1}, "gather_elements(%x, %i) {axis=0}"},
      {{kMany, 1}, "gather_nd(%x, %i) {batch_dims=0}"},
  };
  for (const Range& range : kRanges) {
    const std::string dtype(name_of(range.dtype));
    const auto expect_sum = [&](const Graph& graph, std::vector<Tensor> inputs, const Shape& result) {
      Tensor ones(range.dtype, result);
      for (int64_t i = 0; i < ones.count(); ++i) ones.set_double(i, 1);
      inputs.push_back(ones);
      const Tensor found = interpret(*joint_of(graph), inputs, false)[1];
      EXPECT_TRUE(close(found.as_double(0), kMany, range, 4, 0)) << print(graph) << found.as_double(0);
    };
    for (const auto& [shape, call] : readers) {
      const std::string indices = "%i: i64[" + many + (shape.size() == 2 ? ", 1]" : "]");
      const auto graph =
          parse("graph @g(%x: " + dtype + "[2, 1], " + indices + ") -> (%y: " + dtype + "[*]) { %y: " + dtype + "[*] = " + call + " }");
      expect_sum(*graph, {Tensor(range.dtype, {2, 1}), Tensor(DType::i64, shape)}, {kMany, 1});
    }
    // The running maximum is the first element throughout.
    const auto running = parse("graph @g(%x: " + dtype + "[" + many + "]) -> (%y: " + dtype + "[*]) { %y: " + dtype +
                               "[*] = cumulative(%x) {axis=0, op=\"max\", reverse=false, exclusive=false} }");
    Tensor falling(range.dtype, {kMany});
    falling.set_double(0, 1);
    expect_sum(*running, {falling}, {kMany});
    // A table that is the output layer's, too: what the layer gives, and what is added to it.
    const auto tied =
        parse("graph @g(%x: " + dtype + "[2, 1], %i: i64[" + many + "]) -> (%y: " + dtype + "[*]) { %a: " + dtype +
              "[*] = gather(%x, %i) {axis=0}  %b: " + dtype + "[*] = mul(%x, %x)  %y: " + dtype + "[*] = concat(%a, %b) {axis=0} }");
    expect_sum(*tied, {Tensor(range.dtype, {2, 1}), Tensor(DType::i64, {kMany})}, {kMany + 2, 1});
  }
}

}  // namespace
}  // namespace tcc
