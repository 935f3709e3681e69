// Code for parameters whose rows have padding: random units of rows, maps and reductions, run on the host and on a device where there is one, against the
// interpreter of loops. The padding is full of NaN.
#include <gtest/gtest.h>

#include "device_kernel.h"
#include "host_unit.h"
#include "random_text.h"
#include "schedule/check_contract.h"
#include "schedule/padded_rows.h"
#include "tcc/codegen/codegen.h"

namespace tcc::codegen {
namespace {

using schedule::Target;

/// Shape [images, rows, n] of both parameters; %b has one element a column.
struct Shape {
  int64_t images, rows, n;
  std::string dtype;
  std::string of_rows() const { return dtype + "[" + text(images) + ", " + text(rows) + ", " + text(n) + "]"; }
  std::string head() const {
    return "unit (%a: " + of_rows() + ", %b: " + dtype + "[" + text(n) + "]) -> (%r: " + of_rows() + ") {\n  map %i in " + text(images) +
           ", %j in " + text(rows);
  }
  std::string value(const std::string& x) const { return dtype == "f32" ? x : "cast<f32>(" + x + ")"; }
  std::string stored(const std::string& x) const { return dtype == "f32" ? x : "cast<" + dtype + ">(" + x + ")"; }
};

/// Each element times that of its column, plus one: a map.
std::string map_unit(const Shape& s) {
  return s.head() + ", %k in " + text(s.n) + " {\n    %v: " + s.dtype + " = load %a[%i, %j, %k]\n    %w: " + s.dtype +
         " = load %b[%k]\n    store " + s.stored("add(mul(" + s.value("%v") + ", " + s.value("%w") + "), 1.0)") +
         ", %r[%i, %j, %k]\n  }\n}\n";
}

/// Each element less the largest of its row, plus the sum of the row.
std::string rows_unit(const Shape& s) {
  const std::string load = ": " + s.dtype + " = load %a[%i, %j, ";
  return s.head() + " {\n    %m: f32 = reduce max %k in " + text(s.n) + " {\n      %v" + load + "%k]\n      yield " + s.value("%v") +
         "\n    }\n    %s: f32 = reduce sum %l in " + text(s.n) + " {\n      %w" + load + "%l]\n      yield " + s.value("%w") +
         "\n    }\n    map %o in " + text(s.n) + " {\n      %x" + load + "%o]\n      store " +
         s.stored("add(sub(" + s.value("%x") + ", %m), %s)") + ", %r[%i, %j, %o]\n    }\n  }\n}\n";
}

/// Columns in reverse: rows are read against the direction in which they are written.
std::string reversed_unit(const Shape& s) {
  return s.head() + ", %k in " + text(s.n) + " {\n    store load %a[%i, %j, " + text(s.n - 1) + " - %k], %r[%i, %j, %k]\n  }\n}\n";
}

/// Windows over a row, zeros outside.
std::string window_unit(const Shape& s) {
  return s.head() + ", %k in " + text(s.n) + " {\n    %s: f32 = reduce sum %w in 3 {\n      %v: " + s.dtype +
         " = load %a[%i, %j, %k + %w - 1] else " + (s.dtype == "f32" ? "0.0" : s.dtype + "(0.0)") + "\n      yield " + s.value("%v") +
         "\n    }\n    store " + s.stored("%s") + ", %r[%i, %j, %k]\n  }\n}\n";
}

std::string random_unit(uint32_t seed) {
  Random random(seed);
  const Shape shape{pick<int64_t>(random, {1, 2, 5}), pick<int64_t>(random, {1, 3, 40}),
                    pick<int64_t>(random, {1, 7, 31, 65, 77, 197, 1003}), pick<std::string>(random, {"f32", "bf16", "f16"})};
  const auto make = pick(random, {map_unit, rows_unit, rows_unit, reversed_unit, window_unit});
  return schedule::examples::with_padded_rows(make(shape));
}

void run_on_host(const loop::Kernel& kernel, std::vector<Tensor>& arguments) {
  std::vector<Tensor> params;
  for (const Tensor& argument : arguments) {
    params.emplace_back(argument.dtype(), argument.shape());
    std::memcpy(params.back().mutable_bytes(), argument.bytes(), static_cast<size_t>(argument.size_bytes()));
  }
  HostKernel(kernel).run(params);
  arguments = params;
}

TEST(PaddedRows, HostCode) {
  for (uint32_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    const std::string unit = random_unit(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + unit);
    schedule::check(unit, Target::cpu_v3(), nullptr, 0, run_on_host);
  }
}

TEST(PaddedRows, KernelsForCuda) {
  for (uint32_t seed = 101; seed <= 160 && !HasFailure(); ++seed) {
    const std::string unit = random_unit(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + unit);
    schedule::check(unit, Target::cuda_sm80(), nullptr, 0);
  }
}

/// Pieces of one row of memory behind the rows of %a: vectors that are inside together or not at all, and others.
std::string random_concat(uint32_t seed) {
  Random random(seed);
  const int64_t images = pick<int64_t>(random, {1, 2, 5}), rows = pick<int64_t>(random, {1, 3, 40}),
                n = pick<int64_t>(random, {3, 8, 16, 24, 128});
  const int64_t begin = pick<int64_t>(random, {0, 3, 4, 8, 64}), end = pick<int64_t>(random, {0, 1, 4, 8});
  const std::string dtype = pick<std::string>(random, {"f32", "bf16", "f16"}), zero = dtype == "f32" ? "0.0" : dtype + "(0.0)";
  return "unit (%a: " + dtype + "[" + text(images) + ", " + text(rows) + ", " + text(n) + "], %b: " + dtype + "[" +
         text(begin + images * n + end) + "]) -> (%r: " + dtype + "[" + text(images) + ", " + text(rows + 1) + ", " + text(n) +
         "]) {\n  map %i in " + text(images) + ", %j in " + text(rows + 1) + ", %k in " + text(n) + " {\n    %v: " + dtype +
         " = load %a[%i, %j, %k] else " + zero + "\n    %w: " + dtype + " = load %b[%k + %i * " + text(n) + " + %j * " + text(n) + " - " +
         text(rows * n) + " + " + text(begin) + "] else " + zero + "\n    store select(lt(index(%j), " + text(rows) +
         "), %v, %w), %r[%i, %j, %k]\n  }\n}\n";
}

TEST(GuardedVectors, HostCodeAndKernelsForCuda) {
  for (uint32_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    const std::string unit = random_concat(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + unit);
    schedule::check(unit, Target::cpu_v3(), nullptr, 0, run_on_host);
    schedule::check(unit, Target::cuda_sm80(), nullptr, 0);
  }
}

TEST(PaddedRowsOnCuda, GuardedVectors) {
  if (!DeviceKernels::available()) GTEST_SKIP() << "no CUDA device";
  for (uint32_t seed = 101; seed <= 200 && !HasFailure(); ++seed) {
    const std::string unit = random_concat(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + unit);
    schedule::check(unit, Target::cuda_sm80(), nullptr, 0, run_on_device);
  }
}

/// The first kernel for sm_80.
std::string ptx_of(const std::string& given) {
  const loop::Unit unit = loop::parse_unit(given, "test");
  const Target target = Target::cuda_sm80();
  const std::vector<loop::Kernel> kernels =
      schedule::split_kernels(schedule::apply(unit, schedule::choose(unit, target), target), target, nullptr);
  Options options;
  options.target = target.name;
  return emit_nvptx({{"k", &kernels.at(0)}}, options).assembly;
}

/// A cache of values and the newest one behind it, which is a part of a longer row.
TEST(GuardedVectors, AreVectors) {
  const std::string given =
      "unit (%a: bf16[8, 2048, 128], %b: bf16[6144]) -> (%r: bf16[8, 2049, 128]) {\n  map %i in 8, %j in 2049, %k in 128 {\n"
      "    %v: bf16 = load %a[%i, %j, %k] else bf16(0.0)\n"
      "    %w: bf16 = load %b[%k + %i * 128 + %j * 128 - 261120] else bf16(0.0)\n"
      "    store select(lt(index(%j), 2048), %v, %w), %r[%i, %j, %k]\n  }\n}\n";
  const std::string ptx = ptx_of(given);
  EXPECT_NE(ptx.find("ld.global.nc.v4.b32"), std::string::npos) << ptx;
  EXPECT_NE(ptx.find("st.global.v4.b32"), std::string::npos) << ptx;
  EXPECT_EQ(ptx.find("ld.global.nc.b16"), std::string::npos) << ptx;
}

/// Whole vectors go to the ends of rows, where padding follows.
TEST(PaddedRows, AreReadAndWrittenInVectors) {
  const Shape shape{4, 64, 197, "bf16"};
  const std::string negated = shape.head() + ", %k in 197 {\n    store neg(load %a[%i, %j, %k]), %r[%i, %j, %k]\n  }\n}\n";
  for (const std::string& dense : {negated, rows_unit(shape)}) {
    const std::string ptx = ptx_of(schedule::examples::with_padded_rows(dense));
    EXPECT_NE(ptx.find("ld.global.nc.v4.b32"), std::string::npos) << ptx;
    EXPECT_NE(ptx.find("st.global.v4.b32"), std::string::npos) << ptx;
    EXPECT_EQ(ptx.find("st.global.b16"), std::string::npos) << ptx;
  }
}

TEST(PaddedRowsOnCuda, DeviceCode) {
  if (!DeviceKernels::available()) GTEST_SKIP() << "no CUDA device";
  for (uint32_t seed = 201; seed <= 400 && !HasFailure(); ++seed) {
    const std::string unit = random_unit(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + unit);
    schedule::check(unit, Target::cuda_sm80(), nullptr, 0, run_on_device);
  }
}

}  // namespace
}  // namespace tcc::codegen
