// Random matrix products and convolutions, as units are scheduled and compiled for the host, against the interpreter of loops: sizes of 1, primes and those about a tile's, operands
// in any order of axes, batches, epilogues. Caches are made small, so that small operands are packed as large ones are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>

#include "host_unit.h"
#include "schedule/narrow_contraction.h"
#include "schedule/padded_rows.h"

namespace tcc::codegen {
namespace {

using Random = std::mt19937;

int64_t pick(Random& random, std::initializer_list<int64_t> values) {
  return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
}

struct Operand {
  std::string shape, index;
};

/// Its axes in a random order; results, which shall lie side by side along the last one, as they come.
Operand operand(Random& random, std::vector<std::pair<char, int64_t>> axes, bool shuffled) {
  if (shuffled) std::shuffle(axes.begin(), axes.end(), random);
  Operand result;
  for (const auto& [name, extent] : axes) {
    const char* separator = result.shape.empty() ? "" : ", ";
    result.shape += separator + std::to_string(extent);
    result.index += separator + ("%" + std::string(1, name));
  }
  return result;
}

std::string random_contraction(Random& random) {
  const int64_t m = pick(random, {1, 5, 6, 7, 12, 13, 23, 31, 48}), n = pick(random, {1, 2, 7, 8, 15, 16, 17, 24, 31, 33, 48, 53});
  const int64_t k = pick(random, {1, 3, 4, 7, 16, 29, 40}), batch = pick(random, {1, 1, 2, 3}), rows = pick(random, {1, 1, 1, 2, 5});
  const std::string dtype = pick(random, {0, 0, 1}) ? "bf16" : "f32";
  const Operand a = operand(random, {{'b', batch}, {'r', rows}, {'i', m}, {'k', k}}, true);
  const Operand b = operand(random, {{'b', batch}, {'k', k}, {'j', n}}, true);
  const Operand c = operand(random, {{'b', batch}, {'r', rows}, {'i', m}, {'j', n}}, random() % 4 == 0);
  const auto load = [&](const char* name, const std::string& index) {
    const std::string text = std::string("load %") + name + "[" + index + "]";
    return dtype == "f32" ? text : "cast<f32>(" + text + ")";
  };
  const auto sizes = [&](const std::string& dims) {
    const std::map<char, int64_t> extents{{'b', batch}, {'r', rows}, {'i', m}, {'j', n}};
    std::string text;
    for (const char name : dims) text += (text.empty() ? "%" : ", %") + std::string(1, name) + " in " + std::to_string(extents.at(name));
    return text;
  };
  const bool bias = random() % 2 == 0, added = random() % 3 == 0, constant = random() % 3 == 0;
  return "unit (%x: " + dtype + "[" + a.shape + "], " + (constant ? "constant " : "") + "%w: " + dtype + "[" + b.shape + "], %c: f32[" +
         std::to_string(n) + "], %d: f32[" + c.shape + "]) -> (%y: f32[" + c.shape + "]) {\n  map " + sizes("brij") +
         " {\n    %s: f32 = reduce sum %k in " + std::to_string(k) + " {\n      %p: f32 = " + load("x", a.index) +
         "\n      %q: f32 = " + load("w", b.index) + "\n      yield mul(%p, %q)\n    }\n    %t: f32 = load %c[%j]\n    %u: f32 = load %d[" +
         c.index + "]\n    store max(" + (added ? "add(%u, " : "") + (bias ? "add(%s, %t)" : "%s") + (added ? ")" : "") + ", -100.0), %y[" +
         c.index + "]\n  }\n}\n";
}

/// Images [b, k, p, q] and weights of one pixel: dims that become one dim of columns.
std::string random_pixels(Random& random) {
  const int64_t m = pick(random, {1, 6, 13, 29, 48}), p = pick(random, {1, 2, 5, 7}), q = pick(random, {1, 3, 7, 8, 14});
  const int64_t k = pick(random, {1, 4, 29, 40}), batch = pick(random, {1, 1, 3});
  const auto text = [](int64_t number) { return std::to_string(number); };
  const std::string pixels = text(p) + ", " + text(q) + "]", result = "f32[" + text(batch) + ", " + text(m) + ", " + pixels;
  return "unit (%x: f32[" + text(batch) + ", " + text(k) + ", " + pixels + ", %w: f32[" + text(m) + ", " + text(k) + "], %d: " + result +
         ") -> (%y: " + result + ") {\n  map %b in " + text(batch) + ", %i in " + text(m) + ", %p in " + text(p) + ", %q in " + text(q) +
         " {\n    %s: f32 = reduce sum %k in " + text(k) + " {\n      %u: f32 = load %x[%b, %k, %p, %q]\n" +
         "      %v: f32 = load %w[%i, %k]\n      yield mul(%u, %v)\n    }\n" +
         "    store add(%s, load %d[%b, %i, %p, %q]), %y[%b, %i, %p, %q]\n  }\n}\n";
}

/// A convolution, with steps and padding.
std::string random_convolution(Random& random) {
  const int64_t m = pick(random, {1, 7, 16, 48, 130}), c = pick(random, {1, 3, 8, 32}), window = pick(random, {1, 2, 3}),
                step = pick(random, {1, 2, 3});
  const int64_t p = pick(random, {1, 3, 8}), q = pick(random, {1, 2, 5, 8, 9, 17}), batch = pick(random, {1, 2}), edge = window / 2;
  const auto text = [](int64_t number) { return std::to_string(number); };
  const auto size = [&](int64_t results) { return text((results - 1) * step + window - 2 * edge); };
  const auto index = [&](const char* result, const char* tap) {
    return std::string(result) + " * " + text(step) + " + " + tap + " - " + text(edge);
  };
  const std::string result = "f32[" + text(batch) + ", " + text(m) + ", " + text(p) + ", " + text(q) + "]",
                    constant = random() % 2 == 0 ? "constant " : "";
  return "unit (%x: f32[" + text(batch) + ", " + text(c) + ", " + size(p) + ", " + size(q) + "], " + constant + "%w: f32[" + text(m) +
         ", " + text(c) + ", " + text(window) + ", " + text(window) + "]) -> (%y: " + result + ") {\n  map %b in " + text(batch) +
         ", %i in " + text(m) + ", %p in " + text(p) + ", %q in " + text(q) + " {\n    %s: f32 = reduce sum %k in " + text(c) + ", %u in " +
         text(window) + ", %v in " + text(window) + " {\n      %d: f32 = load %x[%b, %k, " + index("%p", "%u") + ", " + index("%q", "%v") +
         "] else 0.0\n" +
         "      %e: f32 = load %w[%i, %k, %u, %v]\n      yield mul(%d, %e)\n    }\n    store %s, %y[%b, %i, %p, %q]\n  }\n}\n";
}

/// A convolution of each channel by itself.
std::string random_planes(Random& random) {
  const int64_t c = pick(random, {1, 2, 7, 12}), window = pick(random, {2, 3, 5, 7}), step = pick(random, {1, 1, 2, 3});
  const int64_t p = pick(random, {1, 2, 7, 8, 14}), q = pick(random, {1, 5, 7, 14, 20, 28, 33, 70}), batch = pick(random, {1, 1, 2});
  const int64_t edge = pick(random, {0, 1}) * (window / 2);
  const auto text = [](int64_t number) { return std::to_string(number); };
  const auto size = [&](int64_t results) { return text(std::max<int64_t>(1, (results - 1) * step + window - 2 * edge)); };
  const auto index = [&](const char* result, const char* tap) {
    return std::string(result) + " * " + text(step) + " + " + tap + " - " + text(edge);
  };
  const std::string result = "f32[" + text(batch) + ", " + text(c) + ", " + text(p) + ", " + text(q) + "]";
  return "unit (%x: f32[" + text(batch) + ", " + text(c) + ", " + size(p) + ", " + size(q) + "], %w: f32[" + text(c) + ", " + text(window) +
         ", " + text(window) + "], %c: f32[" + text(c) + "]) -> (%y: " + result + ") {\n  map %b in " + text(batch) + ", %i in " + text(c) +
         ", %p in " + text(p) + ", %q in " + text(q) + " {\n    %s: f32 = reduce sum %u in " + text(window) + ", %v in " + text(window) +
         " {\n      %d: f32 = load %x[%b, %i, " + index("%p", "%u") + ", " + index("%q", "%v") + "]" + (edge > 0 ? " else 0.0" : "") +
         "\n      %e: f32 = load %w[%i, %u, %v]\n      yield mul(%d, %e)\n    }\n    %t: f32 = load %c[%i]\n" +
         "    store max(add(%s, %t), -50.0), %y[%b, %i, %p, %q]\n  }\n}\n";
}

/// Small integers: sums are exact in any order.
std::vector<Tensor> integers(const loop::Unit& unit, Random& random) {
  std::vector<Tensor> params;
  for (const loop::Param& param : unit.params) {
    params.emplace_back(param.buffer->dtype, param.buffer->extents);
    const int64_t least = is_unsigned_integer(param.buffer->dtype) ? 0 : -4;
    for (int64_t i = 0; i < params.back().count(); ++i) params.back().set_int64(i, static_cast<int64_t>(random() % 9) + least);
  }
  return params;
}

void expect_as_interpreted(const std::string& text, const Target& target, uint32_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
  const loop::Unit unit = loop::parse_unit(text, "test");
  SCOPED_TRACE(print(schedule::choose(unit, target)));
  Random random(seed);
  std::vector<Tensor> expected = integers(unit, random), got;
  for (size_t i = 0; i < expected.size(); ++i) {
    got.emplace_back(expected[i].dtype(), expected[i].shape());
    for (int64_t e = 0; e < got[i].count(); ++e) got[i].set_int64(e, unit.params[i].written ? 77777 : expected[i].as_int64(e));
  }
  loop::interpret(unit, expected);
  HostUnit(unit, target).run(got);
  for (size_t i = 0; i < expected.size(); ++i) {
    for (int64_t e = 0; e < expected[i].count(); ++e)
      ASSERT_EQ(got[i].as_double(e), expected[i].as_double(e)) << "parameter " << i << " at " << e;
  }
}

Target small_caches() {
  Target target = Target::cpu_v3();
  target.l1_bytes = 64;
  return target;
}

/// Small work is shared among as many items as large work.
Target slow() {
  Target target = Target::cpu_v3();
  target.flops_per_ns /= 2000;
  return target;
}

/// TCC_FUZZ_CASES says how many are tried, TCC_FUZZ_SEED which is the first.
TEST(Contractions, AreAsInterpreted) {
  const char *cases = std::getenv("TCC_FUZZ_CASES"), *given = std::getenv("TCC_FUZZ_SEED");
  const uint32_t first = given ? static_cast<uint32_t>(std::atoi(given)) : 1, count = cases ? static_cast<uint32_t>(std::atoi(cases)) : 120;
  uint32_t packed = 0, copied_once = 0, channels = 0;
  for (uint32_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    Random random(seed);
    const std::string dense = seed % 5 < 3    ? random_contraction(random)
                              : seed % 5 == 3 ? random_pixels(random)
                                              : random_convolution(random);
    const std::string text = seed % 7 == 0 ? schedule::examples::with_padded_rows(dense) : dense;
    const Target target = seed % 4 == 0 ? Target::cpu_v3() : seed % 5 == 4 ? slow() : small_caches();
    const schedule::Schedule chosen = schedule::choose(loop::parse_unit(text, "test"), target);
    packed += schedule::explain(chosen).find(": packed_panels") != std::string::npos;
    channels += schedule::explain(chosen).find(": channels_in_vectors") != std::string::npos;
    copied_once += print(chosen).find("stage(x, global, at=top)") != std::string::npos;
    expect_as_interpreted(text, target, seed);
  }
  if (count < 120 || first != 1) return;
  EXPECT_GE(packed, count / 6) << "of " << count << ": too few to be a test of packing";
  EXPECT_GE(channels, 3u) << "too few to be a test of vectors of channels";
  EXPECT_GE(copied_once, 1u) << "none is a test of images that are copied as a whole";
}

TEST(Contractions, WithDequantisedWeightsAreAsInterpreted) {
  const char *cases = std::getenv("TCC_FUZZ_CASES"), *given = std::getenv("TCC_FUZZ_SEED");
  const uint32_t first = given ? static_cast<uint32_t>(std::atoi(given)) : 1, count = cases ? static_cast<uint32_t>(std::atoi(cases)) : 80;
  for (uint32_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    Random random(seed);
    schedule::examples::NarrowContraction product = schedule::examples::random_narrow(random);
    if (random() % 2 == 0) product.before = "constant ";
    expect_as_interpreted(schedule::examples::narrow_contraction(product),
                          seed % 4 == 0   ? slow()
                          : seed % 4 == 1 ? small_caches()
                                          : Target::cpu_v3(),
                          seed);
  }
}

TEST(Contractions, OfEachChannelAreAsInterpreted) {
  const char *cases = std::getenv("TCC_FUZZ_CASES"), *given = std::getenv("TCC_FUZZ_SEED");
  const uint32_t first = given ? static_cast<uint32_t>(std::atoi(given)) : 1, count = cases ? static_cast<uint32_t>(std::atoi(cases)) : 60;
  uint32_t planes = 0;
  for (uint32_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    Random random(seed);
    const std::string text = random_planes(random);
    const Target target = seed % 2 == 0 ? Target::cpu_v3() : slow();
    planes += schedule::explain(schedule::choose(loop::parse_unit(text, "test"), target)).find(": staged_planes") != std::string::npos;
    expect_as_interpreted(text, target, seed);
  }
  if (count < 60 || first != 1) return;
  EXPECT_GE(planes, 20u) << "too few to be a test of planes";
}

}  // namespace
}  // namespace tcc::codegen
