// Names and sizes of the element types, and the bit-level conversions of the narrow floats.
//
// A narrow float is always converted from f32 (never from f64 directly): see the cast rule in tensor.h. Decoding is exact, encoding rounds
// to nearest even. The 8-bit kinds saturate: what is larger than the largest finite value, infinities included, becomes that value.

#include "tcc/support/dtype.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

struct DTypeInfo {
  std::string_view name;
  int bits;
  enum Class : uint8_t { floating, signed_integer, unsigned_integer, boolean } kind;
};

// In the order of the enumeration.
constexpr std::array<DTypeInfo, kNumDTypes> kInfo = {{
    {"f32", 32, DTypeInfo::floating},         {"f64", 64, DTypeInfo::floating},         {"f16", 16, DTypeInfo::floating},
    {"bf16", 16, DTypeInfo::floating},        {"i8", 8, DTypeInfo::signed_integer},     {"i16", 16, DTypeInfo::signed_integer},
    {"i32", 32, DTypeInfo::signed_integer},   {"i64", 64, DTypeInfo::signed_integer},   {"u8", 8, DTypeInfo::unsigned_integer},
    {"u16", 16, DTypeInfo::unsigned_integer}, {"u32", 32, DTypeInfo::unsigned_integer}, {"u64", 64, DTypeInfo::unsigned_integer},
    {"bool", 8, DTypeInfo::boolean},          {"f8e4m3fn", 8, DTypeInfo::floating},     {"f8e4m3fnuz", 8, DTypeInfo::floating},
    {"f8e5m2", 8, DTypeInfo::floating},       {"f8e5m2fnuz", 8, DTypeInfo::floating},   {"i4", 4, DTypeInfo::signed_integer},
    {"u4", 4, DTypeInfo::unsigned_integer},
}};

const DTypeInfo& info(DType dtype) { return kInfo[static_cast<size_t>(dtype)]; }

/// An 8-bit float: sign, exponent, mantissa. `fnuz` kinds have one NaN at the place of -0, and no infinity.
struct F8Format {
  int mantissa_bits;
  int bias;
  float largest;
  uint8_t nan;  ///< without the sign, except for fnuz
  bool fnuz;
  bool has_infinity;
};

F8Format f8_format(DType dtype) {
  switch (dtype) {
    case DType::f8e4m3fn: return {3, 7, 448.0f, 0x7f, false, false};
    case DType::f8e4m3fnuz: return {3, 8, 240.0f, 0x80, true, false};
    case DType::f8e5m2: return {2, 15, 57344.0f, 0x7f, false, true};
    case DType::f8e5m2fnuz: return {2, 16, 57344.0f, 0x80, true, false};
    default: internal_error("not an 8-bit float");
  }
}

float decode_f8(const F8Format& format, uint8_t bits) {
  const int magnitude = bits & 0x7f;
  const float sign = (bits & 0x80) != 0 ? -1.0f : 1.0f;
  const int mantissa = magnitude & ((1 << format.mantissa_bits) - 1);
  const int exponent = magnitude >> format.mantissa_bits;
  if (format.fnuz) {
    if (bits == format.nan) return std::bit_cast<float>(0x7fc00000u);
  } else if (format.has_infinity ? exponent == 31 && mantissa != 0 : magnitude == format.nan) {
    return std::bit_cast<float>(sign < 0 ? 0xffc00000u : 0x7fc00000u);
  } else if (format.has_infinity && exponent == 31) {
    return sign * INFINITY;
  }
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), 1 - format.bias - format.mantissa_bits);
  return sign * std::ldexp(static_cast<float>(mantissa + (1 << format.mantissa_bits)), exponent - format.bias - format.mantissa_bits);
}

std::array<float, 256> make_f8_table(DType dtype) {
  std::array<float, 256> table;
  for (int bits = 0; bits < 256; ++bits) table[bits] = decode_f8(f8_format(dtype), static_cast<uint8_t>(bits));
  return table;
}

}  // namespace

