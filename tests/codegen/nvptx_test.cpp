// PTX of kernels that are made for the test. Those that are texts are in nvptx.kernel.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <regex>

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

/// The estimate decides which kernels share an image, and what is made first: it must see what is written out several times.
TEST(Nvptx, EstimatesFollowTheLengthOfTheCode) {
  const auto ratio = [](const std::string& text) {
    const loop::Kernel kernel = loop::parse_kernel(text, "test");
    const std::string ptx = ptx_of(text);
    return static_cast<double>(estimate_code_size(kernel)) / count(ptx, ";\n");
  };
  const auto tile = [](const std::string& value) {
    return "kernel #k target sm_80 grid 1 threads 256 shared 0 (%x: f32[128, 256]) -> (%y: f32[128, 256]) {\n"
           "alloc %acc: f32[128, 256] registers tile(reg 0 4 16, reg 1 8 8, reg 0 2 8, reg 1 2 1, lane 0 8 1, lane 1 4 2, warp 0 2 64, "
           "warp 1 4 64)\n"
           "map %acc: %r in 128 bind(tile), %q in 256 bind(tile) { store load %x[%r, %q], %acc[%r, %q] }\n"
           "map %acc: %r1 in 128 bind(tile), %q1 in 256 bind(tile) { store " +
           value + ", %y[%r1, %q1] } }";
  };
  const auto looped = [](const std::string& bind) {
    return "kernel #k target sm_80 grid 8 threads 256 shared 0 (%x: f32[8, 64, 256]) -> (%y: f32[8, 64, 256]) {\n"
           "map %b in 8 bind(block), %i in 64 bind(" +
           bind + "), %t in 256 bind(thread) { store tanh(load %x[%b, %i, %t]), %y[%b, %i, %t] } }";
  };
  for (const std::string& text : {tile("load %acc[%r1, %q1]"), tile("tanh(load %acc[%r1, %q1])"), looped("serial"), looped("unroll")}) {
    EXPECT_GT(ratio(text), 0.2) << text;
    EXPECT_LT(ratio(text), 4) << text;
  }
  // A long body is written for the registers of one value of the slowest digit, in a loop that stays one.
  const std::string rolled = ptx_of(tile("add(tanh(load %acc[%r1, %q1]), exp(load %acc[%r1, %q1]))"));
  EXPECT_EQ(count(rolled, ".pragma \"nounroll\""), 1) << rolled;
  EXPECT_LT(count(rolled, "st.global"), count(ptx_of(tile("load %acc[%r1, %q1]")), "st.global") / 3) << rolled;
}

/// Loops over blocks and threads within each other are digits of one number.
TEST(Nvptx, NestedLoopsAreDigitsOfOneNumber) {
  const auto nested = [](const std::string& open) {
    return ptx_of(
        "kernel #k target sm_80 grid 6 threads 64 shared 0 (%x: f32[2, 3, 4, 16]) -> (%y: f32[2, 3, 4, 16]) { map %i in 2 bind(block)" +
        open + " %j in 3 bind(block), %s in 4 bind(thread)" + open +
        " %t in 16 bind(thread) { store neg(load %x[%i, %j, %s, %t]), %y[%i, %j, %s, %t] } }" + (open == "," ? "" : " } }"));
  };
  EXPECT_EQ(nested(" { map"), nested(","));
}

/// A float as LLVM prints it: decimal, or the bits of a double.
double number(const std::string& text) {
  if (!text.starts_with("0x")) return std::stod(text);
  return std::bit_cast<double>(std::stoull(text, nullptr, 16));
}

/// Constants fold to what the interpreter of kernels says, so the code before folding means it; and with one operand that is not a constant, f32 has one
/// instruction and a constant NaN leaves nothing to compute.
TEST(Nvptx, ExtremesKeepNaNAndOrderTheZeros) {
  for (const std::string d : {"f32", "f64"}) {
    std::vector<std::string> values;
    for (const char* value : {"nan", "0.0", "-0.0", "inf", "-inf", "1.5", "-3.0"}) values.push_back(d + "(" + value + ")");
    const std::string head = "kernel #k target sm_80 grid 1 threads 32 shared 0 (%x: " + d + "[32]) -> (%y: " + d + "[98]) {\n";
    for (const std::string op : {"max", "min"}) {
      std::string body;
      int64_t stores = 0;  // apart, so that none are merged
      for (const std::string& a : values) {
        for (const std::string& b : values) body += "store " + op + "(" + a + ", " + b + "), %y[" + std::to_string(2 * stores++) + "]\n";
      }
      loop::Kernel kernel = loop::parse_kernel(head + body + "}", "test");
      const DType dtype = d == "f32" ? DType::f32 : DType::f64;
      std::vector<Tensor> params{Tensor(dtype, {32}), Tensor(dtype, {98})};
      loop::interpret(kernel, params);
      Options options;
      options.target = kernel.target;
      options.want_llvm = true;
      const std::string text = emit_nvptx({{"k", &kernel}}, options).llvm_ir;
      const std::regex store("store (float|double) ([^,]*),");
      std::vector<double> folded;
      for (std::sregex_iterator it(text.begin(), text.end(), store), end; it != end; ++it) folded.push_back(number((*it)[2].str()));
      ASSERT_EQ(static_cast<int64_t>(folded.size()), stores) << text;
      for (int64_t i = 0; i < stores; ++i) {
        const double want = params[1].as_double(2 * i), got = folded[static_cast<size_t>(i)];
        ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : want == got && std::signbit(want) == std::signbit(got))
            << d << " " << op << " " << i << ": " << got << ", interpreted " << want << "\n"
            << text;
      }
      auto with = [&](const std::string& c) {
        return ptx_of(head + "map %t in 32 bind(thread) { store " + op + "(load %x[%t], " + d + "(" + c + ")), %y[%t] } }");
      };
      if (d == "f32") { EXPECT_EQ(count(with("0.0"), op + ".NaN.f32"), 1) << with("0.0"); }
      EXPECT_EQ(count(with("nan"), "ld.global"), 0) << with("nan");
    }
  }
}

}  // namespace
}  // namespace tcc::codegen
