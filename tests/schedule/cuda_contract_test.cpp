// Contractions on CUDA: what is chosen, that it verifies, and that its kernels compute what the first form does (two tiles and a tail, small integers).
#include <gtest/gtest.h>

#include "check_contract.h"
#include "contract_units.h"
#include "tcc/loop/loop.h"
#include "tcc/schedule/schedule.h"
#include "tcc/support/tensor.h"

namespace tcc::schedule {
namespace {

/// A part of the chip, in which large tiles pay for less.
Target few_multiprocessors(int count) {
  Target target = Target::cuda_sm80();
  target.flops_per_ns *= static_cast<double>(count) / target.cores;
  target.cores = count;
  return target;
}

/// One multiprocessor: the tile that suits it best is taken, however few of them there are.
Target one_multiprocessor() {
  Target target = Target::cuda_sm80();
  target.cores = 1;
  return target;
}

TEST(CudaContract, TensorCoresTakeEitherOrderOfBothOperands) {
  for (const bool turned_a : {false, true}) {
    for (const bool turned_b : {false, true}) {
      // Two tiles of 64 x 64 and a tail each way; the last step of the sum is partly outside.
      const std::string schedule = check(examples::matmul("bf16", 136, 136, 56, turned_a, turned_b), Target::cuda_sm80());
      EXPECT_TRUE(has(schedule, "tensorize(v0, m16n8k16")) << schedule;
      EXPECT_TRUE(has(schedule, "pipeline(k_0, 4)")) << schedule;
    }
  }
}

TEST(CudaContract, WarpgroupsTakeEitherOrderOfBothOperands) {
  for (const bool turned_a : {false, true}) {
    for (const bool turned_b : {false, true}) {
      // Tails each way; the last step of the sum is partly outside.
      const std::string schedule =
          check(examples::matmul(turned_a ? "bf16" : "f16", 136, 72, 200, turned_a, turned_b), Target::cuda_sm90a());
      EXPECT_TRUE(has(schedule, "tensorize(v0, m64nNk16")) << schedule;
      EXPECT_TRUE(has(schedule, "pipeline_tiles(k_0, ")) << schedule;
    }
  }
}

TEST(CudaContract, WarpgroupsMultiplyBytes) {
  const char* kinds[][2] = {{"f8e4m3fn", "f8e4m3fn"}, {"f8e5m2", "f8e4m3fn"}, {"i8", "i8"}, {"u8", "i8"}, {"i8", "u8"}, {"u8", "u8"}};
  for (const auto& [a, b] : kinds) {
    // Tails each way; the last step of the sum is partly outside.
    const std::string text = examples::with_factors(examples::matmul("bf16", 136, 72, 208, false, true), a, b);
    const std::string schedule = check(text, Target::cuda_sm90a());
    EXPECT_TRUE(has(schedule, "tensorize(v0, m64nNk32") && has(schedule, "panels=128")) << schedule;
  }
  // Floats don't mix with integers, nor do sums in f32 with products of integers.
  const std::string plain = examples::matmul("bf16", 136, 72, 208, false, true);
  EXPECT_FALSE(has(check(examples::with_factors(plain, "f8e4m3fn", "i8"), Target::cuda_sm90a()), "m64nNk32"));
  const std::string in_floats = examples::replaced(examples::with_factors(plain, "i8", "i8"), {{"i32", "f32"}});
  EXPECT_FALSE(has(check(in_floats, Target::cuda_sm90a()), "m64nNk32"));
}

TEST(CudaContract, BytesWithTheSumOutsideAreCopiedFirst) {
  const std::string turned = examples::with_factors(examples::matmul("bf16", 136, 80, 208, false, false), "i8", "i8");
  for (const Target& target : {Target::cuda_sm80(), Target::cuda_sm90a()}) {
    const std::string schedule = check(turned, target, nullptr, 2);
    EXPECT_TRUE(has(schedule, target.has_tensor_maps ? "m64nNk32" : "m16n8k32") && has(schedule, "stage(a1, global, at=top, order=ba)"))
        << schedule;
  }
  // Floats only where that and the product take less time than products in 16 bits.
  const auto of_floats = [](int size) {
    return loop::parse_unit(examples::with_factors(examples::matmul("bf16", size, size, size, false, false), "f8e4m3fn", "f8e4m3fn"),
                            "test");
  };
  EXPECT_TRUE(has(print(choose(of_floats(4096), Target::cuda_sm90a())), "m64nNk32"));
  EXPECT_TRUE(has(print(choose(of_floats(128), Target::cuda_sm90a())), "m16n8k16"));
}

TEST(CudaContract, TilesOfWarpgroups) {
  struct Form {
    int m, n, groups_m, groups_n;
  };
  for (const auto [m, n, groups_m, groups_n] : {Form{128, 256, 2, 1}, {256, 64, 2, 1}, {64, 128, 1, 2}, {64, 64, 1, 1}, {192, 64, 3, 1}}) {
    for (const int steps : m* n > 16384 ? std::vector{2} : m * n > 4096 ? std::vector{1, 4} : std::vector{1, 2, 3, 4, 7}) {
      const std::string schedule =
          "split(i, " + std::to_string(m) + ") split(j, " + std::to_string(n) +
          ") reorder(i_0, j_0, i_1, j_1) bind(i_0, block) bind(j_0, block) split(k, 64) tile(v0, i_1, j_1) "
          "stage(a1, shared, at=k_0, by=loops, swizzle=3, panels=64) stage(a0, shared, at=k_0, by=loops, swizzle=3, panels=64) "
          "tensorize(v0, m64nNk16, " +
          std::to_string(groups_m) + ", " + std::to_string(groups_n) + ") pipeline_tiles(k_0, 3, " +
          std::to_string(groups_m * groups_n == 3 ? 152 : 232) + ", 40)";
      check(examples::matmul("bf16", m + 8, n, 64 * steps, steps % 2 == 0, steps % 3 == 0), Target::cuda_sm90a(), schedule.c_str());
      if (steps > 2) continue;
      const std::string bytes =
          examples::replaced(schedule, {{"split(k, 64)", "split(k, 128)"}, {"panels=64", "panels=128"}, {"m64nNk16", "m64nNk32"}});
      const char* dtype = steps == 1 ? "i8" : "f8e4m3fn";
      check(examples::with_factors(examples::matmul("bf16", m + 8, n, 128 * steps, false, true), dtype, dtype), Target::cuda_sm90a(),
            bytes.c_str());
    }
  }
}

TEST(CudaContract, TheLargeTile) {
  const std::string schedule = check(examples::matmul("bf16", 136, 256, 72, false, true), one_multiprocessor());
  EXPECT_EQ(schedule,
            "split(i, 128) split(j, 256) reorder(i_0, j_0, i_1, j_1) bind(i_0, block) bind(j_0, block) split(k, 32) tile(v0, i_1, j_1) "
            "stage(a1, shared, at=k_0, by=loops, swizzle=2) stage(a0, shared, at=k_0, by=loops, swizzle=2) tensorize(v0, m16n8k16, 2, 4) "
            "pipeline(k_0, 4)");
}

TEST(CudaContract, ManyRowsOfTilesRunInGroupsDownTheColumns) {
  const std::string schedule = check(
      examples::matmul("f16", 152, 64, 32, false, false), Target::cuda_sm80(),
      "split(i, 16) split(j, 32) split(i_0, 8) reorder(i_0_0, j_0, i_0_1, i_1, j_1) bind(i_0_0, block) bind(j_0, block) bind(i_0_1, block) "
      "split(k, 32) tile(v0, i_1, j_1) stage(a1, shared, at=k_0, swizzle=2) stage(a0, shared, at=k_0, swizzle=2) "
      "tensorize(v0, m16n8k16, 1, 1) pipeline(k_0, 4)");
  const loop::Unit large = loop::parse_unit(examples::matmul("f16", 4096, 4096, 4096, false, false), "test");
  EXPECT_TRUE(
      has(print(choose(large, Target::cuda_sm80())), "split(i, 128) split(j, 256) split(i_0, 16) reorder(i_0_0, j_0, i_0_1, i_1, j_1)"));
}

TEST(CudaContract, FinishedTilesLeaveThroughSharedMemory) {
  const std::string begin =
      "split(i, 32) split(j, 64) reorder(i_0, j_0, i_1, j_1) bind(i_0, block) bind(j_0, block) split(k, 32) tile(v0, i_1, j_1) "
      "stage(a1, shared, at=k_0, swizzle=2) stage(a0, shared, at=k_0, swizzle=2) tensorize(v0, m16n8k16, 2, 2) ";
  check(examples::matmul("bf16", 64, 128, 64, false, true), Target::cuda_sm80(), (begin + "pipeline(k_0, 3) epilogue(v0)").c_str());
  check(examples::matmul("f16", 72, 72, 40, false, true), Target::cuda_sm80(),
        (begin + "epilogue(v0)").c_str());  // tails of rows and columns
}

TEST(CudaContract, TensorCoresWithoutAsynchronousCopies) {
  // An odd length has no rows that begin at multiples of 4 bytes.
  const std::string schedule = check(examples::matmul("f16", 70, 70, 35, false, true), Target::cuda_sm80());
  EXPECT_TRUE(has(schedule, "tensorize")) << schedule;
  EXPECT_TRUE(has(schedule, "pipeline(k_0, 2)")) << schedule;  // a stage is filled while the other is read, by ordinary loads and stores
}

TEST(CudaContract, AStepPastTheSumReadsNothingElse) {
  EXPECT_TRUE(has(check(examples::kPart, Target::cuda_sm80()), "tensorize"));  // copies by loops have the mask of the sum
  const loop::Unit unit = loop::parse_unit(examples::kPart, "test");
  const std::string schedule =
      "split(i, 16) split(j, 32) reorder(i_0, j_0, i_1, j_1) bind(i_0, block) bind(j_0, block) split(k, 16) tile(v0, i_1, j_1) "
      "stage(a1, shared, at=k_0) stage(a0, shared, at=k_0) tensorize(v0, m16n8k16, 1, 1)";
  EXPECT_ANY_THROW(apply(unit, parse_schedule(schedule, "test"), Target::cuda_sm80()));
}

TEST(CudaContract, Tf32OnlyWhereAllowed) {
  const std::string text = examples::matmul("f32", 72, 72, 40, false, true);
  EXPECT_FALSE(has(check(text, Target::cuda_sm80()), "tensorize"));
  Target target = Target::cuda_sm80();
  target.allow_tf32 = true;
  EXPECT_TRUE(has(check(text, target), "tensorize(v0, m16n8k8"));
  Target hopper = Target::cuda_sm90a();
  EXPECT_FALSE(has(check(text, hopper), "tensorize"));
  hopper.allow_tf32 = true;
  EXPECT_TRUE(has(check(examples::matmul("f32", 72, 72, 104, false, true), hopper), "tensorize(v0, m64nNk8"));
  for (const bool turned_a : {false, true}) {  // whichever side the sum is on
    for (const bool turned_b : {false, true}) {
      if (!turned_a && turned_b) continue;
      const std::string turned = examples::matmul("f32", 76, 88, 40, turned_a, turned_b);
      EXPECT_TRUE(has(check(turned, target), "tensorize(v0, m16n8k8")) << turned;
      EXPECT_TRUE(has(check(turned, hopper), "tensorize(v0, m16n8k8")) << turned;
    }
  }
}

TEST(CudaContract, ThreadsHoldTilesOfExactProducts) {
  for (const bool turned_a : {false, true}) {
    for (const bool turned_b : {false, true}) {
      const std::string small = check(examples::matmul("f32", 76, 77, 36, turned_a, turned_b), Target::cuda_sm80());
      EXPECT_TRUE(has(small, "tile(v0") && has(small, "pipeline(k_0, 3)")) << small;
      check(examples::matmul("f32", 144, 132, 24, turned_a, turned_b), one_multiprocessor());
    }
  }
}

TEST(CudaContract, BatchDimsAndEpilogues) {
  EXPECT_TRUE(has(check(examples::kAttentionScores, Target::cuda_sm80()), "stage(a0, shared"));
  EXPECT_TRUE(has(check(examples::kLinear, Target::cuda_sm80()), "tensorize"));
}

TEST(CudaContract, LongSumsOfFewTilesAreCut) {
  const Target target = Target::cuda_sm80();
  for (const bool turned_a : {false, true}) {
    for (const bool turned_b : {false, true}) {
      // Tiles with a tail each way, and a last part that runs past the end of the sum.
      const std::string exact = check(examples::matmul("f32", 36, 40, 524, turned_a, turned_b), target, nullptr, 2);
      EXPECT_TRUE(has(exact, "split_reduce(v0, 2, multiple=16)") && has(exact, "pipeline(k_1_part_0, 3)")) << exact;
      const std::string half = check(examples::matmul("bf16", 24, 40, 1544, turned_a, turned_b), target, nullptr, 2);
      EXPECT_TRUE(has(half, "split_reduce(v0, 5, multiple=32)") && has(half, "tensorize(v0_part, m16n8k16")) << half;
    }
  }
  // The second kernel has the epilogue: what follows the sum is done once.
  check(examples::kGradientStep, target, nullptr, 2);
  // Parts that a buffer goes on behind must divide the sum.
  EXPECT_FALSE(has(check(examples::kLongPart, target), "split_reduce"));
}

TEST(CudaContract, OnlyLongSumsAreCut) {
  const auto chosen = [](const std::string& dtype, int m, int n, int k) {
    return print(choose(loop::parse_unit(examples::matmul(dtype, m, n, k, true, false), "test"), Target::cuda_sm80()));
  };
  EXPECT_TRUE(has(chosen("f32", 768, 768, 8192), "split_reduce(v0, 7, multiple=16) split(i_part, 128) split(j_part, 128)"));
  EXPECT_TRUE(has(chosen("f32", 64, 64, 8192), "split_reduce(v0, 32, multiple=16)"));
  EXPECT_TRUE(has(chosen("bf16", 768, 768, 8192), "split_reduce(v0, 7, multiple=32) split(i_part, 128) split(j_part, 256)"));
  EXPECT_FALSE(has(chosen("f32", 4096, 4096, 768), "split_reduce"));
  EXPECT_FALSE(has(chosen("bf16", 4096, 4096, 4096), "split_reduce"));
  EXPECT_FALSE(has(chosen("bf16", 1024, 1024, 1024), "split_reduce"));
}

TEST(CudaContract, FewResults) {
  EXPECT_TRUE(has(check(examples::kVector, Target::cuda_sm80()), "split(j, 4) vectorize(j_1) split(j_0, 32) reduce_across(j_0_1, lane)"));
  for (const int rows : {2, 3, 4}) {
    EXPECT_TRUE(has(check(examples::matmul("bf16", rows, 20, 520, false, true), Target::cuda_sm80()), "split(k, 8) vectorize(k_1)"));
    EXPECT_TRUE(has(check(examples::matmul("f32", 20, rows, 512, false, true), Target::cuda_sm80()), "split(k, 4) vectorize(k_1)"));
  }
  check(examples::kNarrow, Target::cuda_sm80());
}

TEST(CudaContract, ConvolutionsHoldTilesOfChannelsByPixels) {
  const examples::ConvShape shapes[] = {
      {.images = 1, .inputs = 5, .outputs = 36, .height = 9, .width = 13, .window = 3},
      {.images = 2, .inputs = 6, .outputs = 34, .height = 14, .width = 14, .window = 3, .turned = true},
      {.images = 4, .inputs = 8, .outputs = 64, .height = 7, .width = 7, .window = 3},
      {.images = 2, .inputs = 4, .outputs = 40, .height = 28, .width = 28, .window = 3, .stride = 2},
      {.images = 1, .inputs = 3, .outputs = 33, .height = 15, .width = 57, .window = 3, .dilation = 2},
      {.images = 1, .inputs = 3, .outputs = 64, .height = 18, .width = 32, .window = 7, .stride = 2},
      {.images = 4, .inputs = 24, .outputs = 40, .height = 7, .width = 7, .window = 1},
      {.images = 3, .inputs = 20, .outputs = 65, .height = 14, .width = 14, .window = 1, .turned = true},
      {.images = 2, .inputs = 7, .outputs = 48, .height = 16, .width = 18, .window = 1, .stride = 2},
      {.images = 1, .inputs = 16, .outputs = 64, .height = 4, .width = 56, .window = 1},
  };
  for (const examples::ConvShape& shape : shapes) {
    const std::string schedule = check(examples::convolution(shape), few_multiprocessors(1));
    EXPECT_TRUE(has(schedule, "j_1_0, k_1_1, l_1_1) stage(a0, shared, at=m_0")) << schedule;
  }
}

TEST(CudaContract, ConvolutionsOfFewPixelsAreCutAlongTheChannels) {
  const std::string few = examples::convolution({.images = 1, .inputs = 128, .outputs = 40, .height = 8, .width = 8, .window = 3});
  const std::string schedule = check(few, few_multiprocessors(4), nullptr, 2);
  EXPECT_TRUE(has(schedule, "split_reduce(v0, ") && has(schedule, "stage(a0, shared, at=m_1_part_0")) << schedule;
}

TEST(CudaContract, GradientsOfStridedConvolutionsSkipZeros) {
  for (const auto& [window, height, width] : {std::tuple{1, 14, 14}, {3, 12, 15}, {5, 9, 12}, {3, 6, 28}}) {
    const std::string schedule = check(examples::strided_input_gradient(2, 6, 34, height, width, window), few_multiprocessors(1));
    EXPECT_TRUE(has(schedule, "skip_zeros(v0) stage(a0, shared")) << schedule;
  }
  const std::string cut = check(examples::strided_input_gradient(1, 64, 34, 16, 16, 3), few_multiprocessors(8), nullptr, 2);
  EXPECT_TRUE(has(cut, "skip_zeros(v0_part) stage(a0, shared")) << cut;
}

TEST(CudaContract, OtherConvolutions) {
  check(examples::kConv, Target::cuda_sm80());
  check(examples::kDepthwiseConv, Target::cuda_sm80());
}

}  // namespace
}  // namespace tcc::schedule
