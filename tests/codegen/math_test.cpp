// Math functions of kernels against libm in double: units in the last place over random bit patterns, and the special values.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "host_kernel.h"

namespace tcc::codegen {
namespace {

constexpr int64_t kCount = 1 << 16;

std::string unary_kernel(const std::string& op, const std::string& dtype) {
  std::string n = std::to_string(kCount / 8), count = std::to_string(kCount);
  return "kernel #k target x86-64-v3 grid " + n + " threads 1 shared 0 (%x: " + dtype + "[" + count + "]) -> (%y: " + dtype + "[" + count +
         "]) { map %i in " + n + " bind(parallel), %l in 8 bind(vector) { store " + op + "(load %x[%i * 8 + %l]), %y[%i * 8 + %l] } }";
}

// Distance between a result and the exact value, in units of the last place of the result's format at the exact value.
double ulps(double got, double exact, bool single) {
  if (std::isnan(exact)) return std::isnan(got) ? 0 : INFINITY;
  if (single && std::fabs(exact) > 3.4028235677973366e38) return std::isinf(got) && std::signbit(got) == std::signbit(exact) ? 0 : INFINITY;
  if (std::isinf(exact)) return got == exact ? 0 : INFINITY;
  int exponent = 0;
  std::frexp(exact, &exponent);
  double unit = single ? std::ldexp(1.0, std::max(exponent - 24, -149)) : std::ldexp(1.0, std::max(exponent - 53, -1074));
  return std::fabs(got - exact) / unit;
}

struct Function {
  const char* name;
  std::function<double(double)> exact;
  double limit32, limit64;  ///< ulps
  double low, high;         ///< of the sampled range; all bit patterns are sampled too for f32
};

class UnaryMath : public testing::TestWithParam<Function> {};

TEST_P(UnaryMath, F32IsWithinItsError) {
  const Function& f = GetParam();
  HostKernel kernel(unary_kernel(f.name, "f32"));
  std::mt19937 random(7);
  std::vector<Tensor> params = random_params(kernel.kernel(), 1);
  float* x = params[0].mutable_data<float>();
  std::uniform_real_distribution<float> range(static_cast<float>(f.low), static_cast<float>(f.high));
  const float special[] = {0.0f,  -0.0f, 1.0f,    -1.0f,   INFINITY, -INFINITY, NAN,    1e-40f, -1e-40f,
                           88.7f, 88.8f, -103.9f, -104.1f, 89.0f,    127.9f,    1e-30f, 3e38f,  -3e38f};
  for (int64_t i = 0; i < kCount; ++i) {
    if (i < static_cast<int64_t>(std::size(special))) x[i] = special[i];
    else if (i % 2) x[i] = range(random);
    else {
      uint32_t bits = random();
      std::memcpy(&x[i], &bits, 4);
    }
  }
  kernel.run(params);
  double worst = 0;
  float at = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    double error = ulps(params[1].as_double(i), f.exact(x[i]), true);
    if (!(error <= worst)) worst = error, at = x[i];
  }
  EXPECT_LE(worst, f.limit32) << f.name << " at " << at;
}

TEST_P(UnaryMath, F64IsWithinItsError) {
  const Function& f = GetParam();
  HostKernel kernel(unary_kernel(f.name, "f64"));
  std::mt19937_64 random(7);
  std::vector<Tensor> params = random_params(kernel.kernel(), 1);
  double* x = params[0].mutable_data<double>();
  std::uniform_real_distribution<double> range(f.low, f.high);
  const double special[] = {0.0, -0.0, 1.0, -1.0, INFINITY, -INFINITY, NAN, 1e-300, -1e-300};
  for (int64_t i = 0; i < kCount; ++i) x[i] = i < static_cast<int64_t>(std::size(special)) ? special[i] : range(random);
  kernel.run(params);
  double worst = 0, at = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    double error = ulps(params[1].as_double(i), f.exact(x[i]), false);
    if (!(error <= worst)) worst = error, at = x[i];
  }
  EXPECT_LE(worst, f.limit64) << f.name << " at " << at;
}

INSTANTIATE_TEST_SUITE_P(All, UnaryMath,
                         testing::Values(Function{"exp", [](double x) { return std::exp(x); }, 1.1, 4, -90, 90},
                                         Function{"exp2", [](double x) { return std::exp2(x); }, 1.1, 2, -130, 130},
                                         Function{"expm1", [](double x) { return std::expm1(x); }, 1.5, 4, -5, 5},
                                         Function{"log", [](double x) { return std::log(x); }, 1.0, 4, 0, 10},
                                         Function{"log2", [](double x) { return std::log2(x); }, 1.3, 6, 0, 10},
                                         Function{"log1p", [](double x) { return std::log1p(x); }, 1.8, 6, -1, 3},
                                         Function{"tanh", [](double x) { return std::tanh(x); }, 1.5, 6, -5, 5},
                                         Function{"erf", [](double x) { return std::erf(x); }, 1.4, 40, -4, 4},
                                         Function{"sin", [](double x) { return std::sin(x); }, 1.7, 4, -10, 10},
                                         Function{"cos", [](double x) { return std::cos(x); }, 1.7, 4, -10, 10},
                                         Function{"tan", [](double x) { return std::tan(x); }, 4.0, 8, -10, 10},
                                         Function{"atan", [](double x) { return std::atan(x); }, 1.6, 4, -5, 5},
                                         Function{"asin", [](double x) { return std::asin(x); }, 4.0, 8, -1, 1},
                                         Function{"acos", [](double x) { return std::acos(x); }, 4.0, 8, -1, 1},
                                         Function{"sinh", [](double x) { return std::sinh(x); }, 4.0, 8, -5, 5},
                                         Function{"cosh", [](double x) { return std::cosh(x); }, 4.0, 8, -5, 5},
                                         Function{"asinh", [](double x) { return std::asinh(x); }, 4.0, 8, -5, 5},
                                         Function{"acosh", [](double x) { return std::acosh(x); }, 4.0, 8, 1, 9},
                                         Function{"atanh", [](double x) { return std::atanh(x); }, 4.0, 8, -1, 1}),
                         [](const testing::TestParamInfo<Function>& info) { return info.param.name; });

