// The verifiers: what the examples are free of, and one fault of each kind, by its message.
#include <gtest/gtest.h>

#include <string>

#include "loop/units.h"
#include "tcc/loop/loop.h"

namespace tcc::loop {
namespace {

std::string joined(const std::vector<std::string>& faults) {
  std::string text;
  for (const std::string& fault : faults) text += fault + "\n";
  return text;
}

std::string unit_faults(std::string_view text) { return joined(verify_first_form(parse_unit(text, "test"))); }
std::string kernel_faults(std::string_view text) { return joined(verify_kernel(parse_kernel(text, "test"))); }

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result(text);
  const size_t at = result.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? result : result.replace(at, from.size(), to);
}

void expect_fault(const std::string& faults, std::string_view message) {
  EXPECT_NE(faults.find(message), std::string::npos) << "got: " << faults;
}

TEST(VerifyFirstForm, ExamplesAreWellFormed) {
  for (std::string_view text : {examples::kSoftmax, examples::kLayerNorm, examples::kMatmul, examples::kArgmax, examples::kOnlineSoftmax,
                                examples::kScan, examples::kScatter, examples::kPadAndGather}) {
    EXPECT_EQ(unit_faults(text), "") << text;
  }
}

TEST(VerifyFirstForm, IndicesUnderConditions) {
  // Split with a tail; two loops from one with a tail; a difference of two variables.
  EXPECT_EQ(
      unit_faults("unit () -> (%y: f32[100]) { map %i in 4, %j in 32 where lt(index(%i * 32 + %j), 100) { store 0.0, %y[%i * 32 + %j] } }"),
      "");
  EXPECT_EQ(unit_faults("unit () -> (%y: f32[10, 10]) { map %f in 128 where lt(index(%f), 100) { store 0.0, %y[%f / 10, %f mod 10] } }"),
            "");
  EXPECT_EQ(unit_faults("unit () -> (%y: f32[8, 8]) { map %i in 8, %j in 8 { if ge(index(%i), index(%j)) { store 0.0, %y[%i - %j, %j] } "
                        "else { store 0.0, %y[%j - %i, %j] } } }")
                .find("out of bounds"),
            std::string::npos);
  EXPECT_EQ(unit_faults("unit (%n: i64[1]) -> (%y: f32[8]) { %k: i64 = load %n[0] if and(ge(%k, 0), lt(%k, 8)) { store 0.0, %y[%k] } }"),
            "");
  expect_fault(unit_faults("unit () -> (%y: f32[100]) { map %i in 4, %j in 32 { store 0.0, %y[%i * 32 + %j] } }"),
               "a store may be out of bounds");
  expect_fault(unit_faults("unit (%x: f32[8]) -> (%y: f32[8]) { map %i in 8 { store load %x[%i - 1], %y[%i] } }"),
               "a load may be out of bounds: %i - 1 is in [-1, 6]");
}

TEST(VerifyFirstForm, WritesOfAMapAreDisjoint) {
  expect_fault(unit_faults("unit () -> (%y: f32[8]) { map %i in 8, %j in 2 { store 0.0, %y[%i] } }"),
               "iterations of %j write the same element of %y");
  expect_fault(unit_faults("unit () -> (%y: f32[8]) { map %i in 4, %j in 3 { store 0.0, %y[%i * 2 + %j] } }"),
               "iterations of %j and %i write the same element of %y");
  EXPECT_EQ(unit_faults("unit () -> (%y: f32[8]) { map %i in 4, %j in 2 { store 0.0, %y[%i * 2 + %j] } }"), "");
  EXPECT_EQ(unit_faults("unit () -> (%y: f32[8]) { map %i in 8 { alloc %t: f32[1] local store 0.0, %t[0] store load %t[0], %y[%i] } }"),
            "");
}

// Every kind of loop: schedules divide by extents.
TEST(VerifyFirstForm, LoopsHaveIterations) {
  for (const char* body :
       {"map %i in 0 { store 0.0, %y[%i] }", "map %i in 4, %j in 0 { store 0.0, %y[%i] }", "map %i in 0, %j in 4 { store 0.0, %y[%j] }",
        "%s: f32 = reduce sum %k in 0 { yield load %x[%k] } store %s, %y[0]", "for %i in 0 bind(serial) { store 0.0, %y[%i] }"}) {
    expect_fault(unit_faults("unit (%x: f32[4]) -> (%y: f32[4]) { " + std::string(body) + " }"), "has 0 iterations, a loop has 1 to ");
  }
}

TEST(VerifyFirstForm, Faults) {
  expect_fault(unit_faults("unit (%x: f32[4]) -> () { store 0.0, %x[0] }"), "%x is only read, but stored to");
  expect_fault(unit_faults("unit () -> (%y: f32[4]) { map %i in 4 bind(thread) { store 0.0, %y[%i] } }"),
               "%i is bound to thread in the first form");
  expect_fault(unit_faults("unit () -> (%y: f32[4]) { barrier }"), "a statement of the scheduled form");
  // What the parser would not let through.
  Unit unit = parse_unit(examples::kSoftmax, "test");
  std::get<Loop>(unit.body[0].node).body.erase(std::get<Loop>(unit.body[0].node).body.begin());
  expect_fault(joined(verify_first_form(unit)), "%m is used before it is defined");
  unit = parse_unit(examples::kSoftmax, "test");
  unit.body.push_back(unit.body[0]);
  expect_fault(joined(verify_first_form(unit)), "%i is defined twice");
}

TEST(VerifyKernel, ExamplesAreWellFormed) {
  for (std::string_view text :
       {examples::kRowKernel, examples::kWarpKernel, examples::kTransposeKernel, examples::kCpuKernel, examples::kMmaKernel}) {
    EXPECT_EQ(kernel_faults(text), "") << text;
  }
}

TEST(VerifyKernel, BindsAndSpaces) {
  expect_fault(kernel_faults(replaced(examples::kRowKernel, "%u1 in 2 bind(unroll)", "%u1 in 2")), "%u1 is not bound");
  expect_fault(kernel_faults(replaced(examples::kRowKernel, "threads 64", "threads 32")), "loops bound to thread make 64, there are 32");
  expect_fault(kernel_faults(replaced(examples::kRowKernel, "grid 3", "grid 4")), "the grid is 4, the loops bound to it make 3");
  expect_fault(kernel_faults(replaced(examples::kRowKernel, "distributed(1)", "distributed(0)")), "axis 0 of %x is spread over threads");
  expect_fault(kernel_faults(replaced(examples::kRowKernel, "registers", "scratch")), "which only the CPU has");
  expect_fault(kernel_faults(replaced(examples::kCpuKernel, "bind(threads)", "bind(block)")),
               "%i is bound to block, which x86-64-v3 does not have");
  expect_fault(kernel_faults(replaced(examples::kTransposeKernel, "shared 288", "shared 256")),
               "shared buffers and reductions take 284 bytes, the kernel has 256");
  expect_fault(kernel_faults(replaced(examples::kMmaKernel, "shape m16n8k16", "shape m16n8k8")), "mma m16n8k8 does not take f16");
  expect_fault(kernel_faults(replaced(examples::kMmaKernel, "load %acc[%m1, %n1]", "load %acc[%n1, %m1 / 2]")), "%acc is a register tile");
}

TEST(VerifyKernel, CollectivesAndOrder) {
  expect_fault(kernel_faults(replaced(examples::kTransposeKernel, "    barrier\n", "")),
               "%s is written and then read without a barrier between");
  expect_fault(
      kernel_faults("kernel #k target sm_80 grid 1 threads 64 shared 0 () -> (%y: f32[32]) { map %t in 32 bind(thread) { barrier } }"),
      "not all threads of the block reach");
  EXPECT_EQ(kernel_faults(R"(kernel #k target sm_80 grid 1 threads 64 shared 0 () -> (%y: f32[64]) {
    map %w in 2 bind(warp), %l in 16 bind(lane) { %s: f32 = reduce sum %k in 2 bind(lane) { yield 1.0 } store %s, %y[%w * 16 + %l] } })"),
            "");
  expect_fault(kernel_faults(R"(kernel #k target sm_80 grid 1 threads 64 shared 0 () -> (%y: f32[64]) {
    map %w in 2 bind(warp), %l in 12 bind(lane) { %s: f32 = reduce sum %k in 2 bind(lane) { yield 1.0 } store %s, %y[%w * 12 + %l] } })"),
               "not all lanes of a warp reach a reduce across them");
  expect_fault(kernel_faults("kernel #k target sm_80 grid 1 threads 64 shared 0 (%x: f32[2]) -> (%y: f32[1]) { map %i in 2 bind(serial) { "
                             "scatter add load %x[%i], %y[0] } }"),
               "a scatter that several threads execute alike");
  expect_fault(kernel_faults(replaced(examples::kMmaKernel, "      release %p\n", "")), "never released");
  expect_fault(kernel_faults(replaced(examples::kMmaKernel, "      wait %p\n", "")), "%pa is read outside of a wait and a release of %p");
}

