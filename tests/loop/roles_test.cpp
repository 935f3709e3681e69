// Kernels of roles, pipes with mbarriers and asynchronous mma: what they compute, whoever of the roles comes first, and what is found when they are out of step.
#include <gtest/gtest.h>

#include <functional>

#include "tcc/loop/loop.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/tensor.h"

namespace tcc::loop {
namespace {

/// c[64, 16] = a[64, 192] * b[16, 192]^T, a tile of 64 for each of four rounds, three of them real, in steps of 64.
constexpr std::string_view kProduct =
    R"(kernel #k target sm_90a grid 1 threads 256 shared 60000 (%a: bf16[192, 192], %b: bf16[16, 192]) -> (%c: f32[192, 16]) {
  map %block in 1 bind(block) {
    pipe %p stages 2 mbarrier (%x: bf16[64, 64] shared swizzle(3, 4, 3) panel(64), %y: bf16[16, 64] shared swizzle(3, 4, 3) panel(64))
    roles {
      role math warps 4 registers 216 {
        map %t in 4 bind(serial) where lt(index(%t), 3) {
          alloc %acc: f32[64, 16] registers tile(reg 1 2 8, reg 0 2 8, reg 1 2 1, lane 0 8 1, lane 1 4 2, warp 0 4 16)
          map %acc: %i in 64 bind(tile), %j in 16 bind(tile) {
            store 0.0, %acc[%i, %j]
          }
          wait %p
          mma.async %acc, %x[0, 0], %y[0, 0] size(64, 16, 64) shape m64nNk16
          for %k in 2 bind(serial) {
            wait %p
            mma.async %acc, %x[0, 0], %y[0, 0] size(64, 16, 64) shape m64nNk16
            mma.wait 1
            release %p
          }
          mma.wait 0 (%acc)
          release %p
          map %acc: %i1 in 64 bind(tile), %j1 in 16 bind(tile) {
            store load %acc[%i1, %j1], %c[%t * 64 + %i1, %j1]
          }
        }
      }
      role load warps 4 registers 40 {
        map %t1 in 4 bind(serial) where lt(index(%t1), 3) {
          for %k1 in 3 bind(serial) {
            acquire %p
            copy.tma (%p0 in 64, %p1 in 64) %a[%t1 * 64 + %p0, %k1 * 64 + %p1] -> %x[%p0, %p1] bytes 16
            copy.tma (%q0 in 16, %q1 in 64) %b[%q0, %k1 * 64 + %q1] -> %y[%q0, %q1] bytes 16
            commit %p
          }
        }
      }
    }
  }
}
)";

Tensor small_integers(Shape shape, uint32_t seed) {
  Tensor tensor(DType::bf16, std::move(shape));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    tensor.set_double(i, static_cast<double>(seed >> 30) - 1);
  }
  return tensor;
}

std::string replaced(std::string_view from, std::string_view to) {
  std::string result(kProduct);
  const size_t at = result.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? result : result.replace(at, from.size(), to);
}

std::vector<Tensor> run(std::string_view text) {
  std::vector<Tensor> tensors{small_integers({192, 192}, 1), small_integers({16, 192}, 2), Tensor()};
  interpret(parse_kernel(text, "test"), tensors);
  return tensors;
}

std::string fault_of_run(std::string_view from, std::string_view to) {
  try {
    run(replaced(from, to));
  } catch (const Error& error) { return error.what(); }
  return "no fault";
}

std::string faults_of_text(std::string_view from, std::string_view to) {
  std::string all;
  for (const std::string& fault : verify_kernel(parse_kernel(replaced(from, to), "test"))) all += fault + "\n";
  return all;
}

TEST(Roles, MultiplyWhatTheyCopy) {
  EXPECT_EQ(verify_kernel(parse_kernel(kProduct, "test")), std::vector<std::string>());
  const Kernel kernel = parse_kernel(kProduct, "test");
  EXPECT_EQ(print(kernel, "k"), kProduct);
  const std::vector<Tensor> tensors = run(kProduct);
  for (int64_t i = 0; i < 192; ++i) {
    for (int64_t j = 0; j < 16; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < 192; ++k) sum += tensors[0].as_double(i * 192 + k) * tensors[1].as_double(j * 192 + k);
      ASSERT_EQ(tensors[2].as_double(i * 16 + j), sum) << i << ", " << j;
    }
  }
}

TEST(Roles, OutOfStepAreFound) {
  const auto found = [](const std::string& fault, std::string_view part) { EXPECT_NE(fault.find(part), std::string::npos) << fault; };
  found(fault_of_run("            mma.wait 1\n            release %p\n", "            mma.wait 1\n"), "it would not end");
  found(fault_of_run("for %k1 in 3", "for %k1 in 2"), "not committed: it would not end");
  found(fault_of_run("for %k1 in 3", "for %k1 in 4"), "would wait for ever");
  found(fault_of_run("            mma.wait 1\n", ""), "released while an asynchronous mma may still read it");
  found(fault_of_run("          mma.wait 0 (%acc)\n          release %p\n", "          mma.wait 1\n          release %p\n"),
        "while an asynchronous mma may still");
  found(fault_of_run("            commit %p\n", ""), "acquired twice");
  found(fault_of_run("          wait %p\n          mma.async", "          mma.async"), "read without a wait");
}

