// 8-bit floats, by integer arithmetic on the bits of f32, the same on both targets (f8_to_f32 and f32_to_f8 of tcc/support/dtype.h say what comes out).
//
//   kind      bias  mantissa  largest  NaN               infinity
//   e4m3fn    7     3         448      s1111111          none
//   e4m3fnuz  8     3         240      10000000, no -0   none
//   e5m2      15    2         57344    s11111xx, xx > 0  s1111100
//   e5m2fnuz  16    2         57344    10000000, no -0   none
#include <llvm/IR/Constants.h>

#include <bit>
#include <cmath>

#include "codegen/llvm/emitter.h"
#include "codegen/math/lanes.h"
#include "tcc/support/diagnostics.h"

namespace tcc::codegen {
namespace {

struct Float8 {
  int bias, mantissa;
  float largest;
  bool fnuz, has_infinity;
};

Float8 format_of(DType dtype) {
  switch (dtype) {
    case DType::f8e4m3fn: return {7, 3, 448, false, false};
    case DType::f8e4m3fnuz: return {8, 3, 240, true, false};
    case DType::f8e5m2: return {15, 2, 57344, false, true};
    case DType::f8e5m2fnuz: return {16, 2, 57344, true, false};
    default: internal_error("not an 8-bit float");
  }
}

constexpr int64_t kQuietNaN = 0x7fc00000;

int64_t bits_of(float value) { return std::bit_cast<int32_t>(value); }

Lane less(Lane a, int64_t b) { return a.with(a.builder->CreateICmpULT(a.value, a.like_int(b).value)); }

}  // namespace

llvm::Value* Emitter::float8_to_float(llvm::Value* value, DType from) {
  const Float8 f = format_of(from);
  const int shift = 23 - f.mantissa;
  const Lane byte{&builder_, value};
  const Lane code = byte.with(builder_.CreateZExt(value, byte.widened(builder_.getInt32Ty())));
  const Lane magnitude = iand(code, 0x7f), sign = shl(iand(code, 0x80), 24);
  const Lane normal = iadd(shl(magnitude, shift), static_cast<int64_t>(127 - f.bias) << 23);
  const Lane subnormal = (magnitude.to_float() * std::ldexp(1.0, 1 - f.bias - f.mantissa)).as_int();
  Lane bits = iselect(less(magnitude, int64_t{1} << f.mantissa), subnormal, normal);
  if (f.fnuz) {
    bits = iselect(ieq(code, 0x80), code.like_int(kQuietNaN), bits | sign);
  } else if (f.has_infinity) {
    const Lane special = iselect(ieq(magnitude, 0x7c), code.like_int(0x7f800000), code.like_int(kQuietNaN));
    bits = iselect(less(magnitude, 0x7c), bits, special) | sign;
  } else {
    bits = iselect(ieq(magnitude, 0x7f), code.like_int(kQuietNaN), bits) | sign;
  }
  return bits.as_float().value;
}

llvm::Value* Emitter::float_to_float8(llvm::Value* value, DType to) {
  const Float8 f = format_of(to);
  const int shift = 23 - f.mantissa;
  const Lane x{&builder_, value};
  const Lane bits = x.as_int(), sign = iand(lshr(bits, 24), 0x80);
  // Beyond the largest it is the largest.
  Lane magnitude = iand(bits, 0x7fffffff);
  magnitude = iselect(less(magnitude, bits_of(f.largest)), magnitude, bits.like_int(bits_of(f.largest)));
  // Half of the last place, less one when it is even; a carry is the next exponent.
  const Lane rounded = iadd(iadd(magnitude, (int64_t{1} << (shift - 1)) - 1), iand(lshr(magnitude, shift), 1));
  const Lane normal = isub(lshr(rounded, shift), static_cast<int64_t>(127 - f.bias) << f.mantissa);
  // Below the normal numbers: added to a number whose last place is theirs, the sum is rounded there.
  const float anchor = std::ldexp(1.0f, 1 - f.bias - f.mantissa + 23);
  const Lane subnormal = isub((magnitude.as_float() + static_cast<double>(anchor)).as_int(), bits_of(anchor));
  Lane code = iselect(less(magnitude, bits_of(std::ldexp(1.0f, 1 - f.bias))), subnormal, normal);
  if (f.fnuz) {
    code = iselect(ieq(code, 0), code, code | sign);
    code = iselect(is_nan(x), code.like_int(0x80), code);
  } else {
    code = iselect(is_nan(x), code.like_int(0x7f), code) | sign;
  }
  return builder_.CreateTrunc(code.value, code.widened(builder_.getInt8Ty()));
}

}  // namespace tcc::codegen
