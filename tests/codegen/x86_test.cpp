// Kernels for x86-64 that are made for the test, against the interpreter of loops. Those that are texts are in x86.kernel.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>

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

/// Loops over parallel items within each other and side by side: digits of one number, of which the shorter ones leave some idle.
TEST(X86, NestedItemsAreDigitsOfOneNumber) {
  for (const int outer : {1, 2, 5}) {
    for (const int first : {1, 3, 4}) {
      for (const int second : {2, 3, 7}) {
        const std::string a = std::to_string(outer), b = std::to_string(first), c = std::to_string(second);
        const int grid = std::max(outer * std::max(first, second), 11);
        expect_as_interpreted("kernel #k target x86-64-v3 grid " + std::to_string(grid) + " threads 1 shared 0 (%x: f32[" + a + ", " + b +
                              "], %z: f32[" + a + ", " + c + "], %u: f32[11]) -> (%y: f32[" + a + ", " + b + "], %w: f32[" + a + ", " + c +
                              "], %v: f32[11]) {" + "map %i in " + a + " bind(parallel) { map %j in " + b +
                              " bind(parallel) { store neg(load %x[%i, %j]), %y[%i, %j] }" + "map %k in " + c +
                              " bind(parallel) { store neg(load %z[%i, %k]), %w[%i, %k] } }" +
                              "map %l in 11 bind(parallel) { store neg(load %u[%l]), %v[%l] } }");
      }
    }
  }
}

