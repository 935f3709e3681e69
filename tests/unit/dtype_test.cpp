// The narrow floats, proved over all their values: rounding is monotonic, so it is right everywhere when every value keeps itself and,
// between each two neighbours, the midpoint goes to the even one and the f32 next to it on either side to its own.
#include "tcc/support/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>

namespace tcc {
namespace {

struct Narrow {
  const char* name;
  uint32_t num_finite;  ///< bit patterns 0, 1, ... of the non-negative finite values
  uint32_t sign;
  std::function<float(uint32_t)> decode;
  std::function<uint32_t(float)> encode;
  uint32_t beyond;  ///< what values past the largest become: infinity, or the largest
  bool has_negative_zero;
};

std::vector<Narrow> all_narrow() {
  std::vector<Narrow> all = {
      {"f16", 0x7c00, 0x8000, [](uint32_t b) { return f16_to_f32(static_cast<uint16_t>(b)); }, [](float v) { return f32_to_f16(v); },
       0x7c00, true},
      {"bf16", 0x7f80, 0x8000, [](uint32_t b) { return bf16_to_f32(static_cast<uint16_t>(b)); }, [](float v) { return f32_to_bf16(v); },
       0x7f80, true},
  };
  const auto f8 = [&](const char* name, DType dtype, uint32_t num_finite, bool has_negative_zero) {
    all.push_back({name, num_finite, 0x80, [=](uint32_t b) { return f8_to_f32(dtype, static_cast<uint8_t>(b)); },
                   [=](float v) { return f32_to_f8(dtype, v); }, num_finite - 1, has_negative_zero});
  };
  f8("f8e4m3fn", DType::f8e4m3fn, 0x7f, true);
  f8("f8e4m3fnuz", DType::f8e4m3fnuz, 0x80, false);
  f8("f8e5m2", DType::f8e5m2, 0x7c, true);
  f8("f8e5m2fnuz", DType::f8e5m2fnuz, 0x80, false);
  return all;
}

TEST(DType, NamesAndSizes) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
    EXPECT_EQ(is_float(dtype) + is_signed_integer(dtype) + is_unsigned_integer(dtype) + (dtype == DType::boolean), 1);
  }
  EXPECT_EQ(parse_dtype("float"), std::nullopt);
  EXPECT_EQ(name_of(DType::boolean), "bool");
  EXPECT_EQ(size_bits(DType::i4), 4);
  EXPECT_EQ(size_bytes(DType::i4), 1);
  EXPECT_EQ(size_bytes(DType::bf16), 2);
  EXPECT_EQ(compute_dtype(DType::f8e5m2), DType::f32);
  EXPECT_EQ(compute_dtype(DType::f64), DType::f64);
  EXPECT_EQ(compute_dtype(DType::i8), DType::i8);
}

TEST(DType, EveryFiniteValueRoundTrips) {
  for (const Narrow& narrow : all_narrow()) {
    for (uint32_t bits = 0; bits < narrow.num_finite; ++bits) {
      ASSERT_TRUE(std::isfinite(narrow.decode(bits))) << narrow.name << " " << bits;
      ASSERT_EQ(narrow.encode(narrow.decode(bits)), bits) << narrow.name;
      if (bits == 0 && !narrow.has_negative_zero) continue;
      ASSERT_EQ(narrow.decode(bits | narrow.sign), -narrow.decode(bits)) << narrow.name;
      ASSERT_EQ(narrow.encode(narrow.decode(bits | narrow.sign)), bits | narrow.sign) << narrow.name;
    }
    EXPECT_EQ(narrow.encode(-0.0f), narrow.has_negative_zero ? narrow.sign : 0) << narrow.name;
  }
}

TEST(DType, SixteenBitPatternsRoundTripNaNsIncluded) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    ASSERT_EQ(f32_to_f16(f16_to_f32(static_cast<uint16_t>(bits))), bits);
    ASSERT_EQ(f32_to_bf16(bf16_to_f32(static_cast<uint16_t>(bits))), bits);
  }
}

TEST(DType, RoundsToNearestEven) {
  for (const Narrow& narrow : all_narrow()) {
    for (uint32_t low = 0; low + 1 < narrow.num_finite; ++low) {
      const uint32_t even = low % 2 == 0 ? low : low + 1;
      const float middle = static_cast<float>((static_cast<double>(narrow.decode(low)) + narrow.decode(low + 1)) / 2);
      ASSERT_EQ(narrow.encode(middle), even) << narrow.name << " " << middle;
      ASSERT_EQ(narrow.encode(std::nextafter(middle, 0.0f)), low) << narrow.name << " " << middle;
      ASSERT_EQ(narrow.encode(std::nextafter(middle, INFINITY)), low + 1) << narrow.name << " " << middle;
      // The smallest negative numbers of the fnuz kinds become their only zero.
      const uint32_t negative = even == 0 && !narrow.has_negative_zero ? 0 : even | narrow.sign;
      ASSERT_EQ(narrow.encode(-middle), negative) << narrow.name << " " << -middle;
    }
  }
}

TEST(DType, BeyondTheLargest) {
  for (const Narrow& narrow : all_narrow()) {
    const double largest = narrow.decode(narrow.num_finite - 1);
    const double half_unit = (largest - narrow.decode(narrow.num_finite - 2)) / 2;
    EXPECT_EQ(narrow.encode(std::nextafter(static_cast<float>(largest + half_unit), 0.0f)), narrow.num_finite - 1) << narrow.name;
    EXPECT_EQ(narrow.encode(static_cast<float>(largest + half_unit)), narrow.beyond) << narrow.name;
    EXPECT_EQ(narrow.encode(INFINITY), narrow.beyond) << narrow.name;
    EXPECT_EQ(narrow.encode(-INFINITY), narrow.beyond | narrow.sign) << narrow.name;
  }
}

TEST(DType, NaNStaysNaN) {
  for (const uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xff800001u, 0x7fffffffu, 0x7f80ffffu}) {
    for (const Narrow& narrow : all_narrow()) {
      EXPECT_TRUE(std::isnan(narrow.decode(narrow.encode(std::bit_cast<float>(bits))))) << narrow.name << " " << bits;
    }
  }
}

TEST(DType, KnownValues) {
  EXPECT_EQ(f32_to_f16(1.0f), 0x3c00);
  EXPECT_EQ(f32_to_f16(65504.0f), 0x7bff);
  EXPECT_EQ(f16_to_f32(0x0001), 0x1p-24f);
  EXPECT_EQ(f32_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(f8_to_f32(DType::f8e4m3fn, 0x7e), 448.0f);
  EXPECT_EQ(f8_to_f32(DType::f8e4m3fnuz, 0x7f), 240.0f);
  EXPECT_EQ(f8_to_f32(DType::f8e5m2, 0x7b), 57344.0f);
  EXPECT_EQ(f8_to_f32(DType::f8e5m2fnuz, 0x7f), 57344.0f);
  EXPECT_EQ(f8_to_f32(DType::f8e4m3fn, 0x01), 0x1p-9f);
  EXPECT_EQ(f8_to_f32(DType::f8e4m3fnuz, 0x01), 0x1p-10f);
  EXPECT_EQ(f8_to_f32(DType::f8e5m2, 0x01), 0x1p-16f);
  EXPECT_EQ(f8_to_f32(DType::f8e5m2fnuz, 0x01), 0x1p-17f);
  EXPECT_EQ(f8_to_f32(DType::f8e5m2, 0x7c), INFINITY);
  EXPECT_TRUE(std::isnan(f8_to_f32(DType::f8e4m3fnuz, 0x80)));
}

}  // namespace
}  // namespace tcc
