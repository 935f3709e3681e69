// Scatters of a library that is compiled with --deterministic: random updates that meet, of fractions whose sums depend on the order, have the bits of the
// interpreter, which makes them one after the other: on the host, by the interpreter of kernels for CUDA, and on a device where there is one.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

#include "device_kernel.h"
#include "host_unit.h"
#include "random_text.h"
#include "schedule/check_contract.h"
#include "tcc/schedule/order.h"

namespace tcc::codegen {
namespace {

using schedule::Target;

struct Case {
  std::string unit;
  int64_t extent;  ///< that indices are drawn from
};

/// Rows, elements along the first axis, single elements, or elements at two coordinates; some outside of the result.
Case random_case(uint32_t seed) {
  Random random(seed);
  const int64_t rows = pick<int64_t>(random, {1, 2, 7, 40}), n = pick<int64_t>(random, {1, 3, 16, 40, 300}),
                updates = pick<int64_t>(random, {1, 5, 16, 64});
  const std::string dtype = pick<std::string>(random, {"f32", "f32", "bf16", "i32"}),
                    how = pick<std::string>(random, {"add", "add", "mul", "assign"});
  const std::string result = dtype + "[" + text(rows) + ", " + text(n) + "]", updated = dtype + "[" + text(updates) + ", " + text(n) + "]";
  const std::string copy =
      "  map %i in " + text(rows) + ", %j in " + text(n) + " {\n    %o: " + dtype + " = load %x[%i, %j]\n    store %o, %r[%i, %j]\n  }\n";
  const std::string head = "unit (%x: " + result + ", %at: i64[",
                    update = "    %v: " + dtype + " = load %u[%ib, %jb]\n    scatter " + how + " %v, %r[";
  const std::string loop = "  map %ib in " + text(updates) + ", %jb in " + text(n) + " {\n", end = "]\n  }\n}\n";
  const std::string by_row = head + text(updates) + "], %u: " + updated + ") -> (%r: " + result + ") {\n" + copy + loop +
                             "    %k: i64 = load %at[%ib]\n" + update + "%k, %jb" + end;
  const std::string by_element = head + text(updates) + ", " + text(n) + "], %u: " + updated + ") -> (%r: " + result + ") {\n" + copy +
                                 loop + "    %k: i64 = load %at[%ib, %jb]\n" + update + "%k, %jb" + end;
  const std::string by_two = head + text(updates) + ", " + text(n) + ", 2], %u: " + updated + ") -> (%r: " + result + ") {\n" + copy +
                             loop + "    %k: i64 = load %at[%ib, %jb, 0]\n    %l: i64 = load %at[%ib, %jb, 1]\n" + update + "%k, %l" + end;
  const std::string by_column = head + text(updates) + "], %u: " + updated + ") -> (%r: " + result + ") {\n" + copy + loop +
                                "    %k: i64 = load %at[%ib]\n" + update + "0, %k" + end;
  return {pick(random, {by_row, by_row, by_element, by_two, by_column}), rows + 1};
}

std::vector<Tensor> params_of(const loop::Unit& unit, int64_t extent, uint32_t seed) {
  Random random(seed);
  std::vector<Tensor> params;
  for (const loop::Param& param : unit.params) {
    Tensor tensor(param.buffer->dtype, param.buffer->extents);
    for (int64_t i = 0; i < tensor.count() && !param.written; ++i) {
      if (is_float(tensor.dtype())) tensor.set_double(i, std::uniform_real_distribution<double>(-1, 1)(random));
      else tensor.set_int64(i, static_cast<int64_t>(random() % static_cast<uint32_t>(extent)));
    }
    params.push_back(std::move(tensor));
  }
  return params;
}

void expect_same_bits(const Tensor& found, const Tensor& expected) {
  for (int64_t i = 0; i < expected.count(); ++i) ASSERT_EQ(found.as_double(i), expected.as_double(i)) << "element " << i;
}

Target in_order() {
  Target target = Target::cuda_sm80();
  target.deterministic = true;
  return target;
}

struct Kernels {
  std::vector<loop::Kernel> kernels;
  std::vector<loop::BufferRef> temporaries;
};

Kernels kernels_for(const loop::Unit& unit, const Target& target) {
  Kernels result;
  result.kernels = schedule::split_kernels(schedule::apply(unit, schedule::choose(unit, target), target), target, &result.temporaries);
  return result;
}

/// All kernels of each case on `run_kernel`, with the bits of the interpreter.
void check_cases(uint32_t first_seed, uint32_t count, int runs, const schedule::RunKernel& run_kernel) {
  for (uint32_t seed = first_seed; seed < first_seed + count && !testing::Test::HasFailure(); ++seed) {
    const Case one = random_case(seed);
    SCOPED_TRACE("seed " + text(seed) + "\n" + one.unit);
    const loop::Unit unit = loop::parse_unit(one.unit, "test");
    const Kernels kernels = kernels_for(unit, in_order());
    for (const loop::Kernel& kernel : kernels.kernels) {
      EXPECT_FALSE(schedule::depends_on_order(kernel)) << loop::print(kernel, "k");
      for (const std::string& fault : loop::verify_kernel(kernel)) ADD_FAILURE() << fault << "\n" << loop::print(kernel, "k");
    }
    std::vector<Tensor> expected = params_of(unit, one.extent, seed);
    loop::interpret(unit, expected);
    for (int i = 0; i < runs; ++i) {
      std::vector<Tensor> found = params_of(unit, one.extent, seed);
      schedule::run(unit, kernels.kernels, kernels.temporaries, found, run_kernel);
      expect_same_bits(found.back(), expected.back());
    }
  }
}

TEST(ScatterOrder, KernelsForCuda) { check_cases(1, 80, 1, schedule::interpret_kernel); }

TEST(ScatterOrder, HostCode) {
  for (uint32_t seed = 201; seed <= 240 && !HasFailure(); ++seed) {
    const Case one = random_case(seed);
    SCOPED_TRACE("seed " + text(seed) + "\n" + one.unit);
    const loop::Unit unit = loop::parse_unit(one.unit, "test");
    for (const loop::Kernel& kernel : kernels_for(unit, Target::cpu_v3()).kernels)
      EXPECT_FALSE(schedule::depends_on_order(kernel)) << loop::print(kernel, "k");
    std::vector<Tensor> expected = params_of(unit, one.extent, seed), found = params_of(unit, one.extent, seed);
    loop::interpret(unit, expected);
    HostUnit(unit).run(found);
    expect_same_bits(found.back(), expected.back());
  }
}

TEST(ScatterOrderOnCuda, DeviceCode) {
  if (!DeviceKernels::available()) GTEST_SKIP() << "no CUDA device";
  check_cases(401, 100, 3, run_on_device);
}

/// What decides: the combiner, the dtype, and which dims run at once.
TEST(ScatterOrder, IsSaidOfKernels) {
  const auto depends = [](const std::string& binds, const std::string& scatter) {
    return schedule::depends_on_order(
        loop::parse_kernel("kernel #k target sm_80 grid 4 threads 32 shared 0 (%a: i64[4], %b: f32[4, 32], %c: i32[4, 32]) -> (%r: f32[8, "
                           "32], %s: i32[8, 32]) {\n"
                           "  map %i in 4 bind(" +
                               binds + "), %j in 32 bind(thread) {\n    %k: i64 = load %a[%i]\n    %v: f32 = load %b[%i, %j]\n" +
                               "    %w: i32 = load %c[%i, %j]\n    " + scatter + "\n  }\n}\n",
                           "test"));
  };
  EXPECT_TRUE(depends("block", "scatter add %v, %r[%k, %j]"));
  EXPECT_TRUE(depends("block", "scatter mul %v, %r[%k, %j]"));
  EXPECT_TRUE(depends("block", "scatter assign %w, %s[%k, %j]"));
  EXPECT_FALSE(depends("block", "scatter add %w, %s[%k, %j]"));
  EXPECT_FALSE(depends("block", "scatter max %v, %r[%k, %j]"));
  EXPECT_FALSE(depends("serial", "scatter add %v, %r[%k, %j]"));
  EXPECT_FALSE(depends("block", "scatter add %v, %r[%i, %j]"));
  EXPECT_TRUE(depends("serial", "scatter add %v, %r[%k, 0]"));
  EXPECT_TRUE(depends("block", "scatter add %v, %r[0, %i + %j]"));
  EXPECT_FALSE(depends("block", "if and(ge(index(%k - %i * 2), 0), lt(index(%k - %i * 2), 2)) { scatter add %v, %r[%k, %j] }"));
  EXPECT_TRUE(depends("block", "if and(ge(index(%k - %i), 0), lt(index(%k - %i), 2)) { scatter add %v, %r[%k, %j] }"));
}

}  // namespace
}  // namespace tcc::codegen