// Uniform in a vector loop, different in each lane, and under a mask: what is reported is what the interpreter finds.
TEST(X86, ReportsIndicesOutOfRange) {
  const HostKernel kernel(
      R"(kernel #k target x86-64-v3 grid 2 threads 1 shared 0 (%t: f32[7, 8], %x: i64[32]) -> (%y: f32[16, 8], %z: f32[32], %w: f32[32]) {
    map %b in 2 bind(parallel) {
      map %i in 8 bind(serial), %l in 8 bind(vector) {
        %u: i64 = load %x[%b * 8 + %i]
        %v: i64 = check_index(%u, %u, %u, 7, 0)
        store load %t[%v, %l] else 0.0, %y[%b * 8 + %i, %l]
      }
      map %j in 2 bind(serial), %k in 8 bind(vector) {
        %p: i64 = load %x[%b * 16 + %j * 8 + %k]
        %r: i64 = select(lt(%p, 0), add(%p, 7), %p)
        %q: i64 = check_index(%r, %r, %p, 7, 1)
        store load %t[%q, 3] else 0.0, %z[%b * 16 + %j * 8 + %k]
      }
      map %m in 2 bind(serial), %n in 8 bind(vector) where lt(index(%m * 8 + %n), 13) {
        %o: i64 = load %x[%b * 16 + %m * 8 + %n]
        store check_index(cast<f32>(%o), %o, %o, 7, 2), %w[%b * 16 + %m * 8 + %n]
      }
    } })");
  for (int64_t bad_at = -1; bad_at < 32; ++bad_at) {
    for (const int64_t value : {int64_t{7}, int64_t{-1}, int64_t{-8}, INT64_MAX, INT64_MIN}) {
      std::vector<Tensor> got = random_params(kernel.kernel(), 1);
      for (int64_t i = 0; i < 32; ++i) got[1].set_int64(i, i == bad_at ? value : i % 7);
      std::vector<Tensor> expected = got;
      std::vector<int64_t> found, wanted;
      loop::interpret(kernel.kernel(), expected, &wanted);
      kernel.run(got, 0, 2, &found);
      EXPECT_EQ(found, wanted) << "element " << bad_at << " is " << value;
      EXPECT_TRUE(got[0].same_bytes(expected[0]));
      for (int64_t i = 0; i < 32; ++i) EXPECT_EQ(got[3].as_double(i), expected[3].as_double(i));
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

/// One kernel that converts `x` to each of `to`, beside Tensor::cast_to, bit for bit (any NaN for a NaN).
void expect_converted(const Tensor& x, const std::vector<DType>& to) {
  const std::string from(name_of(x.dtype())), n = std::to_string(x.count()), rows = std::to_string(x.count() / 8);
  std::string params, body;
  for (size_t i = 0; i < to.size(); ++i) {
    const std::string y = "%y" + std::to_string(i);
    params += (i == 0 ? "" : ", ") + y + ": " + std::string(name_of(to[i])) + "[" + n + "]";
    body += "store cast<" + std::string(name_of(to[i])) + ">(load %x[%i * 8 + %l]), " + y + "[%i * 8 + %l]\n";
  }
  HostKernel kernel("kernel #k target x86-64-v3 grid " + rows + " threads 1 shared 0 (%x: " + from + "[" + n + "]) -> (" + params +
                    ") { map %i in " + rows + " bind(parallel), %l in 8 bind(vector) { " + body + "} }");
  std::vector<Tensor> tensors{Tensor(x.dtype(), x.shape())};
  std::memcpy(tensors[0].mutable_bytes(), x.bytes(), static_cast<size_t>(x.size_bytes()));
  for (DType dtype : to) tensors.emplace_back(dtype, x.shape());
  kernel.run(tensors);
  for (size_t i = 0; i < to.size(); ++i) {
    const Tensor expected = x.cast_to(to[i]);
    for (int64_t k = 0; k < x.count(); ++k) {
      ASSERT_PRED2(same_value, tensors[i + 1].as_double(k), expected.as_double(k))
          << from << " to " << name_of(to[i]) << " of " << x.as_double(k);
    }
  }
}

Tensor of_bits(DType dtype, int64_t count) {
  Tensor tensor(dtype, {count});
  if (size_bits(dtype) == 16)
    for (int64_t i = 0; i < count; ++i) reinterpret_cast<uint16_t*>(tensor.mutable_bytes())[i] = static_cast<uint16_t>(i);
  else
    for (int64_t i = 0; i < count; ++i) reinterpret_cast<uint8_t*>(tensor.mutable_bytes())[i] = static_cast<uint8_t>(i);
  return tensor;
}

const std::vector<DType> kFloat8{DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz};

TEST(X86, ConvertsEveryBitPatternOfNarrowFloats) {
  std::vector<DType> all = kFloat8;
  all.insert(all.end(), {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i8, DType::u8, DType::i32, DType::i64, DType::i4,
                         DType::u4, DType::boolean});
  for (DType dtype : kFloat8) expect_converted(of_bits(dtype, 256), all);
  for (DType dtype : {DType::f16, DType::bf16}) expect_converted(of_bits(dtype, 65536), kFloat8);
}

/// f32 around every number of an 8-bit float and every midpoint between two, and over all exponents; and whole numbers.
TEST(X86, RoundsToFloat8AsTheInterpreterDoes) {
  std::vector<float> values{NAN, -NAN, INFINITY, -INFINITY, 3.4e38f, -3.4e38f, 1e-45f, -1e-45f};
  for (DType dtype : kFloat8) {
    for (int code = 0; code < 256; ++code) {
      const float at = f8_to_f32(dtype, static_cast<uint8_t>(code)), after = f8_to_f32(dtype, static_cast<uint8_t>(code + 1));
      for (float v : {at, (at + after) / 2}) {
        for (float w : {v, std::nextafter(v, INFINITY), std::nextafter(v, -INFINITY)}) values.push_back(w);
      }
    }
  }
  uint32_t bits = 1;
  for (int i = 0; i < 100000; ++i, bits = bits * 1664525 + 1013904223) {
    float v;
    std::memcpy(&v, &bits, 4);
    values.push_back(v);
  }
  while (values.size() % 8 != 0) values.push_back(0);
  Tensor single(DType::f32, {static_cast<int64_t>(values.size())}), integers(DType::i32, {1024});
  std::memcpy(single.mutable_bytes(), values.data(), values.size() * 4);
  for (int64_t i = 0; i < 1024; ++i) integers.set_int64(i, (i - 512) * (i % 5 == 0 ? 997 : 1));
  expect_converted(single, kFloat8);
  expect_converted(single.cast_to(DType::f64), kFloat8);
  expect_converted(integers, kFloat8);
}

}  // namespace
}  // namespace tcc::codegen
