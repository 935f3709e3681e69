#include "tcc/support/random.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tcc/support/parallel.h"

namespace tcc {
namespace {

using Words = std::array<uint32_t, 4>;

TEST(Random, PublishedVectors) {
  // The known answers that come with the paper's own implementation.
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, ElementsAreLanesOfBlocks) {
  const RandomStream stream{0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88};
  EXPECT_EQ(stream.bits(0), 0xd16cfe09u);
  EXPECT_EQ(stream.bits(3), 0x24126ea1u);
  EXPECT_EQ(stream.bits(4), philox4x32({0x243f6a89, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0})[0]);
  // The base moves whole blocks, and the counter carries between its words.
  EXPECT_EQ((RandomStream{7, 0, 5}.bits(2)), (RandomStream{7, 0, 0}.bits(22)));
  EXPECT_EQ((RandomStream{7, 0, 0xffffffff}.bits(4)), (philox4x32({0, 1, 0, 0}, {7, 0})[0]));
}

TEST(Random, Moments) {
  const RandomStream stream{42};
  constexpr int kCount = 100000;
  double uniform_sum = 0, uniform_squares = 0, sum = 0, squares = 0, cubes = 0, fourths = 0, products = 0;
  for (int i = 0; i < kCount; ++i) {
    const double u = stream.uniform(i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    uniform_sum += u;
    uniform_squares += u * u;
    const double n = stream.normal(i);
    sum += n;
    squares += n * n;
    cubes += n * n * n;
    fourths += n * n * n * n;
    if (i % 2 == 1) products += n * stream.normal(i - 1);
  }
  EXPECT_NEAR(uniform_sum / kCount, 0.5, 0.004);
  EXPECT_NEAR(uniform_squares / kCount, 1.0 / 3, 0.004);
  EXPECT_NEAR(sum / kCount, 0, 0.015);
  EXPECT_NEAR(squares / kCount, 1, 0.02);
  EXPECT_NEAR(cubes / kCount, 0, 0.05);
  EXPECT_NEAR(fourths / kCount, 3, 0.15);
  EXPECT_NEAR(products / (kCount / 2), 0, 0.02);  // the two of a pair don't correlate
}

TEST(Random, Integers) {
  const RandomStream stream{1};
  std::array<int, 5> counts{};
  for (int i = 0; i < 10000; ++i) {
    const int64_t value = stream.integer(i, -2, 3);
    ASSERT_GE(value, -2);
    ASSERT_LT(value, 3);
    ++counts[static_cast<size_t>(value + 2)];
  }
  for (const int count : counts) EXPECT_NEAR(count, 2000, 200);
}

TEST(Random, TensorsDoNotDependOnThreads) {
  const RandomStream stream{3, 1};
  for (const DType dtype : {DType::f32, DType::bf16, DType::i4, DType::boolean}) {
    set_num_threads(4);
    const Tensor many = random_integers(dtype, {70001}, stream, 0, 7);
    set_num_threads(1);
    const Tensor one = random_integers(dtype, {70001}, stream, 0, 7);
    EXPECT_TRUE(many.same_bytes(one)) << name_of(dtype);
  }
  const Tensor uniform = random_uniform(DType::f32, {3, 5}, stream, -2, 2);
  EXPECT_EQ(uniform.as_double(7), -2 + 4 * stream.uniform(7));
  EXPECT_EQ(random_normal(DType::f64, {9}, stream).as_double(8), stream.normal(8));
  EXPECT_EQ(random_normal(DType::f32, {0}, stream).count(), 0);
}

}  // namespace
}  // namespace tcc
