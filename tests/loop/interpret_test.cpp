// The interpreters: units of each kind against plain C++, kernels against the units or the same plain C++, and the faults that only running shows.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "loop/units.h"
#include "tcc/loop/loop.h"
#include "tcc/loop/rewrite.h"
#include "tcc/ops/scalar.h"
#include "tcc/rules/interpret.h"
#include "tcc/support/diagnostics.h"

namespace tcc::loop {
namespace {

TEST(Combiners, TheIdentityChangesNothing) {
  for (const Combiner combiner : {Combiner::sum, Combiner::prod, Combiner::max, Combiner::min, Combiner::and_, Combiner::or_}) {
    EXPECT_EQ(combiner_named(name_of(combiner)), combiner);
    for (const DType dtype :
         {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::i8, DType::u8, DType::u64, DType::boolean}) {
      const bool logical = combiner == Combiner::and_ || combiner == Combiner::or_;
      if ((is_float(dtype) && logical) || (dtype == DType::boolean && !logical)) continue;
      for (const int64_t number : {0, 1, 5, 127, -1}) {
        const ExprPtr value = is_float(dtype) ? constant_float(dtype, static_cast<double>(number))
                                              : constant_int(dtype, dtype == DType::boolean ? number & 1 : wrap_to(dtype, number));
        const auto scalar = [&](const ExprPtr& e) {
          return is_float(dtype) ? ScalarValue::of_float(e->float_value) : ScalarValue::of_int(e->int_value);
        };
        const ScalarValue both[] = {scalar(identity_value(combiner, dtype)), scalar(value)};
        const ScalarValue joined = evaluate_scalar(pointwise_of(combiner), dtype, dtype, both);
        if (is_float(dtype)) EXPECT_EQ(joined.f, value->float_value) << name_of(combiner) << " " << name_of(dtype);
        else EXPECT_EQ(joined.i, scalar(value).i) << name_of(combiner) << " " << name_of(dtype);
      }
    }
  }
}

Tensor random_tensor(DType dtype, Shape shape, int seed, double scale = 1) {
  Tensor tensor(dtype, std::move(shape));
  std::mt19937 random(static_cast<unsigned>(seed));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    if (is_float(dtype)) tensor.set_double(i, scale * (static_cast<double>(random() % 2001) / 1000 - 1));
    else tensor.set_int64(i, static_cast<int64_t>(random() % 19) - 9);
  }
  return tensor;
}

Tensor small_integers(DType dtype, Shape shape, int seed) {
  Tensor tensor(dtype, std::move(shape));
  std::mt19937 random(static_cast<unsigned>(seed));
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_double(i, static_cast<double>(random() % 7) - 3);
  return tensor;
}

/// Runs the text with these inputs; the outputs follow.
std::vector<Tensor> run_unit(std::string_view text, std::vector<Tensor> inputs) {
  const Unit unit = parse_unit(text, "test");
  inputs.resize(unit.params.size());
  interpret(unit, inputs);
  return inputs;
}
std::vector<Tensor> run_kernel(std::string_view text, std::vector<Tensor> inputs) {
  const Kernel kernel = parse_kernel(text, "test");
  inputs.resize(kernel.params.size());
  interpret(kernel, inputs);
  return inputs;
}

void expect_near(const Tensor& got, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(got.count(), static_cast<int64_t>(expected.size()));
  for (int64_t i = 0; i < got.count(); ++i) EXPECT_NEAR(got.as_double(i), expected[static_cast<size_t>(i)], tolerance) << "element " << i;
}

std::vector<double> softmax(const Tensor& x) {
  const int64_t rows = x.shape()[0], columns = x.shape()[1];
  std::vector<double> result;
  for (int64_t i = 0; i < rows; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < columns; ++j) sum += std::exp(x.as_double(i * columns + j));
    for (int64_t j = 0; j < columns; ++j) result.push_back(std::exp(x.as_double(i * columns + j)) / sum);
  }
  return result;
}

TEST(InterpretUnit, Softmax) {
  const Tensor x = random_tensor(DType::f32, {3, 5}, 1, 4);
  expect_near(run_unit(examples::kSoftmax, {x})[1], softmax(x), 1e-6);
  expect_near(run_unit(examples::kOnlineSoftmax, {x})[1], softmax(x), 1e-6);
}

