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

}  // namespace
}  // namespace tcc::loop
