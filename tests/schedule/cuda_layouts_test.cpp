// Operands of any layout on tensor cores: dims are fused, copies by loops gather them, and kernels compute what the first form does.
#include <gtest/gtest.h>

#include "check_contract.h"
#include "codegen/device_kernel.h"
#include "contract_units.h"
#include "narrow_contraction.h"
#include "padded_rows.h"
#include "random_contraction.h"

namespace tcc::schedule {
namespace {

using examples::ContractionGenerator;
using examples::RandomContraction;
using examples::replaced;

std::string call(const std::string& primitive, const std::vector<std::string>& arguments) {
  std::string text;
  for (const std::string& argument : arguments) text += (text.empty() ? "" : ", ") + argument;
  return primitive + "(" + text + ") ";
}

/// Fuses the dims, says with which primitives, and returns the name of the result.
std::string fused(const std::vector<std::string>& dims, std::string& schedule) {
  std::string name = dims[0];
  for (size_t i = 1; i < dims.size(); i++) {
    schedule += call("fuse", {name, dims[i]});
    name += "_" + dims[i];
  }
  return name;
}

/// A contraction, and a schedule with tiles of random sizes that fuses all dims of each side.
struct Scheduled {
  RandomContraction made;
  std::string schedule;
};
Scheduled random_schedule(uint32_t seed) {
  ContractionGenerator generator(seed);
  const bool narrowed = generator.chance(4);
  const RandomContraction made = generator.draw(generator.chance(2), narrowed);
  std::string schedule;
  std::vector<std::string> sum = made.sum;
  std::shuffle(sum.begin(), sum.end(), std::mt19937(seed));
  if (sum.size() > 1) schedule += call("reorder", sum);
  const std::string m = fused(made.rows, schedule), n = fused(made.columns, schedule), k = fused(sum, schedule);
  const std::string swizzle = generator.chance(2) ? ", swizzle=1" : "";
  schedule += call("split", {m, generator.chance(2) ? "16" : "32", "tail=pad"}) + call("split", {n, "16", "tail=pad"});
  std::vector<std::string> order = made.batch;
  for (const std::string& dim : {m + "_0", n + "_0", m + "_1", n + "_1"}) order.push_back(dim);
  schedule += call("reorder", order);
  for (const std::string& dim : std::vector<std::string>(order.begin(), order.end() - 2)) schedule += call("bind", {dim, "block"});
  schedule += call("split", {k, "16", "tail=pad"}) + call("tile", {"v0", m + "_1", n + "_1"});
  schedule += call("stage", {"a1", "shared", "at=" + k + "_0", "by=loops" + swizzle});
  schedule += call("stage", {"a0", "shared", "at=" + k + "_0", std::string("by=loops") + (narrowed ? ", as=bf16" : "") + swizzle});
  schedule += "tensorize(v0, m16n8k16, 1, 1)";
  if (generator.chance(2)) schedule += " pipeline(" + k + "_0, 3)";
  return {made, schedule};
}

/// A contraction of bf16 with operands of f32.
std::string of_f32(const std::string& text) {
  return replaced(text, {{": bf16", ": f32"},
                         {"else bf16(0.0)", "else 0.0"},
                         {"cast<f32>(%v1)", "%v1"},
                         {"cast<f32>(%v2)", "%v2"},
                         {"cast<bf16>(", "cast<f32>("}});
}
Target with_tf32(Target target) {
  target.allow_tf32 = true;
  return target;
}

TEST(CudaLayouts, RandomOperandsAreStagedByLoops) {
  for (uint32_t seed = 1; seed <= 24; seed++) {
    const auto [made, schedule] = random_schedule(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + made.text + schedule);
    check(made.text, Target::cuda_sm80(), schedule.c_str());
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST(CudaLayouts, RandomContractionsAreChosenForTensorCores) {
  for (uint32_t seed = 101; seed <= 130; seed++) {
    ContractionGenerator generator(seed);
    const bool window = generator.chance(2), narrowed = generator.chance(4);
    const RandomContraction made = generator.draw(window, narrowed);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + made.text);
    const std::string schedule = check(made.text, Target::cuda_sm80());
    EXPECT_EQ(has(schedule, "tensorize"), made.length >= 16) << schedule;
    check(examples::with_padded_rows(made.text), seed % 2 == 0 ? Target::cuda_sm80() : Target::cuda_sm90a());
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST(CudaLayouts, RandomContractionsOfF32) {
  for (uint32_t seed = 201; seed <= 230; seed++) {
    ContractionGenerator generator(seed);
    const RandomContraction made = generator.draw(generator.chance(2), false);
    const std::string text = of_f32(made.text);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    const std::string schedule = check(text, with_tf32(Target::cuda_sm80()));
    EXPECT_EQ(has(schedule, "tensorize"), made.length >= 16) << schedule;
    check(text, with_tf32(Target::cuda_sm90a()));
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

struct Factors {
  const char *a, *b;
};
/// Of 8 bits: alike, mixed, and beside 16 bits.
constexpr Factors kFactorsOfBytes[] = {{"i8", "i8"},           {"u8", "i8"},   {"i8", "u8"},       {"u8", "u8"}, {"f8e4m3fn", "f8e4m3fn"},
                                       {"f8e5m2", "f8e4m3fn"}, {"bf16", "i8"}, {"f8e4m3fn", "f16"}};

/// A contraction with such factors. Where both are integers its sum is along both in memory, which the instruction asks for, as often as not.
std::string random_bytes(uint32_t seed) {
  ContractionGenerator generator(seed);
  const auto [a, b] = kFactorsOfBytes[seed % std::size(kFactorsOfBytes)];
  const bool window = generator.chance(3), ordered = generator.chance(2);
  return examples::with_factors(generator.draw(window, false, ordered).text, a, b);
}

TEST(CudaLayouts, RandomContractionsOfBytes) {
  int by_bytes = 0;
  for (uint32_t seed = 401; seed <= 448; seed++) {
    const std::string text = random_bytes(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    by_bytes += has(check(text, Target::cuda_sm80(), nullptr, 0), "m16n8k32");
    check(text, Target::cuda_sm90a(), nullptr, 0);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
  EXPECT_GT(by_bytes, 6);
}

TEST(CudaLayouts, BytesWithoutAnInstructionAreCopiedInSixteenBits) {
  for (const auto& [a, b] : {Factors{"f8e4m3fn", "f8e4m3fn"}, {"f8e5m2", "f8e4m3fnuz"}, {"i8", "bf16"}, {"f16", "u8"}}) {
    const std::string text = examples::with_factors(examples::matmul("bf16", 72, 40, 56, false, true), a, b);
    const std::string schedule = check(text, Target::cuda_sm80());
    EXPECT_TRUE(has(schedule, "tensorize(v0, m16n8k16") &&
                has(schedule, has(text, ": bf16[") && has(text, "%a1: bf16") ? "as=bf16" : "as=f16"))
        << text << schedule;
  }
}

TEST(CudaLayouts, RandomDequantisedWeights) {
  int by_copies = 0, by_lanes = 0, before = 0;
  for (uint32_t seed = 601; seed <= 680; seed++) {
    std::mt19937 random(seed);
    const std::string text = examples::narrow_contraction(examples::random_narrow(random));
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    const std::string schedule = check(text, Target::cuda_sm80(), nullptr, 0);
    by_copies += has(schedule, "tensorize(v0") && !has(schedule, "compute_at");
    by_lanes += has(schedule, "reduce_across(");
    before += has(schedule, "compute_at");
    if (seed % 4 == 0) check(text, Target::cuda_sm90a(), nullptr, 0);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
  EXPECT_GT(by_copies, 8);
  EXPECT_GT(by_lanes, 8);
  EXPECT_GT(before, 8);
}

/// r = sum over `sum` of a * b in bf16, by the dims of the map and of the sum, and the indices of all three.
std::string product(const std::string& map, const std::string& sum, const std::string& a, const std::string& at_a, const std::string& b,
                    const std::string& at_b, const std::string& r, const std::string& at_r) {
  return "unit (%a0: bf16" + a + ", %a1: bf16" + b + ") -> (%r0: bf16" + r + ") {\n  map " + map + " {\n    %v0: f32 = reduce sum " + sum +
         " {\n      %v1: bf16 = load %a0" + at_a + "\n      %v2: bf16 = load %a1" + at_b +
         "\n      yield mul(cast<f32>(%v1), cast<f32>(%v2))\n    }\n    store cast<bf16>(%v0), %r0" + at_r + "\n  }\n}\n";
}

TEST(CudaLayouts, WarpgroupsReadTilesOfAnyAxes) {
  const std::string products[] = {
      // heads between rows and sum
      product("%b in 2, %h in 2, %i in 40, %j in 48", "%d in 64", "[2, 40, 2, 64]", "[%b, %i, %h, %d]", "[2, 48, 2, 64]",
              "[%b, %j, %h, %d]", "[2, 2, 40, 48]", "[%b, %h, %i, %j]"),
      // the sum is outside of one factor, and no multiple of a step
      product("%b in 2, %h in 2, %i in 40, %d in 32", "%j in 72", "[2, 2, 40, 72]", "[%b, %h, %i, %j]", "[2, 72, 2, 32]",
              "[%b, %j, %h, %d]", "[2, 40, 2, 32]", "[%b, %i, %h, %d]"),
      // rows of two dims, whose number is divided
      product("%b in 3, %s in 21, %n in 40", "%k in 64", "[3, 21, 64]", "[%b, %s, %k]", "[40, 64]", "[%n, %k]", "[3, 21, 40]",
              "[%b, %s, %n]"),
      // the same in several tiles, whose numbers are divided, too
      product("%b in 5, %s in 29, %n in 136", "%k in 64", "[5, 29, 64]", "[%b, %s, %k]", "[136, 64]", "[%n, %k]", "[5, 29, 136]",
              "[%b, %s, %n]"),
      // pixels as columns, channels outside
      product("%i in 2, %o in 40, %y in 6, %x in 8", "%c in 64", "[40, 64]", "[%o, %c]", "[2, 64, 6, 8]", "[%i, %c, %y, %x]",
              "[2, 40, 6, 8]", "[%i, %o, %y, %x]"),
      // few rows: the sides are exchanged
      product("%i in 9, %j in 4352", "%k in 64", "[9, 64]", "[%i, %k]", "[4352, 64]", "[%j, %k]", "[9, 4352]", "[%i, %j]"),
  };
  for (const std::string& text : products) {
    const std::string schedule = check(text, Target::cuda_sm90a());
    EXPECT_TRUE(has(schedule, "m64nNk16")) << text;
    EXPECT_EQ(has(schedule, "fuse(b, s)"), has(text, "%s in")) << text << schedule;
    // Pixels of several rows with padding between them are no one dim.
    EXPECT_EQ(has(check(examples::with_padded_rows(text), Target::cuda_sm90a()), "m64nNk16"), !has(text, "%y in")) << text;
  }
}

TEST(CudaLayouts, SumsAreCopiedInsideForWarpgroupsOfTf32) {
  Target target = with_tf32(Target::cuda_sm90a());
  target.cores = 1;  // so that the copies pay for sizes that can be interpreted
  target.second_kernel_ns = target.launch_ns = 0;
  target.bytes_per_ns *= 100;
  const auto of_f32_results = [](const std::string& text) { return replaced(of_f32(text), {{"cast<bf16>(%v0)", "%v0"}}); };
  struct Case {
    std::string text;
    int copies;
  };
  const Case cases[] = {
      {examples::matmul("f32", 136, 88, 104, false, false), 1},
      {examples::matmul("f32", 136, 88, 104, true, true), 1},
      {examples::matmul("f32", 136, 88, 104, true, false), 2},
      // an axis of batches between rows and sum, which is no multiple of a step
      {of_f32_results(product("%b in 2, %h in 2, %i in 40, %d in 48", "%j in 72", "[2, 2, 40, 72]", "[%b, %h, %i, %j]", "[2, 72, 2, 48]",
                              "[%b, %j, %h, %d]", "[2, 40, 2, 48]", "[%b, %i, %h, %d]")),
       1},
      // a sum over two axes, outside of both factors
      {of_f32_results(product("%i in 72, %j in 80", "%b in 4, %s in 36", "[4, 36, 72]", "[%b, %s, %i]", "[4, 36, 80]", "[%b, %s, %j]",
                              "[72, 80]", "[%i, %j]")),
       2},
  };
  for (const auto& [text, copies] : cases) {
    const std::string schedule = check(text, target, nullptr, 0);
    EXPECT_TRUE(has(schedule, "m64nNk8")) << text << schedule;
    const auto copied = [&](const std::string& name) { return has(schedule, "stage(" + name + ", global, at=top"); };
    EXPECT_EQ(copied("a0") + copied("a1"), copies) << text << schedule;
    EXPECT_FALSE(has(check(text, with_tf32(Target::cuda_sm90a()), nullptr, 0), "global")) << text;  // few results: as they are
  }
}

TEST(CudaLayouts, WarpgroupsSumOverDimsInAnyOrder) {
  // The gradient of a weight whose input has batches first, and whose result has them last: no step has terms of two batches, so the tail of each is zeros.
  for (const char* length : {"40", "64", "77"}) {
    const std::string text = replaced(product("%i in 72, %j in 136", "%s in 77, %b in 3", "[77, 3, 72]", "[%s, %b, %i]", "[3, 77, 136]",
                                              "[%b, %s, %j]", "[72, 136]", "[%i, %j]"),
                                      {{"77", length}});
    const std::string schedule = check(text, Target::cuda_sm90a());
    EXPECT_TRUE(has(schedule, "m64nNk16") && has(schedule, "reorder(b, s)")) << text << schedule;
  }
  // Parts of a sum that is filled up.
  Target target = Target::cuda_sm90a();
  target.second_kernel_ns = target.launch_ns = 0;
  const std::string text = product("%i in 64, %j in 64", "%s in 70, %b in 12", "[70, 12, 64]", "[%s, %b, %i]", "[12, 70, 64]",
                                   "[%b, %s, %j]", "[64, 64]", "[%i, %j]");
  const std::string schedule = check(text, target, nullptr, 0);
  EXPECT_TRUE(has(schedule, "m64nNk16") && has(schedule, "split_reduce")) << schedule;
}

TEST(CudaLayouts, WarpgroupsReadAndWriteRowsWithPadding) {
  // Scores of 77 tokens, and what is read by them: rows end within a piece of 16 bytes, and within a step of the sum.
  const std::string scores = product("%h in 3, %i in 77, %j in 77", "%d in 64", "[3, 77, 64]", "[%h, %i, %d]", "[3, 77, 64]",
                                     "[%h, %j, %d]", "[3, 77, 77]", "[%h, %i, %j]");
  const std::string values = product("%h in 3, %i in 77, %d in 64", "%j in 77", "[3, 77, 77]", "[%h, %i, %j]", "[3, 77, 64]",
                                     "[%h, %j, %d]", "[3, 77, 64]", "[%h, %i, %d]");
  for (const std::string& text : {scores, values}) {
    const std::string schedule = check(examples::with_padded_rows(text), Target::cuda_sm90a());
    EXPECT_TRUE(has(schedule, "m64nNk16") && has(schedule, "epilogue(v0)")) << schedule;
  }
  EXPECT_FALSE(has(check(values, Target::cuda_sm90a()), "m64nNk16"));
  // Without padding rows leave in pieces as large as all of them begin at multiples of.
  EXPECT_TRUE(has(check(scores, Target::cuda_sm90a()), "epilogue(v0, bytes=2)"));
  EXPECT_TRUE(has(check(replaced(scores, {{"77", "76"}}), Target::cuda_sm90a()), "epilogue(v0, bytes=8)"));
}

/// The text with 16-bit tensors in place of those of f32.
std::string halved(const std::string& text) {
  return replaced(text, {{"f32[", "bf16["},
                         {"%v1: f32", "%v1: bf16"},
                         {"%v2: f32", "%v2: bf16"},
                         {"else 0.0", "else bf16(0.0)"},
                         {" %v1, 0.0", " cast<f32>(%v1), 0.0"},
                         {"), %v2)", "), cast<f32>(%v2))"},
                         {"store %v0", "store cast<bf16>(%v0)"}});
}

TEST(CudaLayouts, Convolutions) {
  const examples::ConvShape shapes[] = {
      {.images = 1,
       .inputs = 24,
       .outputs = 40,
       .height = 14,
       .width = 14,
       .window = 3},  // a division by nine with each constant of the pipe
      {.images = 2, .inputs = 20, .outputs = 36, .height = 9, .width = 13, .window = 3, .turned = true},
      {.images = 1, .inputs = 16, .outputs = 40, .height = 15, .width = 15, .window = 3, .stride = 2},
      {.images = 1, .inputs = 3, .outputs = 20, .height = 20, .width = 20, .window = 7, .stride = 2},
      {.images = 2, .inputs = 40, .outputs = 24, .height = 7, .width = 7, .window = 1},
  };
  for (examples::ConvShape shape : shapes) {
    shape.dtype = "bf16";
    EXPECT_TRUE(has(check(examples::convolution(shape), Target::cuda_sm80()), "tensorize"));
  }
}

TEST(CudaLayouts, ZerosBetweenElementsAreCopied) {
  for (const int window : {1, 3}) {
    const std::string text = halved(examples::strided_input_gradient(2, 20, 24, 9, 14, window));
    EXPECT_TRUE(has(check(text, Target::cuda_sm80()), "tensorize")) << text;
  }
}

TEST(CudaLayoutsOnDevice, RandomContractions) {
  if (!codegen::DeviceKernels::available()) GTEST_SKIP() << "no CUDA device";
  for (uint32_t seed = 1; seed <= 200; seed++) {
    const auto [made, schedule] = random_schedule(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + made.text + schedule);
    const std::string text = seed % 3 == 0 ? examples::with_padded_rows(made.text) : made.text;
    check(text, Target::cuda_sm80(), seed % 2 == 0 ? schedule.c_str() : nullptr, 0, codegen::run_on_device);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST(CudaLayoutsOnDevice, RandomContractionsOfF32) {
  if (!codegen::DeviceKernels::available()) GTEST_SKIP() << "no CUDA device";
  for (uint32_t seed = 301; seed <= 400; seed++) {
    ContractionGenerator generator(seed);
    const std::string text = of_f32(generator.draw(generator.chance(2), false).text);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    check(text, with_tf32(Target::cuda_sm80()), nullptr, 0, codegen::run_on_device);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST(CudaLayoutsOnDevice, RandomContractionsOfBytes) {
  if (!codegen::DeviceKernels::available()) GTEST_SKIP() << "no CUDA device";
  for (uint32_t seed = 501; seed <= 620; seed++) {
    const std::string text = random_bytes(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    check(text, Target::cuda_sm80(), nullptr, 0, codegen::run_on_device);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST(CudaLayoutsOnDevice, RandomDequantisedWeights) {
  if (!codegen::DeviceKernels::available()) GTEST_SKIP() << "no CUDA device";
  for (uint32_t seed = 701; seed <= 820; seed++) {
    std::mt19937 random(seed);
    const std::string text = examples::narrow_contraction(examples::random_narrow(random));
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    check(text, Target::cuda_sm80(), nullptr, 0, codegen::run_on_device);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST(CudaLayoutsOnDevice, ConvolutionsAndLayers) {
  if (!codegen::DeviceKernels::available()) GTEST_SKIP() << "no CUDA device";
  const examples::ConvShape shapes[] = {
      {.images = 2, .inputs = 24, .outputs = 72, .height = 28, .width = 28, .window = 3},
      {.images = 3, .inputs = 33, .outputs = 40, .height = 14, .width = 14, .window = 3, .turned = true},
      {.images = 2, .inputs = 32, .outputs = 136, .height = 28, .width = 28, .window = 3, .stride = 2},
      {.images = 2, .inputs = 3, .outputs = 64, .height = 64, .width = 64, .window = 7, .stride = 2},
      {.images = 4, .inputs = 64, .outputs = 96, .height = 28, .width = 28, .window = 1},
      {.images = 8, .inputs = 512, .outputs = 64, .height = 7, .width = 7, .window = 1},
  };
  for (examples::ConvShape shape : shapes) {
    shape.dtype = "f32";
    check(examples::convolution(shape), with_tf32(Target::cuda_sm80()), nullptr, 0, codegen::run_on_device);
    shape.dtype = "bf16";
    check(examples::convolution(shape), Target::cuda_sm80(), nullptr, 0, codegen::run_on_device);
  }
  for (const int rows : {1, 3, 4, 5, 17, 197, 520})
    check(examples::matmul("f16", rows, 328, 712, false, true), Target::cuda_sm80(), nullptr, 0, codegen::run_on_device);
  for (const int window : {1, 3})
    check(halved(examples::strided_input_gradient(2, 24, 72, 28, 30, window)), Target::cuda_sm80(), nullptr, 0, codegen::run_on_device);
  check(examples::kLinear, Target::cuda_sm80(), nullptr, 0, codegen::run_on_device);
  check(examples::kPart, Target::cuda_sm80(), nullptr, 0, codegen::run_on_device);
}

}  // namespace
}  // namespace tcc::schedule