TEST(InterpretUnit, LayerNorm) {
  const Tensor x = random_tensor(DType::f32, {4, 6}, 2), scale = random_tensor(DType::f32, {6}, 3),
               bias = random_tensor(DType::f32, {6}, 4);
  std::vector<double> expected;
  for (int i = 0; i < 4; ++i) {
    double mean = 0, variance = 0;
    for (int j = 0; j < 6; ++j) mean += x.as_double(i * 6 + j) / 6;
    for (int j = 0; j < 6; ++j) variance += std::pow(x.as_double(i * 6 + j) - mean, 2) / 6;
    for (int j = 0; j < 6; ++j)
      expected.push_back((x.as_double(i * 6 + j) - mean) / std::sqrt(variance + 1e-5) * scale.as_double(j) + bias.as_double(j));
  }
  expect_near(run_unit(examples::kLayerNorm, {x, scale, bias})[3], expected, 1e-5);
}

TEST(InterpretUnit, MatmulOnSmallIntegersIsExact) {
  const Tensor a = small_integers(DType::f16, {4, 7}, 5), b = small_integers(DType::f16, {7, 5}, 6);
  std::vector<double> expected;
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 5; ++j) {
      double sum = 0;
      for (int k = 0; k < 7; ++k) sum += a.as_double(i * 7 + k) * b.as_double(k * 5 + j);
      expected.push_back(sum);
    }
  }
  expect_near(run_unit(examples::kMatmul, {a, b})[2], expected, 0);
}

TEST(InterpretUnit, ArgmaxTakesTheFirst) {
  Tensor x = small_integers(DType::f32, {3, 6}, 7);
  const auto out = run_unit(examples::kArgmax, {x});
  for (int r = 0; r < 3; ++r) {
    int best = 0;
    for (int j = 1; j < 6; ++j) best = x.as_double(r * 6 + j) > x.as_double(r * 6 + best) ? j : best;
    EXPECT_EQ(out[2].as_int64(r), best);
    EXPECT_EQ(out[1].as_double(r), x.as_double(r * 6 + best));
  }
}

TEST(InterpretUnit, ExclusiveScanOfTheReversedRow) {
  const Tensor x = random_tensor(DType::i32, {2, 5}, 8);
  const auto out = run_unit(examples::kScan, {x});
  for (int i = 0; i < 2; ++i) {
    int64_t sum = 0;
    for (int j = 0; j < 5; ++j) {
      EXPECT_EQ(out[1].as_int64(i * 5 + j), sum);
      sum += x.as_int64(i * 5 + 4 - j);
    }
    EXPECT_EQ(out[2].as_int64(i), sum);
  }
}

TEST(InterpretUnit, ScatterDropsWhatIsOutside) {
  Tensor x(DType::f32, {6}), at(DType::i64, {6});
  const int64_t places[] = {0, 3, -1, 0, 4, -5};
  for (int i = 0; i < 6; ++i) x.set_double(i, i + 1), at.set_int64(i, places[i]);
  expect_near(run_unit(examples::kScatter, {x, at})[2], {5, 0, 0, 5}, 0);
}

TEST(InterpretUnit, PadTemporaryAndGather) {
  Tensor x(DType::f32, {5}), at(DType::i32, {3});
  for (int i = 0; i < 5; ++i) x.set_double(i, i + 1);
  const int64_t places[] = {4, 9, -1};
  for (int i = 0; i < 3; ++i) at.set_int64(i, places[i]);
  const auto out = run_unit(examples::kPadAndGather, {x, at});
  expect_near(out[2], {15, 15, 2, 4, 6, 8, 5, 7.5}, 0);
  EXPECT_EQ(out[3].as_double(0), 5);
  EXPECT_EQ(out[3].as_double(1), 0);
  EXPECT_TRUE(std::isnan(out[3].as_double(2)));
}

// ------------------------------------------------------------------------------------------------------------ kernels

TEST(InterpretKernel, RowReductionAcrossTheBlock) {
  Tensor x = random_tensor(DType::f32, {3, 100}, 9);
  for (int64_t i = 0; i < x.count(); ++i) x.set_double(i, std::abs(x.as_double(i)) + 1);
  std::vector<double> expected;
  for (int i = 0; i < 3; ++i) {
    double sum = 0;
    for (int j = 0; j < 100; ++j) sum += x.as_double(i * 100 + j);
    for (int j = 0; j < 100; ++j) expected.push_back(x.as_double(i * 100 + j) / sum);
  }
  expect_near(run_kernel(examples::kRowKernel, {x})[1], expected, 1e-6);
}

