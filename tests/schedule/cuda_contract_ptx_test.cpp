// The chosen kernels as PTX: columns are summed by wide loads in flight together, transposes touch neighbours on both sides, a tensor-core tile's inner loop is loads and products alone, neighbours move in 16 bytes, and nothing spills (where there is a ptxas).
#include <gtest/gtest.h>

#include "attention_unit.h"
#include "contract_units.h"
#include "narrow_contraction.h"
#include "tcc/codegen/codegen.h"
#include "tcc/schedule/schedule.h"

namespace tcc::schedule {
namespace {

std::string ptx_of(const std::string& text, size_t number = 0, const Target& target = Target::cuda_sm80()) {
  const loop::Unit unit = loop::parse_unit(text, "test");
  const std::vector<loop::Kernel> kernels = split_kernels(apply(unit, choose(unit, target), target), target, nullptr);
  codegen::Options options;
  options.target = target.name;
  const std::string ptx = codegen::emit_nvptx({{"k", &kernels.at(number)}}, options).assembly;
  for (const char* arch : {"sm_80", "sm_90a"}) {
    if (codegen::find_ptxas().empty() || (target.name == "sm_90a" && arch != target.name)) continue;
    std::string report;
    codegen::assemble_ptx(ptx, arch, &report);
    EXPECT_NE(report.find("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"), std::string::npos) << report;
  }
  return ptx;
}

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(CudaContractPtx, LargeProductsOfEitherOrderDontSpill) {
  for (const bool turned_a : {false, true}) {
    for (const bool turned_b : {false, true}) {
      const std::string ptx = ptx_of(examples::matmul("bf16", 4096, 4096, 4096, turned_a, turned_b));
      EXPECT_EQ(count(ptx, "mma.sync.aligned.m16n8k16"), 128);  // of 128 x 256 x 32, once in the loop and once after it
      EXPECT_EQ(count(ptx, "ldmatrix.sync"), 32);
      EXPECT_GE(count(ptx, "st.global.b32"), 60);  // pairs of 16-bit results
    }
  }
}

TEST(CudaContractPtx, StreamedRowsDontSpill) {
  for (const int depth : {64, 128}) {
    for (const char* mask : {"", "add($x, cast<f32>(load %a3[%j, $k]))", "select(le(index($k), index(%j)), $x, -inf)"}) {
      for (const int rows : {4096, 1003, 197}) {
        examples::Attention shape{.batch = 64, .rows = rows, .columns = rows, .depth = depth, .width = depth, .mask = mask};
        const std::string ptx = ptx_of(examples::attention(shape), 0, Target::cuda_sm90a());
        EXPECT_GT(count(ptx, "wgmma.mma_async.sync.aligned.m64n"), 0);
        EXPECT_GT(count(ptx, "ex2.approx.ftz"), 0);
        EXPECT_GT(count(ptx, "cvt.rn.bf16x2.f32"), 0) << "pairs are rounded together";
      }
    }
  }
}

TEST(CudaContractPtx, DequantisedWeightsDontSpill) {
  const auto text_of = [](int rows, const char* weights, int block, bool zero_points) {
    return examples::narrow_contraction(
        {.rows = rows, .columns = 11008, .length = 4096, .block = block, .weights = weights, .zero_points = zero_points});
  };
  for (const auto& [weights, block, zero_points] :
       {std::tuple{"i4", 32, false}, {"u4", 128, true}, {"i4", 0, false}, {"i8", 32, false}, {"u8", 0, true}}) {
    const std::string one = ptx_of(text_of(1, weights, block, zero_points));
    EXPECT_GT(count(one, "ld.global.nc.v4"), 0) << "16 bytes of weights at a time\n" << one;
    EXPECT_EQ(count(one, "mma.sync"), 0);
    for (const int rows : {16, 512, 4096}) {
      const std::string text = text_of(rows, weights, block, zero_points);
      EXPECT_GT(count(ptx_of(text), "mma.sync.aligned.m16n8k16"), 0) << rows;
      // Of many rows the factor is made first.
      if (rows < 4096) continue;
      EXPECT_GT(count(ptx_of(text, 1, Target::cuda_sm90a()), "wgmma.mma_async.sync.aligned.m64n"), 0);
    }
  }
}

TEST(CudaContractPtx, LargeProductsOfBytesDontSpill) {
  const std::string product = examples::matmul("bf16", 4096, 4096, 4096, false, true);
  for (const char* dtype : {"i8", "u8", "f8e4m3fn", "f8e5m2"}) {
    const std::string text = examples::with_factors(product, dtype, dtype), exact = ptx_of(text),
                      hopper = ptx_of(text, 0, Target::cuda_sm90a());
    EXPECT_EQ(count(exact, dtype[0] == 'f' ? "mma.sync.aligned.m16n8k16" : "mma.sync.aligned.m16n8k32"), 128);
    EXPECT_GT(count(hopper, "wgmma.mma_async.sync.aligned.m64n"), 0);
    EXPECT_EQ(count(hopper, "mma.sync"), 0);
  }
  // Of mixed kinds, the ones of integers with a version of PTX of their own.
  for (const auto& [a, b] : {std::pair{"u8", "i8"}, {"i8", "u8"}, {"f8e5m2", "f8e4m3fn"}, {"f8e4m3fn", "f8e5m2"}}) {
    const std::string text = examples::with_factors(product, a, b), hopper = ptx_of(text, 0, Target::cuda_sm90a());
    EXPECT_EQ(count(hopper, ".version 8.4"), a[0] == 'f' ? 0 : 1) << hopper.substr(0, 200);
    EXPECT_GT(count(hopper, "wgmma.mma_async.sync.aligned.m64n"), 0);
    EXPECT_GT(count(ptx_of(text), "mma.sync.aligned"), 0);
  }
}

TEST(CudaContractPtx, TilesOfExactProductsMoveSixteenBytes) {
  for (const bool turned_a : {false, true}) {
    for (const bool turned_b : {false, true}) {
      const std::string ptx = ptx_of(examples::matmul("f32", 2048, 2048, 512, turned_a, turned_b));
      EXPECT_GT(count(ptx, "ld.shared.v4"), 0);
      EXPECT_EQ(count(ptx, "ld.shared.b32"), 0);
    }
  }
}

TEST(CudaContractPtx, GradientsOfWeightsInPartsMoveSixteenBytes) {
  const std::string exact = examples::matmul("f32", 768, 768, 8192, true, false), parts = ptx_of(exact), sum = ptx_of(exact, 1);
  EXPECT_GE(count(parts, "cp.async.cg.shared.global"), 8);
  EXPECT_EQ(count(parts, "cp.async.ca.shared.global"), 0);
  EXPECT_EQ(count(parts, "ld.shared.b32"), 0);
  EXPECT_EQ(count(sum, "ld.global.nc.v4.b32"), 7);
  EXPECT_EQ(count(sum, "st.global.v4.b32"), 1);
  const std::string half = examples::matmul("bf16", 768, 768, 8192, true, false);
  EXPECT_GE(count(ptx_of(half), "mma.sync.aligned.m16n8k16"), 128);
  ptx_of(half, 1);
}

TEST(CudaContractPtx, GradientsOfConvolutionsDontSpill) {
  const std::string pointwise = examples::conv_weight_gradient(256, 128, 28, 1), window = examples::conv_weight_gradient(128, 128, 28, 3),
                    small = examples::conv_weight_gradient(512, 512, 7, 3);
  EXPECT_GE(count(ptx_of(pointwise), "cp.async.cg.shared.global"), 4);
  EXPECT_GT(count(ptx_of(pointwise), "ld.shared.v4"), 0);
  EXPECT_EQ(count(ptx_of(pointwise), "ld.shared.b32"), 0);
  EXPECT_GT(count(ptx_of(window), "ld.shared.v4"), 0);
  EXPECT_GE(count(ptx_of(window), "cp.async.ca.shared.global"), 4);  // a window's rows begin anywhere
  EXPECT_GE(count(ptx_of(small), "cp.async.ca.shared.global"), 4);
  ptx_of(pointwise, 1);
}

TEST(CudaContractPtx, ConvolutionsDontSpill) {
  const examples::ConvShape shapes[] = {
      {.images = 32, .inputs = 64, .outputs = 64, .height = 56, .width = 56, .window = 3},
      {.images = 32, .inputs = 128, .outputs = 128, .height = 28, .width = 28, .window = 3, .turned = true},
      {.images = 32, .inputs = 512, .outputs = 512, .height = 7, .width = 7, .window = 3},
      {.images = 32, .inputs = 256, .outputs = 256, .height = 28, .width = 28, .window = 3, .stride = 2},
      {.images = 32, .inputs = 3, .outputs = 64, .height = 224, .width = 224, .window = 7, .stride = 2},
      {.images = 32, .inputs = 64, .outputs = 256, .height = 56, .width = 56, .window = 1},
      {.images = 32, .inputs = 1024, .outputs = 256, .height = 14, .width = 14, .window = 1, .turned = true},
      {.images = 32, .inputs = 512, .outputs = 1024, .height = 28, .width = 28, .window = 1, .stride = 2},
  };
  for (const examples::ConvShape& shape : shapes) {
    const std::string ptx = ptx_of(examples::convolution(shape));
    EXPECT_GT(count(ptx, "cp.async.c"), 0);
  }
}

TEST(CudaContractPtx, ConvolutionsOfHalvesOnTensorCoresDontSpill) {
  const examples::ConvShape shapes[] = {
      {.images = 32, .inputs = 64, .outputs = 64, .height = 56, .width = 56, .window = 3},
      {.images = 32, .inputs = 128, .outputs = 128, .height = 28, .width = 28, .window = 3, .turned = true},
      {.images = 32, .inputs = 512, .outputs = 512, .height = 7, .width = 7, .window = 3},
      {.images = 32, .inputs = 256, .outputs = 256, .height = 28, .width = 28, .window = 3, .stride = 2},
      {.images = 32, .inputs = 3, .outputs = 64, .height = 224, .width = 224, .window = 7, .stride = 2},
      {.images = 32, .inputs = 64, .outputs = 256, .height = 56, .width = 56, .window = 1},
      {.images = 32, .inputs = 2048, .outputs = 512, .height = 7, .width = 7, .window = 1},
      {.images = 32, .inputs = 512, .outputs = 1024, .height = 28, .width = 28, .window = 1, .stride = 2},
  };
  for (examples::ConvShape shape : shapes) {
    shape.dtype = "bf16";
    EXPECT_GT(count(ptx_of(examples::convolution(shape)), "mma.sync.aligned.m16n8k16"), 0);
  }
}

TEST(CudaContractPtx, GradientsOfStridedConvolutionsHaveNoProductsWithZeros) {
  for (const int size : {14, 28, 56}) {
    const std::string ptx = ptx_of(examples::strided_input_gradient(32, 256, 256, size, size, 3));
    const int products = count(ptx, "fma.rn.f32");  // of the steady loop and of the last steps: 9 of 32 or 64 results, less three of four
    EXPECT_TRUE(products == 2 * 9 * 32 / 4 || products == 2 * 9 * 64 / 4) << products;
    EXPECT_EQ(count(ptx, "selp.f32"), 0);
  }
}

TEST(CudaColumnsPtx, SumsDownColumnsLoadSixteenBytesSeveralAtATime) {
  const std::string ptx = ptx_of(
      "unit (%a0: f32[65536, 2048]) -> (%r0: f32[2048]) {\n map %i in 2048 {\n %v0: f32 = reduce sum %j in 65536 { yield load %a0[%j, %i] "
      "}\n"
      " store %v0, %r0[%i]\n }\n}\n");
  EXPECT_GE(count(ptx, "ld.global.nc.v4.b32"), 8);
  EXPECT_EQ(count(ptx, "ld.global.nc.b32"), 0);
  EXPECT_EQ(count(ptx, "st.global.v4.b32"), 1);
}

TEST(CudaTransposePtx, TurnedOperandsPassThroughSharedMemory) {
  const std::string ptx = ptx_of(
      "unit (%a0: f32[4096, 4096]) -> (%r0: f32[4096, 4096]) {\n map %i in 4096, %j in 4096 { store load %a0[%j, %i], %r0[%i, %j] }\n}\n");
  EXPECT_EQ(count(ptx, "ld.global.nc.b32"), 16);  // 64 x 64 by 256 threads
  EXPECT_EQ(count(ptx, "st.shared.b32"), 16);
  EXPECT_EQ(count(ptx, "ld.shared.b32"), 16);
  EXPECT_EQ(count(ptx, "st.global.b32"), 16);
}

}  // namespace
}  // namespace tcc::schedule