TEST(Roles, VerifierRefuses) {
  const auto refused = [](std::string_view from, std::string_view to, std::string_view part) {
    const std::string faults = faults_of_text(from, to);
    EXPECT_NE(faults.find(part), std::string::npos) << from << " -> " << to << "\n" << faults;
  };
  refused("            mma.wait 1\n", "", "released while an asynchronous mma may still read it");
  refused("mma.wait 0 (%acc)", "mma.wait 0", "without a wait that names it");
  refused("target sm_90a", "target sm_80", "which sm_80 does not have");
  refused("role load warps 4", "role load warps 3", "roles of 7 warps in a block of 256 threads");
  refused("registers 216", "registers 250", "registers of roles are a multiple of 8");
  refused("mbarrier (%x", "(%x", "a tma fills pipes with mbarriers");
  refused("copy.tma (%p0", "copy.async (%p0", "lies in panels");
  refused("%x: bf16[64, 64] shared swizzle(3, 4, 3)", "%x: bf16[64, 64] shared swizzle(2, 4, 3)", "panels of 128 bytes");
  refused("panel(64), %y", ", %y", "not whole panels");
  refused("reg 1 2 8, reg 0 2 8", "reg 0 2 8, reg 1 2 8", "not laid out as the accumulator of warpgroups");
  refused("mma.async %acc, %x[0, 0], %y[0, 0] size(64, 16, 64)", "mma %acc, %x[0, 0], %y[0, 0] size(64, 16, 64)", "is asynchronous");
  refused("%a[%t1 * 64 + %p0, %k1 * 64 + %p1]", "%a[%t1 * 64 + %p1, %k1 * 64 + %p0]", "not one of neighbours along axes");
  refused("            acquire %p\n", "            acquire %p\n            wait %p\n            release %p\n", "is read by several roles");
}

// Of 8 bits a step of the sum is twice as long, and sums of integers are i32.
TEST(Roles, FactorsOfBytes) {
  const auto replaced = [](std::string text, std::initializer_list<std::pair<std::string_view, std::string_view>> changes) {
    for (const auto& [from, to] : changes) {
      EXPECT_NE(text.find(from), std::string::npos) << from;
      for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
    }
    return text;
  };
  const std::string text = replaced(std::string(kProduct), {{"%a: bf16[192, 192]", "%a: i8[192, 384]"},
                                                            {"%b: bf16[16, 192]", "%b: u8[16, 384]"},
                                                            {"%x: bf16[64, 64]", "%x: i8[64, 128]"},
                                                            {"%y: bf16[16, 64]", "%y: u8[16, 128]"},
                                                            {"panel(64)", "panel(128)"},
                                                            {"size(64, 16, 64) shape m64nNk16", "size(64, 16, 128) shape m64nNk32"},
                                                            {"%p1 in 64", "%p1 in 128"},
                                                            {"%q1 in 64", "%q1 in 128"},
                                                            {"%k1 * 64", "%k1 * 128"},
                                                            {"%acc: f32", "%acc: i32"},
                                                            {"store 0.0", "store i32(0)"},
                                                            {"%c: f32", "%c: i32"}});
  EXPECT_EQ(verify_kernel(parse_kernel(text, "test")), std::vector<std::string>());
  const auto refused = [&](std::initializer_list<std::pair<std::string_view, std::string_view>> changes, std::string_view why) {
    const std::vector<std::string> faults = verify_kernel(parse_kernel(replaced(text, changes), "test"));
    const bool said =
        std::any_of(faults.begin(), faults.end(), [&](const std::string& fault) { return fault.find(why) != std::string::npos; });
    EXPECT_TRUE(said) << why << (faults.empty() ? "" : ": " + faults.front());
  };
  refused({{"%acc: i32", "%acc: f32"}, {"store i32(0)", "store 0.0"}, {"%c: i32", "%c: f32"}},
          "the accumulator of an mma of i8 is an i32 register tile");
  refused({{": u8[", ": f8e4m3fn["}}, "mma m64nNk32 does not take i8 and f8e4m3fn");
  refused({{"m64nNk32", "m64nNk16"}}, "mma m64nNk16 does not take i8 and u8");
  refused({{"%x[0, 0], %y[0, 0]", "%x[0, 0], transpose %y[0, 0]"}}, "m64nNk32 takes no transposed operand");
  refused({{"size(64, 16, 128)", "size(64, 16, 144)"}}, "m64nNk32 on a sum of 144");
}

// Tensor maps of f32 round what they bring.
TEST(Roles, F32OfTheCopyEngineIsForMmaAlone) {
  std::string text(kProduct);
  const auto replace = [&](std::string_view from, std::string_view to) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
  };
  replace("bf16[", "f32[");
  replace("panel(64)", "panel(32)");
  replace("m64nNk16", "m64nNk8");
  EXPECT_EQ(verify_kernel(parse_kernel(text, "test")), std::vector<std::string>());
  replace("store load %acc[%i1, %j1], %c", "store add(load %acc[%i1, %j1], load %y[0, 0]), %c");
  const std::vector<std::string> faults = verify_kernel(parse_kernel(text, "test"));
  EXPECT_TRUE(std::any_of(faults.begin(), faults.end(),
                          [](const std::string& fault) { return fault.find("rounds %y to tf32") != std::string::npos; }));
}

}  // namespace
}  // namespace tcc::loop
