// PTX texts: the instructions that a schedule asks for are there, and ptxas (where the machine has it) takes them without spills.
#include <gtest/gtest.h>

#include "tcc/codegen/codegen.h"

namespace tcc::codegen {
namespace {

std::string ptx_of(const std::string& text) {
  loop::Kernel kernel = loop::parse_kernel(text, "test");
  Options options;
  options.target = kernel.target;
  return emit_nvptx({{"k", &kernel}}, options).assembly;
}

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

void expect_assembles(const std::string& ptx) {
  if (find_ptxas().empty()) return;
  for (const char* arch : {"sm_80", "sm_90a"}) {
    std::string report;
    assemble_ptx(ptx, arch, &report);
    EXPECT_NE(report.find("0 bytes spill stores, 0 bytes spill loads"), std::string::npos) << report;
    EXPECT_EQ(report.find("C75"), std::string::npos) << report;
    EXPECT_NE(report.find("0 bytes stack frame"), std::string::npos) << report;
  }
}

TEST(Nvptx, PointwiseMovesSixteenBytesAThread) {
  std::string ptx = ptx_of(R"(kernel #k target sm_80 grid 1024 threads 256 shared 0 (%x: f32[1048576]) -> (%y: f32[1048576]) {
    map %b in 1024 bind(block), %t in 256 bind(thread), %l in 4 bind(vector) {
      store exp(load %x[%b * 1024 + %t * 4 + %l]), %y[%b * 1024 + %t * 4 + %l]
    } })");
  EXPECT_EQ(count(ptx, "ld.global.nc.v4"), 1) << ptx;
  EXPECT_EQ(count(ptx, "st.global.v4"), 1) << ptx;
  expect_assembles(ptx);
}

TEST(Nvptx, ARowIsReadOnceAndKeptInRegisters) {
  std::string ptx = ptx_of(R"(kernel #k target sm_80 grid 8192 threads 256 shared 256 (%x: f32[8192, 8192]) -> (%y: f32[8192, 8192]) {
    map %i in 8192 bind(block) {
      alloc %row: f32[8, 256, 4] registers distributed(1)
      map %u in 8 bind(unroll), %t in 256 bind(thread), %l in 4 bind(vector) { store load %x[%i, %u * 1024 + %t * 4 + %l], %row[%u, %t, %l] }
      %m: f32 = reduce max %u1 in 8 bind(unroll), %t1 in 256 bind(thread), %l1 in 4 bind(vector) { yield load %row[%u1, %t1, %l1] }
      %s: f32 = reduce sum %u2 in 8 bind(unroll), %t2 in 256 bind(thread), %l2 in 4 bind(vector) { yield exp(sub(load %row[%u2, %t2, %l2], %m)) }
      map %u3 in 8 bind(unroll), %t3 in 256 bind(thread), %l3 in 4 bind(vector) {
        store div(exp(sub(load %row[%u3, %t3, %l3], %m)), %s), %y[%i, %u3 * 1024 + %t3 * 4 + %l3]
      }
    } })");
  EXPECT_EQ(count(ptx, "ld.global.nc.v4"), 8);
  EXPECT_EQ(count(ptx, "st.global.v4"), 8);
  EXPECT_EQ(count(ptx, "bar"), 3) << ptx;
  EXPECT_EQ(count(ptx, "shfl.sync.bfly"), 20);
  expect_assembles(ptx);
}

TEST(Nvptx, TensorCoresReadAPipeOfAsynchronousCopies) {
  std::string ptx = ptx_of(
      R"(kernel #k target sm_80 grid 256 threads 256 shared 98304 (%a: bf16[2048, 512], %b: bf16[4096, 512]) -> (%c: bf16[2048, 4096]) {
    map %i in 16 bind(block), %j in 16 bind(block) {
      pipe %p stages 4 (%sa: bf16[128, 32] shared swizzle(2, 4, 3), %sb: bf16[256, 32] shared swizzle(2, 4, 3))
      alloc %acc: f32[128, 256] registers tile(reg 0 4 16, reg 1 8 8, reg 0 2 8, reg 1 2 1, lane 0 8 1, lane 1 4 2, warp 0 2 64, warp 1 4 64)
      map %acc: %r in 128 bind(tile), %q in 256 bind(tile) { store 0.0, %acc[%r, %q] }
      for %s in 3 bind(unroll) {
        acquire %p
        copy.async %a[%i * 128, %s * 32] -> %sa[0, 0] extents(128, 32) bytes 16
        copy.async %b[%j * 256, %s * 32] -> %sb[0, 0] extents(256, 32) bytes 16
        commit %p
      }
      for %k in 16 bind(serial) {
        wait %p
        if lt(index(%k), 13) {
          acquire %p
          copy.async %a[%i * 128, %k * 32 + 96] -> %sa[0, 0] extents(128, 32) bytes 16
          copy.async %b[%j * 256, %k * 32 + 96] -> %sb[0, 0] extents(256, 32) bytes 16
          commit %p
        }
        mma %acc, %sa[0, 0], %sb[0, 0] size(128, 256, 32) shape m16n8k16
        release %p
      }
      map %acc: %r1 in 128 bind(tile), %q1 in 256 bind(tile) { store cast<bf16>(load %acc[%r1, %q1]), %c[%i * 128 + %r1, %j * 256 + %q1] }
    } })");
  EXPECT_EQ(count(ptx, "mma.sync.aligned.m16n8k16"), 64);
  EXPECT_EQ(count(ptx, "ldmatrix.sync"), 16);
  EXPECT_GE(count(ptx, "cp.async.cg.shared.global"), 24);
  expect_assembles(ptx);
}

TEST(Nvptx, OnlyResultsOfSixteenBitsAreApproximated) {
  auto kernel = [](const std::string& value, const std::string& dtype) {
    return ptx_of("kernel #k target sm_80 grid 64 threads 256 shared 0 (%x: f32[16384]) -> (%y: " + dtype +
                  "[16384]) { map %b in 64 bind(block), %t in 256 bind(thread) { store " + value + ", %y[%b * 256 + %t] } }");
  };
  for (const std::string op : {"exp", "erf", "tanh", "rsqrt"}) {
    std::string exact = kernel(op + "(load %x[%b * 256 + %t])", "f32"),
                rounded = kernel("cast<bf16>(" + op + "(load %x[%b * 256 + %t]))", "bf16");
    EXPECT_EQ(count(exact, "approx"), 0) << op;
    EXPECT_GE(count(rounded, "approx"), 1) << op;
  }
}

}  // namespace
}  // namespace tcc::codegen