/// What differs between threads may be a value that a scalar holds; the iterations that a reduce leaves out are not there either.
TEST(VerifyKernel, ConditionsAroundCollectives) {
  const auto faults = [](const std::string& body) {
    return kernel_faults("kernel #k target sm_80 grid 1 threads 64 shared 1024 (%x: f32[64]) -> (%y: f32[64]) { " + body + " }");
  };
  EXPECT_EQ(faults("%c: bool = gt(load %x[0], 0.0) if %c { barrier }"), "");
  EXPECT_EQ(faults("%s: f32 = reduce sum %t in 64 bind(thread) { yield load %x[%t] } if gt(%s, 0.0) { barrier }"), "");
  const std::string block = "not all threads of the block reach a statement that needs them all";
  expect_fault(faults("map %t in 64 bind(thread) { %v: f32 = load %x[%t] %c: bool = gt(%v, 0.0) if %c { barrier } }"), block);
  expect_fault(faults("map %w in 2 bind(warp) { %s: f32 = reduce sum %l in 32 bind(lane) { yield load %x[%w * 32 + %l] } "
                      "if gt(%s, 0.0) { barrier } }"),
               block);
  expect_fault(
      faults("alloc %r: f32[1] registers map %t in 64 bind(thread) { store load %x[%t], %r[0] } if gt(load %r[0], 0.0) { barrier }"),
      block);
  expect_fault(faults("map %t in 64 bind(thread) where lt(index(%t), 5) { alloc %s: f32[4] shared }"), block);
  expect_fault(
      faults("map %w in 2 bind(warp), %l in 8 bind(lane) { %s: f32 = reduce sum %i in 4 bind(serial) where lt(index(%i + %l), 5) { "
             "%z: f32 = reduce sum %k in 4 bind(lane) { yield load %x[%k] } yield %z } store %s, %y[%w * 8 + %l] }"),
      "not all lanes of a warp reach a reduce across them");
}

