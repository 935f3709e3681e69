// Element types of tensors, with the names that every printed IR, message and command line uses.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tcc {

/// Element type of a tensor. Storage is little endian; sub-byte types are packed two per byte, low nibble first.
enum class DType : uint8_t {
  f32,
  f64,
  f16,
  bf16,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  boolean,  ///< one byte, 0 or 1; printed `bool`
  f8e4m3fn,
  f8e4m3fnuz,
  f8e5m2,
  f8e5m2fnuz,
  i4,
  u4,
};
inline constexpr int kNumDTypes = static_cast<int>(DType::u4) + 1;

std::string_view name_of(DType dtype);                                     ///< `f32`, `bf16`, `bool`, ...
std::optional<DType> parse_dtype(std::string_view name);                   ///< inverse of name_of
int size_bits(DType dtype);                                                ///< 4 for i4/u4, 8 for bool
inline int size_bytes(DType dtype) { return (size_bits(dtype) + 7) / 8; }  ///< of one element stored alone
bool is_float(DType dtype);                                                ///< f8 kinds included
bool is_integer(DType dtype);                                              ///< signed or unsigned; bool is not
bool is_signed_integer(DType dtype);
bool is_unsigned_integer(DType dtype);

/// The dtype in which sums and transcendental functions of `dtype` are computed: f32 for the 16-bit and 8-bit floats, itself otherwise.
DType compute_dtype(DType dtype);

// Conversions between the 16-bit floats and f32; rounding is to nearest even, NaN stays NaN.
float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float value);

// The same for the 8-bit kinds (`dtype` says which). They saturate: beyond the largest finite value, infinity included, is that value.
float f8_to_f32(DType dtype, uint8_t bits);
uint8_t f32_to_f8(DType dtype, float value);

}  // namespace tcc
