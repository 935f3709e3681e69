#include "tcc/support/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "scratch.h"

namespace tcc {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

Tensor doubles(std::initializer_list<double> values) {
  Tensor tensor(DType::f64, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.mutable_data<double>());
  return tensor;
}

std::vector<int64_t> as_ints(const Tensor& tensor) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < tensor.count(); ++i) values.push_back(tensor.as_int64(i));
  return values;
}

std::vector<double> as_doubles(const Tensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.count(); ++i) values.push_back(tensor.as_double(i));
  return values;
}

using Ints = std::vector<int64_t>;
using Doubles = std::vector<double>;

TEST(Tensor, Shapes) {
  EXPECT_EQ(num_elements(Shape{}), 1);
  EXPECT_EQ(num_elements(Shape{2, 0, 3}), 0);
  EXPECT_EQ(num_elements(Shape{kMax, 2}), kMax);
  EXPECT_EQ(num_elements(Shape{kMax, 2, 0}), 0);
  EXPECT_EQ(storage_bytes(DType::i4, 3), 2);
  EXPECT_EQ(storage_bytes(DType::u4, kMax), kMax / 2 + 1);
  EXPECT_EQ(storage_bytes(DType::f64, kMax), kMax);
  EXPECT_EQ(row_major_strides(Shape{2, 3, 4}), (std::vector<int64_t>{12, 4, 1}));
  EXPECT_EQ(to_string(Shape{2, 3}), "[2, 3]");
  EXPECT_EQ(to_string(Shape{}), "[]");
}

TEST(Tensor, AllocatesAlignedZeros) {
  const Tensor tensor(DType::f32, {3, 5});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.bytes()) % 64, 0u);
  EXPECT_EQ(as_doubles(tensor), Doubles(15, 0.0));
  EXPECT_TRUE(Tensor(DType::f32, {0}).defined());
  EXPECT_FALSE(Tensor().defined());
  EXPECT_TRUE(Tensor(DType::f32, {0}, nullptr, nullptr).defined());
  EXPECT_NE(testing::error_of(ExitCode::environment, [] { Tensor(DType::f64, {kMax / 16}); }).find("out-of-memory"), std::string::npos);
  EXPECT_NE(testing::error_of(ExitCode::environment, [] { Tensor(DType::f64, {kMax, kMax}); }).find("out-of-memory"), std::string::npos);
}

TEST(Tensor, ViewsAreNotWritten) {
  const auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3, 4});
  Tensor view(DType::f32, {2, 2}, owner->data(), owner);
  EXPECT_EQ(view.as_double(3), 4);
  testing::error_of(ExitCode::internal, [&] { view.set_double(0, 1); });
  Tensor own(DType::f32, {4});
  testing::error_of(ExitCode::internal, [&] { own.reshaped({2, 2}).set_double(0, 1); });
  testing::error_of(ExitCode::internal, [&] { own.reshaped({3}); });
  EXPECT_TRUE(view.reshaped({4}).same_bytes(own) == false);
  for (int i = 0; i < 4; ++i) own.set_double(i, i + 1);
  EXPECT_TRUE(view.reshaped({4}).same_bytes(own));
  EXPECT_FALSE(view.same_bytes(own));  // another shape
}