std::string binary_kernel(const std::string& op) {
  return "kernel #k target x86-64-v3 grid 8192 threads 1 shared 0 (%x: f32[65536], %z: f32[65536]) -> (%y: f32[65536]) { map %i in 8192 "
         "bind(parallel), %l in 8 bind(vector) { store " +
         op + "(load %x[%i * 8 + %l], load %z[%i * 8 + %l]), %y[%i * 8 + %l] } }";
}

TEST(Math, ReducesHugeAnglesExactly) {
  for (const char* op : {"sin", "cos"}) {
    HostKernel kernel(unary_kernel(op, "f64"));
    std::vector<Tensor> params = random_params(kernel.kernel(), 1);
    double* x = params[0].mutable_data<double>();
    std::mt19937_64 random(3);
    for (int64_t i = 0; i < kCount; ++i)
      x[i] = std::ldexp(std::uniform_real_distribution<double>(-1, 1)(random), static_cast<int>(random() % 1024));
    x[0] = 0x1.6ac5b262ca1ffp+849;  // the double nearest to a multiple of pi/2; glibc's own cosine of it is 8 units off
    kernel.run(params);
    double worst = 0, at = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      double exact = i == 0 ? (op[0] == 's' ? 1.0 : -4.68716592425462761112e-19) : op[0] == 's' ? std::sin(x[i]) : std::cos(x[i]);
      double error = ulps(params[1].as_double(i), exact, false);
      if (!(error <= worst)) worst = error, at = x[i];
    }
    EXPECT_LE(worst, 4) << op << " at " << at;
  }
}

TEST(BinaryMath, PowOfDoublesFollowsIeee) {
  HostKernel kernel(
      "kernel #k target x86-64-v3 grid 8192 threads 1 shared 0 (%x: f64[65536], %z: f64[65536]) -> (%y: f64[65536]) { map %i in 8192 "
      "bind(parallel), %l in 8 "
      "bind(vector) { store pow(load %x[%i * 8 + %l], load %z[%i * 8 + %l]), %y[%i * 8 + %l] } }");
  std::vector<Tensor> params = random_params(kernel.kernel(), 1);
  double* x = params[0].mutable_data<double>();
  double* y = params[1].mutable_data<double>();
  std::mt19937_64 random(5);
  for (int64_t i = 0; i < kCount; ++i) {
    x[i] = i % 3 ? std::uniform_real_distribution<double>(0, 30)(random) : -std::uniform_real_distribution<double>(0, 30)(random);
    y[i] = i % 2 ? std::round(std::uniform_real_distribution<double>(-200, 200)(random))
                 : std::uniform_real_distribution<double>(-200, 200)(random);
  }
  kernel.run(params);
  double worst = 0;
  for (int64_t i = 0; i < kCount; ++i) worst = std::max(worst, ulps(params[2].as_double(i), std::pow(x[i], y[i]), false));
  EXPECT_LE(worst, 2);
}

void expect_binary(const char* op, double (*exact)(double, double), double limit) {
  HostKernel kernel(binary_kernel(op));
  std::mt19937 random(11);
  std::vector<Tensor> params = random_params(kernel.kernel(), 1);
  float* x = params[0].mutable_data<float>();
  float* y = params[1].mutable_data<float>();
  const float special[] = {0.0f,  -0.0f,    1.0f,      -1.0f, 2.0f,   -2.0f,       3.0f,   -3.0f, 0.5f,
                           -0.5f, INFINITY, -INFINITY, NAN,   1e-40f, 16777216.0f, -27.0f, 1e30f};
  std::uniform_real_distribution<float> range(-30, 30);
  size_t n = std::size(special);
  for (size_t i = 0; i < kCount; ++i) {
    x[i] = i < n * n ? special[i / n] : i % 3 ? std::fabs(range(random)) : range(random);
    y[i] = i < n * n ? special[i % n] : i % 2 ? std::round(range(random)) : range(random);
  }
  kernel.run(params);
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < kCount; ++i) {
    double want = exact(x[i], y[i]);
    double got = params[2].as_double(static_cast<int64_t>(i));
    double error = ulps(got, want, true);
    if (want == 0 && !std::isnan(got) && std::signbit(got) != std::signbit(want)) error = INFINITY;
    if (!(error <= worst)) worst = error, at = i;
  }
  EXPECT_LE(worst, limit) << op << " of " << x[at] << ", " << y[at] << " gives " << params[2].as_double(static_cast<int64_t>(at));
}

TEST(BinaryMath, PowFollowsIeee) {
  expect_binary("pow", [](double x, double y) { return std::pow(x, y); }, 1.2);
}
TEST(BinaryMath, RemainderIsExact) {
  expect_binary("rem", [](double x, double y) { return std::fmod(x, y); }, 0);
}
TEST(BinaryMath, ArcTangentKnowsItsQuadrant) {
  expect_binary("atan2", [](double y, double x) { return std::atan2(y, x); }, 3);
}
TEST(BinaryMath, MaxKeepsNanAndOrdersZeros) {
  expect_binary(
      "max", [](double x, double y) { return std::isnan(x) || std::isnan(y) ? NAN
                                             : x == y                       ? (std::signbit(x) ? y : x)
                                                                            : std::fmax(x, y); },
      0);
}

}  // namespace
}  // namespace tcc::codegen
