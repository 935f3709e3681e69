// Kernels for x86-64 against the interpreter of the loop IR.
#include <gtest/gtest.h>

#include <cmath>

#include "host_kernel.h"

namespace tcc::codegen {
namespace {

void expect_as_interpreted(const std::string& text, double tolerance = 1e-5) {
  HostKernel kernel(text);
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    std::vector<Tensor> expected = random_params(kernel.kernel(), seed), got = random_params(kernel.kernel(), seed);
    loop::interpret(kernel.kernel(), expected);
    // In two pieces, as the pool would.
    int64_t middle = kernel.kernel().grid / 2;
    if (kernel.kernel().grid > 1) kernel.run(got, 0, middle);
    kernel.run(got, kernel.kernel().grid > 1 ? middle : 0, kernel.kernel().grid);
    for (size_t p = 0; p < got.size(); ++p) {
      for (int64_t i = 0; i < got[p].count(); ++i) {
        double want = expected[p].as_double(i), value = got[p].as_double(i);
        if (std::isnan(want) && std::isnan(value)) continue;
        ASSERT_NEAR(value, want, tolerance * (1 + std::fabs(want))) << "parameter " << p << " element " << i << " of\n" << text;
      }
    }
  }
}

/// Each element type and each number of elements that whole vectors leave over, at addresses that are aligned as elements are.
TEST(X86, ParametersAreAlignedAsTheirElementsAre) {
  for (const std::string dtype : {"f64", "f32", "i64", "i32", "f16", "bf16", "u8"}) {
    std::string reads, writes, body;
    for (const std::string bind : {"vector", "unroll"}) {
      for (const int extent : {2, 3, 4, 5, 6, 7, 8, 12, 16}) {
        const std::string n = std::to_string(extent), k = n + bind, type = ": " + dtype + "[3, " + n + "]";
        reads += (reads.empty() ? "" : ", ") + ("%x" + k) + type;
        writes += (writes.empty() ? "" : ", ") + ("%y" + k) + type;
        body += "map %i" + k + " in 3 bind(serial), %j" + k + " in " + n + " bind(" + bind + ") { store max(load %x" + k + "[%i" + k +
                ", %j" + k + "], " + dtype + "(0)), %y" + k + "[%i" + k + ", %j" + k + "] }\n";
      }
    }
    expect_as_interpreted("kernel #k target x86-64-v3 grid 1 threads 1 shared 0 (" + reads + ") -> (" + writes + ") {\n" + body + "}");
  }
}

TEST(X86, MasksTheTailOfAVectorLoop) {
  expect_as_interpreted(R"(kernel #k target x86-64-v3 grid 1 threads 1 shared 0 (%x: f32[3, 13]) -> (%y: f32[3, 13]) {
    map %i in 3 bind(serial), %j in 2 bind(serial), %l in 8 bind(vector) where lt(index(%j * 8 + %l), 13) {
      store mul(load %x[%i, %j * 8 + %l], 2.0), %y[%i, %j * 8 + %l]
    } })");
}

TEST(X86, ReducesOverVectorsAndUnrolledCopies) {
  expect_as_interpreted(R"(kernel #k target x86-64-v3 grid 5 threads 1 shared 0 (%x: f32[5, 64]) -> (%s: f32[5], %m: f32[5]) {
    map %i in 5 bind(threads) {
      %a: f32 = reduce sum %j in 2 bind(serial), %u in 4 bind(unroll), %l in 8 bind(vector) { yield load %x[%i, %j * 32 + %u * 8 + %l] }
      %b: f32 = reduce max %j2 in 8 bind(serial), %l2 in 8 bind(vector) { yield load %x[%i, %j2 * 8 + %l2] }
      store %a, %s[%i]
      store %b, %m[%i]
    } })");
}

TEST(X86, FindsTheIndexOfTheLargest) {
  expect_as_interpreted(R"(kernel #k target x86-64-v3 grid 1 threads 1 shared 0 (%a: f32[3, 16]) -> (%v: f32[3], %i: i64[3]) {
    map %r in 3 bind(serial) {
      %m: f32, %n: i64 = reduce init(-inf, -1) %j in 2 bind(serial), %l in 8 bind(vector) {
        yield load %a[%r, %j * 8 + %l], index(%j * 8 + %l)
      } combine (%lv: f32, %li: i64), (%rv: f32, %ri: i64) {
        %take: bool = or(gt(%rv, %lv), and(eq(%rv, %lv), lt(%ri, %li)))
        %first: bool = or(%take, lt(%li, 0))
        yield select(%first, %rv, %lv), select(%first, %ri, %li)
      }
      store %m, %v[%r]
      store %n, %i[%r]
    } })");
}