std::string_view name_of(DType dtype) { return info(dtype).name; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (kInfo[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

int size_bits(DType dtype) { return info(dtype).bits; }
bool is_float(DType dtype) { return info(dtype).kind == DTypeInfo::floating; }
bool is_signed_integer(DType dtype) { return info(dtype).kind == DTypeInfo::signed_integer; }
bool is_unsigned_integer(DType dtype) { return info(dtype).kind == DTypeInfo::unsigned_integer; }
bool is_integer(DType dtype) { return is_signed_integer(dtype) || is_unsigned_integer(dtype); }

DType compute_dtype(DType dtype) { return is_float(dtype) && size_bits(dtype) < 32 ? DType::f32 : dtype; }

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f;
  const uint32_t mantissa = bits & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  if (mantissa == 0) return std::bit_cast<float>(sign);
  // Subnormal: shift the leading one up to the place of the hidden bit.
  const int shift = std::countl_zero(mantissa) - 21;
  return std::bit_cast<float>(sign | (static_cast<uint32_t>(113 - shift) << 23) | (((mantissa << shift) & 0x3ff) << 13));
}

uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000u) {
    // Truncating the payload of a NaN must not make an infinity of it.
    const uint32_t payload = (magnitude >> 13) & 0x3ff;
    return static_cast<uint16_t>(sign | 0x7c00 | (payload != 0 ? payload : 0x200));
  }
  if (magnitude >= 0x477ff000u) return sign | 0x7c00;  // 65520 and up: half a unit above the largest, rounds to infinity
  if (magnitude >= 0x38800000u) {                      // normal: at least 2^-14
    const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
    return static_cast<uint16_t>(sign | ((rounded >> 13) - (112u << 10)));
  }
  if (magnitude <= 0x33000000u) return sign;  // 2^-25 and down: at most half of the smallest subnormal, ties to zero
  // Subnormal: units of 2^-24.
  const uint32_t shift = 126 - (magnitude >> 23);  // 14 (just below 2^-14) to 24
  const uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
  const uint32_t whole = mantissa >> shift;
  const uint32_t rest = mantissa & ((1u << shift) - 1);
  const uint32_t half = 1u << (shift - 1);
  return static_cast<uint16_t>(sign | (whole + (rest > half || (rest == half && (whole & 1) != 0) ? 1 : 0)));
}

float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000u) {
    const uint16_t top = static_cast<uint16_t>(bits >> 16);
    return (top & 0x7f) != 0 ? top : static_cast<uint16_t>(top | 0x40);
  }
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float f8_to_f32(DType dtype, uint8_t bits) {
  static const std::array<std::array<float, 256>, 4> tables = {make_f8_table(DType::f8e4m3fn), make_f8_table(DType::f8e4m3fnuz),
                                                               make_f8_table(DType::f8e5m2), make_f8_table(DType::f8e5m2fnuz)};
  const int index = static_cast<int>(dtype) - static_cast<int>(DType::f8e4m3fn);
  check(index >= 0 && index < 4, "not an 8-bit float");
  return tables[index][bits];
}

uint8_t f32_to_f8(DType dtype, float value) {
  const F8Format format = f8_format(dtype);
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return format.fnuz ? format.nan : static_cast<uint8_t>(sign | format.nan);
  const float magnitude = std::fabs(value) < format.largest ? std::fabs(value) : format.largest;
  // In units of the last place at this exponent, counted from the smallest normal one on, the value rounds to an integer, hidden bit
  // included; a carry into the next exponent falls out of the addition.
  const int exponent = magnitude == 0 ? 1 - format.bias : std::max(std::ilogb(magnitude), 1 - format.bias);
  const float units = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  const int bits = ((exponent + format.bias - 1) << format.mantissa_bits) + static_cast<int>(units);
  if (format.fnuz && bits == 0) return 0;  // there is no -0
  return static_cast<uint8_t>(sign | bits);
}

}  // namespace tcc