TEST(Tensor, FloatToIntegerTruncatesAndSaturates) {
  const Tensor source = doubles({1.9, -1.9, 300, -300, 1e30, -1e30, INFINITY, -INFINITY, NAN, -0.5});
  EXPECT_EQ(as_ints(source.cast_to(DType::i8)), (Ints{1, -1, 127, -128, 127, -128, 127, -128, 0, 0}));
  EXPECT_EQ(as_ints(source.cast_to(DType::u8)), (Ints{1, 0, 255, 0, 255, 0, 255, 0, 0, 0}));
  EXPECT_EQ(as_ints(source.cast_to(DType::i4)), (Ints{1, -1, 7, -8, 7, -8, 7, -8, 0, 0}));
  EXPECT_EQ(as_ints(source.cast_to(DType::u4)), (Ints{1, 0, 15, 0, 15, 0, 15, 0, 0, 0}));
  EXPECT_EQ(as_ints(source.cast_to(DType::i64)), (Ints{1, -1, 300, -300, kMax, kMin, kMax, kMin, 0, 0}));
  EXPECT_EQ(as_ints(source.cast_to(DType::boolean)), (Ints{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  const Tensor edges = doubles({0x1p63, -0x1p63, 0x1p64, std::nextafter(0x1p64, 0.0), 2147483647.5, -2147483648.5});
  EXPECT_EQ(edges.cast_to(DType::u64).data<uint64_t>()[2], std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(edges.cast_to(DType::u64).data<uint64_t>()[3], 0xfffffffffffff800u);
  EXPECT_EQ(edges.cast_to(DType::u64).data<uint64_t>()[0], uint64_t{1} << 63);
  EXPECT_EQ(as_ints(edges.cast_to(DType::i64)), (Ints{kMax, kMin, kMax, kMax, 2147483647, -2147483648}));
  EXPECT_EQ(as_ints(edges.cast_to(DType::i32)), (Ints{2147483647, -2147483648, 2147483647, 2147483647, 2147483647, -2147483648}));
  // From f32 as from f64, though 2^31 - 1 is not a f32.
  EXPECT_EQ(as_ints(edges.cast_to(DType::f32).cast_to(DType::i32)),
            (Ints{2147483647, -2147483648, 2147483647, 2147483647, 2147483647, -2147483648}));
}

TEST(Tensor, IntegerToIntegerWraps) {
  const Tensor source = Tensor::from_ints({300, -1, 128, kMin, kMax, 0});
  EXPECT_EQ(as_ints(source.cast_to(DType::i8)), (Ints{44, -1, -128, 0, -1, 0}));
  EXPECT_EQ(as_ints(source.cast_to(DType::u8)), (Ints{44, 255, 128, 0, 255, 0}));
  EXPECT_EQ(as_ints(source.cast_to(DType::i4)), (Ints{-4, -1, 0, 0, -1, 0}));
  EXPECT_EQ(as_ints(source.cast_to(DType::u4)), (Ints{12, 15, 0, 0, 15, 0}));
  EXPECT_EQ(as_ints(source.cast_to(DType::boolean)), (Ints{1, 1, 1, 1, 1, 0}));
  EXPECT_EQ(as_ints(source.cast_to(DType::u64).cast_to(DType::i64)), as_ints(source));
  EXPECT_EQ(source.cast_to(DType::u64).as_double(1), 0x1p64);  // 2^64 - 1, rounded
  EXPECT_EQ(source.cast_to(DType::u32).cast_to(DType::f64).as_double(1), 4294967295.0);
}

TEST(Tensor, IntegerToFloatRoundsOnce) {
  // Through f64 these would round twice: 2^60 + 2^36 + 1 lies above the middle of two f32, and f64 drops the 1.
  const int64_t above_middle = (int64_t{1} << 60) + (int64_t{1} << 36) + 1;
  EXPECT_EQ(Tensor::from_ints({above_middle}).cast_to(DType::f32).as_double(0), 0x1p60 + 0x1p37);
  EXPECT_EQ(Tensor::from_ints({above_middle - 1}).cast_to(DType::f32).as_double(0), 0x1p60);
  Tensor set(DType::f32, {1});
  set.set_int64(0, above_middle);
  EXPECT_EQ(set.as_double(0), 0x1p60 + 0x1p37);
}

TEST(Tensor, ToNarrowFloats) {
  const Tensor source = doubles({1e6, -1e6, 0.1, NAN, 1 + 0x1p-11, 1 + 0x1p-11 + 0x1p-22});
  EXPECT_EQ(source.cast_to(DType::f16).data<uint16_t>()[0], 0x7c00);
  EXPECT_EQ(source.cast_to(DType::f16).data<uint16_t>()[4], 0x3c00);
  EXPECT_EQ(source.cast_to(DType::f16).data<uint16_t>()[5], 0x3c01);
  EXPECT_EQ(source.cast_to(DType::f8e4m3fn).as_double(0), 448);
  EXPECT_EQ(source.cast_to(DType::f8e4m3fn).as_double(1), -448);
  EXPECT_TRUE(std::isnan(source.cast_to(DType::f8e4m3fn).as_double(3)));
  EXPECT_EQ(source.cast_to(DType::bf16).as_double(2), 0.10009765625);
  EXPECT_EQ(doubles({1e300}).cast_to(DType::f32).as_double(0), INFINITY);
}

TEST(Tensor, ScalarAccessAndCastAgreeOnEveryPairOfDTypes) {
  // An odd number of elements over several chunks, so that the last nibble and the seams between chunks are covered.
  constexpr int64_t kCount = 2049;
  for (int from = 0; from < kNumDTypes; ++from) {
    Tensor source(static_cast<DType>(from), {kCount});
    for (int64_t i = 0; i < kCount; ++i) source.set_double(i, std::remainder(static_cast<double>(i) * 0.75, 9));
    for (int to = 0; to < kNumDTypes; ++to) {
      const Tensor cast = source.cast_to(static_cast<DType>(to));
      Tensor expected(static_cast<DType>(to), {kCount});
      const bool from_float = is_float(static_cast<DType>(from));
      for (int64_t i = 0; i < kCount; ++i)
        from_float ? expected.set_double(i, source.as_double(i)) : expected.set_int64(i, source.as_int64(i));
      ASSERT_TRUE(cast.same_bytes(expected)) << name_of(static_cast<DType>(from)) << " to " << name_of(static_cast<DType>(to));
    }
  }
}

TEST(Tensor, NibblesArePackedLowFirst) {
  Tensor tensor(DType::i4, {3});
  tensor.set_int64(0, 1);
  tensor.set_int64(1, -2);
  tensor.set_int64(2, 3);
  EXPECT_EQ(tensor.size_bytes(), 2);
  EXPECT_EQ(tensor.data<uint8_t>()[0], 0xe1);
  EXPECT_EQ(tensor.data<uint8_t>()[1], 0x03);
  tensor.set_int64(1, 5);
  EXPECT_EQ(as_ints(tensor), (Ints{1, 5, 3}));
  // The half byte that belongs to no element doesn't count.
  const uint8_t other[] = {0x51, 0xf3};
  EXPECT_TRUE(tensor.same_bytes(Tensor(DType::i4, {3}, other, nullptr)));
}

TEST(Tensor, Scalars) {
  EXPECT_EQ(Tensor::scalar(DType::bf16, 1.5).as_double(0), 1.5);
  EXPECT_EQ(Tensor::scalar(DType::i32, -2.7).as_int64(0), -2);
  EXPECT_EQ(Tensor::scalar(DType::boolean, 0.5).as_double(0), 1);
  EXPECT_EQ(Tensor::scalar(DType::f32, 2).rank(), 0);
  EXPECT_EQ(doubles({-2.7}).as_int64(0), -2);
  EXPECT_EQ(doubles({1e300}).as_int64(0), kMax);
}

}  // namespace
}  // namespace tcc