TEST(X86, KeepsARegisterTileOfAProduct) {
  expect_as_interpreted(R"(kernel #k target x86-64-v3 grid 2 threads 1 shared 0 (%a: f32[8, 5], %b: f32[5, 16]) -> (%c: f32[8, 16]) {
    map %i in 2 bind(threads) {
      alloc %t: f32[4, 16] registers
      map %m in 4 bind(unroll), %n in 16 bind(vector) { store 0.0, %t[%m, %n] }
      for %k in 5 bind(serial) {
        map %m1 in 4 bind(unroll), %n1 in 16 bind(vector) {
          store add(load %t[%m1, %n1], mul(load %a[%i * 4 + %m1, %k], load %b[%k, %n1])), %t[%m1, %n1]
        }
      }
      map %m2 in 4 bind(unroll), %n2 in 16 bind(vector) { store max(load %t[%m2, %n2], 0.0), %c[%i * 4 + %m2, %n2] }
    } })");
}

TEST(X86, ReadsPaddingAsTheElseValue) {
  expect_as_interpreted(R"(kernel #k target x86-64-v3 grid 1 threads 1 shared 0 (%x: f32[6, 9]) -> (%y: f32[6, 16]) {
    map %i in 6 bind(serial), %l in 16 bind(vector) { store add(load %x[%i - 1, %l - 2] else 3.0, load %x[%i, 2 * %l] else 1.0), %y[%i, %l] } })");
}

TEST(X86, GathersByDataAndReadsZeroOutside) {
  expect_as_interpreted(
      R"(kernel #k target x86-64-v3 grid 1 threads 1 shared 0 (%t: f32[4, 8], %x: i64[16]) -> (%y: f32[16, 8], %z: f32[16]) {
    map %i in 16 bind(serial), %l in 8 bind(vector) { %v: i64 = load %x[%i]; store load %t[%v, %l] else 0.0, %y[%i, %l] }
    map %j in 2 bind(serial), %k in 8 bind(vector) { %w: i64 = load %x[%j * 8 + %k]; store load %t[%w, 3] else 0.0, %z[%j * 8 + %k] } })");
}

TEST(X86, ScansAndScatters) {
  expect_as_interpreted(
      R"(kernel #k target x86-64-v3 grid 1 threads 1 shared 0 (%a: f32[2, 5], %x: i64[10]) -> (%b: f32[2, 5], %h: f32[6]) {
    map %i in 2 bind(serial) { %s: f32 = scan sum exclusive %j in 5 bind(serial) { yield load %a[%i, -%j + 4] } after { store %s, %b[%i, %j] } }
    map %z in 6 bind(serial) { store 0.0, %h[%z] }
    map %e in 10 bind(serial) { %d: i64 = load %x[%e]; scatter add 1.5, %h[%d] } })");
}

TEST(X86, ConvertsEveryDtype) {
  for (const char* dtype : {"f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"}) {
    std::string d = dtype;
    expect_as_interpreted("kernel #k target x86-64-v3 grid 1 threads 1 shared 0 (%x: f32[16], %w: " + d + "[16]) -> (%y: " + d +
                          "[16], %v: f32[16]) {"
                          "map %l in 16 bind(vector) { store cast<" +
                          d + ">(mul(load %x[%l], 100.0)), %y[%l]; store cast<f32>(load %w[%l]), %v[%l] } }");
  }
}

TEST(X86, IntegerDivisionNeverTraps) {
  for (const char* dtype : {"i32", "i64", "u8"}) {
    std::string d = dtype;
    for (const char* op : {"div", "rem", "mod"}) {
      expect_as_interpreted("kernel #k target x86-64-v3 grid 1 threads 1 shared 0 (%x: " + d + "[64], %w: " + d + "[64]) -> (%y: " + d +
                            "[64]) {"
                            "map %i in 8 bind(serial), %l in 8 bind(vector) { store " +
                            op + "(load %x[%i * 8 + %l], load %w[%i * 8 + %l]), %y[%i * 8 + %l] } }");
    }
  }
}

