// The verifiers: what the examples are free of, and what a change of them makes. Other faults are in fail_units.loop and fail_kernels.kernel.
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

// Every kind of loop: schedules divide by extents.
TEST(VerifyFirstForm, LoopsHaveIterations) {
  for (const char* body :
       {"map %i in 0 { store 0.0, %y[%i] }", "map %i in 4, %j in 0 { store 0.0, %y[%i] }", "map %i in 0, %j in 4 { store 0.0, %y[%j] }",
        "%s: f32 = reduce sum %k in 0 { yield load %x[%k] } store %s, %y[0]", "for %i in 0 bind(serial) { store 0.0, %y[%i] }"}) {
    expect_fault(unit_faults("unit (%x: f32[4]) -> (%y: f32[4]) { " + std::string(body) + " }"), "has 0 iterations, a loop has 1 to ");
  }
}

TEST(VerifyFirstForm, WhatNoTextHolds) {
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
  expect_fault(kernel_faults(replaced(examples::kCpuKernel, "bind(parallel)", "bind(block)")),
               "%i is bound to block, which x86-64-v3 does not have");
  expect_fault(kernel_faults(replaced(examples::kTransposeKernel, "shared 288", "shared 256")),
               "shared buffers and reductions take 284 bytes, the kernel has 256");
  expect_fault(kernel_faults(replaced(examples::kMmaKernel, "shape m16n8k16", "shape m16n8k8")), "mma m16n8k8 does not take f16");
  expect_fault(kernel_faults(replaced(examples::kMmaKernel, "load %acc[%m1, %n1]", "load %acc[%n1, %m1 / 2]")), "%acc is a register tile");
}

TEST(VerifyKernel, Order) {
  expect_fault(kernel_faults(replaced(examples::kTransposeKernel, "    barrier\n", "")),
               "%s is written and then read without a barrier between");
  expect_fault(kernel_faults(replaced(examples::kMmaKernel, "      release %p\n", "")), "never released");
  expect_fault(kernel_faults(replaced(examples::kMmaKernel, "      wait %p\n", "")), "%pa is read outside of a wait and a release of %p");
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