TEST(InterpretKernel, RowsOfWarps) {
  const Tensor x = random_tensor(DType::f32, {4, 128}, 10);
  std::vector<double> expected(4, -10);
  for (int i = 0; i < 512; ++i) expected[static_cast<size_t>(i / 128)] = std::max(expected[static_cast<size_t>(i / 128)], x.as_double(i));
  expect_near(run_kernel(examples::kWarpKernel, {x})[1], expected, 0);
}

TEST(InterpretKernel, TransposeThroughSharedMemory) {
  const Tensor x = random_tensor(DType::f32, {16, 16}, 11);
  std::vector<double> expected;
  for (int i = 0; i < 256; ++i) expected.push_back(x.as_double(i % 16 * 16 + i / 16));
  expect_near(run_kernel(examples::kTransposeKernel, {x})[1], expected, 0);
}

TEST(InterpretKernel, CpuMatvecFromAPackedPanel) {
  const Tensor a = small_integers(DType::f32, {6, 11}, 12), x = small_integers(DType::f32, {11}, 13);
  std::vector<double> expected(6, 0);
  for (int i = 0; i < 66; ++i) expected[static_cast<size_t>(i / 11)] += a.as_double(i) * x.as_double(i % 11);
  expect_near(run_kernel(examples::kCpuKernel, {a, x})[2], expected, 0);
}

TEST(InterpretKernel, MmaThroughAPipe) {
  const Tensor a = small_integers(DType::f16, {32, 80}, 14), b = small_integers(DType::f16, {32, 80}, 15),
               bias = small_integers(DType::f32, {32}, 16);
  std::vector<double> expected;
  for (int i = 0; i < 32; ++i) {
    for (int j = 0; j < 32; ++j) {
      double sum = bias.as_double(j);
      for (int k = 0; k < 80; ++k) sum += a.as_double(i * 80 + k) * b.as_double(j * 80 + k);
      expected.push_back(sum);
    }
  }
  expect_near(run_kernel(examples::kMmaKernel, {a, b, bias})[3], expected, 0);
}

// A scheduled body on one thread, every bind a plain loop: what a pass makes can be compared with the first form before it is cut into kernels.
TEST(InterpretUnit, ScheduledBodiesSerially) {
  auto check = [](std::string_view text, std::vector<Tensor> inputs) {
    const Kernel kernel = parse_kernel(text, "test");
    std::vector<Tensor> serial = inputs;
    serial.resize(kernel.params.size());
    interpret(Unit{kernel.params, kernel.body}, serial);
    const Tensor parallel = run_kernel(text, std::move(inputs)).back();
    for (int64_t i = 0; i < parallel.count(); ++i) EXPECT_NEAR(serial.back().as_double(i), parallel.as_double(i), 1e-6);
  };
  check(examples::kRowKernel, {random_tensor(DType::f32, {3, 100}, 17)});
  check(examples::kWarpKernel, {random_tensor(DType::f32, {4, 128}, 18)});
  check(examples::kTransposeKernel, {random_tensor(DType::f32, {16, 16}, 19)});
  check(examples::kMmaKernel,
        {small_integers(DType::f16, {32, 80}, 20), small_integers(DType::f16, {32, 80}, 21), small_integers(DType::f32, {32}, 22)});
}

// ------------------------------------------------------------------------------------------------------------- faults

std::string fault_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) { return error.what(); }
  return "no fault";
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result(text);
  const size_t at = result.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? result : result.replace(at, from.size(), to);
}

TEST(InterpretFaults, UnitReadsOutsideOrUndefined) {
  const Tensor x = random_tensor(DType::f32, {5}, 1);
  EXPECT_NE(fault_of([&] {
              run_unit("unit (%x: f32[5]) -> (%y: f32[6]) { map %i in 6 { store load %x[%i], %y[%i] } }", {x});
            }).find("load outside of %x[5]"),
            std::string::npos);
  EXPECT_NE(fault_of([&] {
              run_unit("unit (%x: f32[5]) -> (%y: f32[5]) { alloc %t: f32[5] local map %i in 5 { store load %t[%i], %y[%i] } }", {x});
            }).find("%t[0] is read but was never written"),
            std::string::npos);
}

TEST(InterpretFaults, RaceOnSharedMemory) {
  const Tensor x = random_tensor(DType::f32, {16, 16}, 1);
  EXPECT_NE(fault_of([&] { run_kernel(replaced(examples::kTransposeKernel, "    barrier\n", ""), {x}); }).find("race: %s"),
            std::string::npos);
}