/// NaN equals NaN; the zeros differ.
bool same_value(double a, double b) { return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b); }

/// Every extreme of every pair of special and ordinary values, an operand being a constant or not, in vectors and alone, against the interpreter.
TEST(X86, ExtremesKeepNaNAndOrderTheZeros) {
  const double values[] = {NAN, 0.0, -0.0, INFINITY, -INFINITY, 1.5, -3.0, 2.5};
  for (const std::string d : {"f64", "f32", "f16", "bf16"}) {
    std::vector<std::string> constants;
    for (const char* value : {"nan", "0.0", "-0.0", "inf", "-inf", "1.5", "-3.0"}) constants.push_back(d + "(" + value + ")");
    // Row by row: all pairs of variables, then each constant with all variables.
    std::string body;
    int rows = 0;
    auto add = [&](const std::string& value) {
      const std::string row = std::to_string(rows++), i = "%i" + row, l = "%l" + row;
      auto at = [&](std::string text, const std::string& index) {
        for (size_t found; (found = text.find('@')) != std::string::npos;) text.replace(found, 1, index);
        return text;
      };
      body += "map " + i + " in 8 bind(serial), " + l + " in 8 bind(vector) { store " + at(value, i + " * 8 + " + l) + ", %v[" + row +
              ", " + i + " * 8 + " + l + "] }\n";
      body += "map " + i + "s in 64 bind(serial) { store " + at(value, i + "s") + ", %s[" + row + ", " + i + "s] }\n";
    };
    for (const std::string op : {"max", "min"}) {
      add(op + "(load %x[@], load %y[@])");
      for (const std::string& c : constants) {
        add(op + "(load %x[@], " + c + ")");
        add(op + "(" + c + ", load %x[@])");
      }
    }
    add("clamp(load %x[@], load %y[@], load %z[@])");
    for (const std::string& low : constants) {
      for (const std::string& high : constants) add("clamp(load %x[@], " + low + ", " + high + ")");
    }
    const std::string n = std::to_string(rows), both = ": " + d + "[" + n + ", 64]";
    body += "map %r in 8 bind(serial) {\n";
    for (const std::string op : {"max", "min"}) {
      body += "%" + op + ": " + (d == "f64" ? d : "f32") + " = reduce " + op + " %" + op + "l in 8 bind(vector) { yield " +
              (d == "f16" || d == "bf16" ? "cast<f32>(load %y[%r * 8 + %" + op + "l])" : "load %y[%r * 8 + %" + op + "l]") + " }\n";
    }
    const std::string wide = d == "f64" ? d : "f32";
    body += "store %max, %e[%r, 0]\nstore %min, %e[%r, 1] }\n";
    HostKernel kernel("kernel #k target x86-64-v3 grid 1 threads 1 shared 0 (%x: " + d + "[64], %y: " + d + "[64], %z: " + d +
                      "[64]) -> (%v" + both + ", %s" + both + ", %e: " + wide + "[8, 2]) {\n" + body + "}");
    std::vector<Tensor> expected = random_params(kernel.kernel(), 1), got = random_params(kernel.kernel(), 1);
    for (std::vector<Tensor>* params : {&expected, &got}) {
      for (int64_t i = 0; i < 64; ++i) {
        (*params)[0].set_double(i, values[i / 8]);
        (*params)[1].set_double(i, values[(i / 8 + i) % 8]);
        (*params)[2].set_double(i, values[(i / 8 * 5 + i * 3) % 8]);
      }
    }
    loop::interpret(kernel.kernel(), expected);
    kernel.run(got);
    for (size_t p = 3; p < got.size(); ++p) {
      for (int64_t i = 0; i < got[p].count(); ++i) {
        ASSERT_PRED2(same_value, got[p].as_double(i), expected[p].as_double(i))
            << d << " row " << i / 64 << " of " << kernel.kernel().params[p].buffer->name << ", operands " << expected[0].as_double(i % 64)
            << ", " << expected[1].as_double(i % 64);
      }
    }
  }
}

}  // namespace
}  // namespace tcc::codegen