/// What no emitter can do is refused here: a kernel that verifies compiles.
TEST(VerifyKernel, WhatTheEmittersCanNotDo) {
  const auto cpu = [](const std::string& body, int grid = 1) {
    return kernel_faults("kernel #k target x86-64-v3 grid " + std::to_string(grid) +
                         " threads 1 shared 0 (%x: f32[8, 64], %n: i64[64]) -> (%y: f32[8, 64], %t: f32[8]) { " + body + " }");
  };
  const auto cuda = [](const std::string& body, const std::string& threads = "32") {
    return kernel_faults("kernel #k target sm_80 grid 1 threads " + threads +
                         " shared 4096 (%x: f32[8, 64], %h: f16[64, 64]) -> (%y: f32[8, 64], %t: f32[8]) { " + body + " }");
  };
  expect_fault(cpu("map %i in 8 bind(vector) { map %j in 8 bind(vector) { store 0.0, %y[%i, %j] } }"),
               "within another loop bound to vector");
  expect_fault(cpu("map %i in 8 bind(vector) { scatter add load %x[%i, 0], %y[%i, 0] }"), "a scatter within a loop bound to vector");
  expect_fault(cpu("map %i in 8 bind(vector) where lt(index(%i), 1) { store load %x[%i, 0], %t[0] }"),
               "the lanes of a vector store different values to one element of %t");
  expect_fault(cpu("map %i in 8 bind(vector) { %a: f32 = load %x[%i, 0] %b: f32 = neg(%a) store %b, %t[3] }"), "store different values");
  EXPECT_EQ(cpu("map %i in 8 bind(vector) where lt(index(%i), 1) { store load %x[3, 0], %t[0] }"), "");
  expect_fault(cpu("map %i in 512 bind(vector) where lt(index(%i), 64) { store 0.0, %y[0, %i] }"), "is a vector of 512 lanes");
  expect_fault(cpu("map %i in 8 bind(serial) { map %j in 4294967296 bind(unroll) where lt(index(%j), 64) { store 0.0, %y[%i, %j] } }"),
               "operations of code");
  expect_fault(
      cpu("map %i in 2 bind(serial), %a in 1000 bind(unroll), %b in 1000 bind(unroll) where lt(index(%i + %a + %b), 8) { store 0.0, "
          "%t[%i + %a + %b] }"),
      "unrolled loops make");
  expect_fault(cpu("%s: f32 = reduce and %i in 8 bind(serial) { yield load %x[%i, 0] } store %s, %t[0]"), "`and` does not combine f32");
  expect_fault(cpu("alloc %b: f32[5, 2147483647] registers"), "bytes of a thread's stack");
  expect_fault(cpu("alloc %b: f32[5, 2147483647, 1048576] registers"), "has more than 140737488355328 bytes");
  expect_fault(cpu("alloc %b: f32[4, 4] strides(2, 1) registers"), "elements lie in one place");
  expect_fault(cpu("alloc %b: f32[4, 4] strides(9221120237041090560, 1) registers"), "has more than");
  expect_fault(cpu("map %i in 8 bind(serial) { scatter add load %x[%i, 0], %t[0] } map %j in 4 bind(threads) { store 0.0, %y[0, %j] }", 4),
               "a scatter that several parallel items execute alike");
  expect_fault(cuda("map %i in 1 bind(serial) { %s: f32 = reduce sum %w in 1 bind(warp) { yield 1.0 } store %s, %t[%i] }"),
               "a reduce across warps is bound to thread");
  expect_fault(cuda("map %i in 2 bind(thread) { %s: f32 = reduce sum %k in 16 bind(thread) { yield 1.0 } store %s, %t[%i] }"),
               "a reduce across threads within a loop over threads");
  expect_fault(cuda("map %i in 2 bind(lane) { %s: f32 = reduce sum %k in 12 bind(lane) { yield 1.0 } store %s, %t[%i] }"),
               "a reduce across 12 lanes within a loop over lanes");
  EXPECT_EQ(cuda("map %i in 4 bind(lane) { %s: f32 = reduce sum %k in 8 bind(lane) { yield 1.0 } store %s, %t[%i] }"), "");
  EXPECT_EQ(cuda("map %i in 4 bind(thread) { map %k in 8 bind(thread) { store 0.0, %y[%i, %k] } }"), "");
  expect_fault(cuda("alloc %d: f32[32] registers distributed(0) map %i in 32 bind(thread) { store 0.0, %d[%i] } "
                    "map %j in 31 bind(thread) { store load %d[%j + 1], %y[0, %j] }"),
               "axis 0 of %d is spread over threads, its index is %j + 1");
  expect_fault(cuda("alloc %d: f32[4] registers distributed(0) map %i in 4 bind(lane), %e in 8 bind(lane) { store 0.0, %d[%i] } "
                    "map %j in 4 bind(lane) { store load %d[%j], %y[0, %j] }"),
               "is held by other threads than where it is named before");
  expect_fault(cpu("alloc %b: f32[4] registers map %i in 4 bind(threads) { store 0.0, %b[%i] } map %j in 4 bind(serial) { store load "
                   "%b[%j], %t[%j] }",
                   4),
               "%b is not shared, each would fill a part of its own along %i, bound to threads");
  expect_fault(cuda("alloc %s: f16[64, 64] strides(65, 1) shared copy %h[0, 0] -> %s[0, 0] extents(64, 64) bytes 16 barrier"),
               "%s is not aligned so far");
  expect_fault(cuda("alloc %s: f16[64, 64] shared copy %h[0, 1] -> %s[0, 0] extents(64, 32) bytes 16 barrier"), "%h is not aligned so far");
  expect_fault(kernel_faults("kernel #k target sm_80 grid 4638564679689 threads 32 shared 0 () -> (%y: f32[8]) { map %i in 4638564679689 "
                             "bind(block) where lt(index(%i), 8) { store 0.0, %y[%i] } }"),
               "a launch has at most 2147483647");
}

/// A buffer that a masked loop fills is read where that mask holds: rows of 83 beside rows of 82, in as many pieces.
TEST(VerifyKernel, ReadsOfWhatIsNotWritten) {
  for (const int filled : {80, 81, 82, 83}) {
    for (const int read : {80, 81, 82, 83}) {
      const std::string f = std::to_string(filled), r = std::to_string(read);
      const std::string text =
          "kernel #k target x86-64-v3 grid 1 threads 1 shared 0 (%x: f32[88]) -> (%y: f32[88]) { alloc %k: f32[11, 8] registers "
          "map %i in 11 bind(serial), %j in 8 bind(vector) where lt(index(%i * 8 + %j), " +
          f + ") { store load %x[%i * 8 + %j], %k[%i, %j] } map %a in 11 bind(serial), %b in 8 bind(vector) where lt(index(%a * 8 + %b), " +
          r + ") { store load %k[%a, %b], %y[%a * 8 + %b] } }";
      if (read <= filled) EXPECT_EQ(kernel_faults(text), "") << filled << " " << read;
      else expect_fault(kernel_faults(text), "%k is read where it is not written: it is filled where lt(");
    }
  }
}

}  // namespace
}  // namespace tcc::loop
