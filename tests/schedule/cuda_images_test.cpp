// Convolutions of images whose channels are last by warpgroups: tiles are boxes of images, read through windows; kernels compute what the first form does.
#include <gtest/gtest.h>

#include "check_contract.h"
#include "image_products.h"

namespace tcc::schedule {
namespace {

using examples::ImageProduct;
using examples::random_image_product;

/// A chip on which products of a size that can be interpreted are worth warpgroups, and copies before them.
Target small_chip() {
  Target target = Target::cuda_sm90a();
  target.second_kernel_ns = target.launch_ns = 0;
  target.bytes_per_ns *= 100;
  return target;
}

/// Checks products of random images; how many of them are made of boxes by warpgroups.
template <class Text> int count_in_boxes(uint32_t first_seed, uint32_t last_seed, Text text_of) {
  int in_boxes = 0;
  for (uint32_t seed = first_seed; seed <= last_seed && !testing::Test::HasFailure(); seed++) {
    const std::string text = text_of(random_image_product(seed));
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    const std::string schedule = check(text, small_chip(), nullptr, 0);
    in_boxes += has(schedule, "m64nNk16") && has(schedule, "masks=sum");
  }
  return in_boxes;
}

TEST(CudaImages, RandomConvolutions) {
  EXPECT_GT(count_in_boxes(1, 9, [](const ImageProduct& product) { return product.forward(); }), 0);
}

TEST(CudaImages, RandomGradientsOfImages) {
  const auto gradient = [](ImageProduct product) {
    product.step = 1;
    return product.gradient_of_image();
  };
  EXPECT_GT(count_in_boxes(101, 112, gradient), 6);
}

TEST(CudaImages, RandomGradientsOfWeights) {
  int by_warpgroups = 0;
  for (uint32_t seed = 201; seed <= 209; seed++) {
    ImageProduct product = random_image_product(seed);
    // Boxes that fill images exactly.
    if (seed % 4 != 0) {
      product.images = seed % 2 == 0 ? 4 : 8;
      product.height = product.width = (seed % 2 == 0 ? 8 : 4) * product.step;
      product.pad = product.dilation * (product.window - 1) / 2;
    }
    const std::string text = product.gradient_of_weights();
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    const std::string schedule = check(text, small_chip(), nullptr, 0);
    by_warpgroups += has(schedule, "m64nNk16");
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
  EXPECT_GT(by_warpgroups, 4);
}

TEST(CudaImages, GradientsOfWeightsInParts) {
  const ImageProduct product{.images = 64, .height = 16, .width = 16, .inputs = 64, .outputs = 64, .window = 1, .step = 2, .pad = 0};
  const std::string schedule = check(product.gradient_of_weights(), small_chip(), nullptr, 0);
  EXPECT_TRUE(has(schedule, "m64nNk16") && has(schedule, "split_reduce")) << schedule;
}

/// The instruction for tf32 takes factors with the sum inside, or lanes that gather it: parts of the sum are in the order of the tile, results in another.
TEST(CudaImages, GradientsOfWeightsByTf32InParts) {
  Target target = small_chip();
  target.allow_tf32 = true;
  int in_parts = 0;
  for (const int window : {1, 3}) {
    ImageProduct product{.images = 16, .height = 9, .width = 8, .inputs = 32, .outputs = 32, .window = window, .pad = window / 2};
    product.dtype = "f32";
    SCOPED_TRACE(product.gradient_of_weights());
    const std::string schedule = check(product.gradient_of_weights(), target, nullptr, 0);
    EXPECT_TRUE(has(schedule, "m16n8k8")) << schedule;
    in_parts += has(schedule, "split_reduce");
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
  EXPECT_GT(in_parts, 0);
}

TEST(CudaImages, ConvolutionsByTf32) {
  Target target = small_chip();
  target.allow_tf32 = true;
  int in_boxes = 0;
  for (uint32_t seed = 301; seed <= 304; seed++) {
    ImageProduct product = random_image_product(seed);
    product.dtype = "f32";
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + product.forward());
    const std::string schedule = check(product.forward(), target, nullptr, 0);
    in_boxes += has(schedule, "m64nNk8") && has(schedule, "masks=sum");
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
  EXPECT_GT(in_boxes, 1);
}

TEST(CudaImages, PixelsOfAWindowOfOneAreRows) {
  ImageProduct product{.images = 8, .height = 7, .width = 5, .inputs = 64, .outputs = 72, .window = 1, .pad = 0};
  const std::string schedule = check(product.forward(), small_chip(), nullptr, 0);
  EXPECT_TRUE(has(schedule, "m64nNk16") && has(schedule, "fuse(i, j)") && !has(schedule, "masks=sum")) << schedule;
  // Pixels beyond the image are not those of the next row.
  product.pad = 1;
  check(product.forward(), small_chip(), nullptr, 0);
}

}  // namespace
}  // namespace tcc::schedule