TEST(InterpretFaults, RegisterOfAnotherThread) {
  const Tensor x = random_tensor(DType::f32, {3, 100}, 1);
  EXPECT_NE(fault_of([&] {
              run_kernel(replaced(examples::kRowKernel, "load %x[%u2, %t2]", "load %x[%u2, -%t2 + 63]"), {x});
            }).find("was never written by thread 0"),
            std::string::npos);
}

TEST(InterpretFaults, PipesOutOfStep) {
  const std::vector<Tensor> inputs = {small_integers(DType::f16, {32, 80}, 1), small_integers(DType::f16, {32, 80}, 2),
                                      small_integers(DType::f32, {32}, 3)};
  auto fault = [&](std::string_view from, std::string_view to) {
    return fault_of([&] { run_kernel(replaced(examples::kMmaKernel, from, to), inputs); });
  };
  EXPECT_NE(fault("      release %p\n", "").find("waited for twice without a release"), std::string::npos);
  EXPECT_NE(fault("      wait %p\n", "").find("is read without a wait"), std::string::npos);
  EXPECT_NE(fault("lt(index(%k), 3)", "lt(index(%k), 2)").find("not committed"), std::string::npos);
  EXPECT_NE(fault("stages 3", "stages 2").find("acquired before it was released"), std::string::npos);
  // The stage that this iteration has released is filled at once: only a wait keeps the slower warps out of it.
  EXPECT_NE(fault("%k0 in 2", "%k0 in 3").find("acquired before it was released"), std::string::npos);
}

/// What the lanes of a warp have read in a reduce across them is read when it ends: any of them may then write it, other warps may not.
TEST(InterpretFaults, ReadsOfAReduceAcrossLanesAreDone) {
  const auto row = [](const std::string& store) {
    return "kernel #k target sm_80 grid 1 threads 64 shared 0 () -> (%y: f32[2, 32]) { map %w in 2 bind(warp) { map %i in 32 bind(lane) { "
           "store 1.0, %y[%w, "
           "%i] } %s: f32 = reduce sum %k in 31 bind(lane) { yield load %y[%w, %k + 1] } map %j in 32 bind(lane) { " +
           store + " } } }";
  };
  const std::string undefined = "race: %y at offset 1 is read by another thread than wrote it";
  EXPECT_NE(fault_of([&] { run_kernel(row("store %s, %y[%w, %j]"), {}); }).find(undefined), std::string::npos);
  const auto given = [&](const std::string& reads, const std::string& store) {
    return fault_of([&] {
      run_kernel("kernel #k target sm_80 grid 1 threads 64 shared 0 () -> (%y: f32[2, 32]) { map %w in 2 bind(warp) { " + reads +
                     " map %j in 32 bind(lane) { " + store + " } } }",
                 {});
    });
  };
  const std::string reduce = "%s: f32 = reduce sum %k in 31 bind(lane) { yield load %y[%w, %k + 1] }";
  EXPECT_EQ(given(reduce, "store %s, %y[%w, %j]"), "no fault");
  EXPECT_NE(given(reduce, "store %s, %y[1 - %w, %j]").find("is written while another thread may still read it"), std::string::npos);
  EXPECT_NE(given("map %k in 31 bind(lane) { if lt(load %y[%w, %k + 1], -1.0) { store 0.0, %y[%w, %k + 1] } }", "store 1.0, %y[%w, %j]")
                .find("is written while another thread may still read it"),
            std::string::npos);
}

TEST(InterpretFaults, BarrierNotReachedByAll) {
  EXPECT_NE(fault_of([&] {
              run_kernel("kernel #k target sm_80 grid 1 threads 64 shared 0 () -> (%y: f32[32]) { map %t in 32 bind(thread) { barrier } }",
                         {});
            }).find("a barrier is reached by 32 of 64 threads"),
            std::string::npos);
}

TEST(InterpretFaults, TwoBlocksWriteOneElement) {
  EXPECT_NE(fault_of([&] {
              run_kernel(
                  "kernel #k target sm_80 grid 2 threads 32 shared 0 () -> (%y: f32[1]) { map %b in 2 bind(block) { store "
                  "cast<f32>(index(%b)), %y[0] } }",
                  {});
            }).find("blocks 0 and 1 both write %y"),
            std::string::npos);
}

}  // namespace
}  // namespace tcc::loop
