// f32 math by range reduction and minimax polynomials. The coefficients were fitted for tcc and each function was checked on all 2^32 inputs
// against f64; the largest errors, in units in the last place: exp 1.02, exp2 0.95, expm1 1.46, log 0.94, log2 1.17, log1p 1.69, tanh 1.34, erf 1.25,
// sin and cos 1.59, atan 1.45, pow 1.06 (sampled).
#include <cmath>
#include <limits>

#include "codegen/math/math.h"
#include "codegen/math/pow.h"

namespace tcc::codegen::f32 {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Lane power_of_two(Lane exponent) { return shl(iadd(exponent, 127), 23).as_float(); }  // exponent in [-126, 127]

// p * 2^n for n in [-300, 300], in two exact steps so that subnormal results round once.
Lane scale(Lane p, Lane n) {
  Lane half = ashr(n, 1);
  return p * power_of_two(half) * power_of_two(isub(n, half));
}

// Nearest integer for |x| < 2^22: the sum's rounding does it, and leaves the integer in its low bits, where a NaN gives some integer and no trap.
struct Rounded {
  Lane value, integer;
};
Rounded round_small(Lane x) {
  Lane sum = x + 12582912.0;
  return {sum - 12582912.0, isub(sum.as_int(), 0x4b400000)};
}

// NaN stays: both comparisons are false for it.
Lane clamp(Lane x, double low, double high) {
  Lane raised = select(x < low, low, x);
  return select(raised > high, high, raised);
}

// e^r - 1, |r| <= ln(2)/2
Lane exp_minus_one(Lane r) {
  return fma(r * r, polynomial(r, {0x1.fffffcp-2, 0x1.555490p-3, 0x1.5558f4p-5, 0x1.123a6ap-7, 0x1.6a2368p-10}), r);
}

Lane reduce_by_ln2(Lane x, Lane n) { return fma(n, -0x1.7f7d1cp-20, fma(n, -0x1.62e400p-1, x)); }

// 2^r - 1 over r, |r| <= 1/2
Lane exp2_tail(Lane r) {
  return polynomial(r, {0x1.62e430p-1, 0x1.ebfbdcp-3, 0x1.c6aee6p-5, 0x1.3b2d52p-7, 0x1.5f4010p-10, 0x1.41fa96p-13});
}

// log(1 + f) - f, f in [-1/3, 1/3]
Lane log1p_minus(Lane f) {
  Lane p = polynomial(f, {-0.5, 0x1.555506p-2, -0x1.fffef0p-3, 0x1.99d024p-3, -0x1.559de4p-3, 0x1.1ed73ap-3, -0x1.f30e96p-4, 0x1.1e6696p-3,
                          -0x1.080b2ap-3});
  return p * (f * f);
}

struct Split {
  Lane exponent, mantissa;
};  // x = mantissa * 2^exponent, mantissa in [2/3, 4/3); exponent as float
Split split(Lane x) {
  Lane subnormal = x < 1.17549435e-38;
  Lane bits = select(subnormal, x * 8388608.0, x).as_int();
  Lane k = iand(isub(bits, 0x3f2aaaab), static_cast<int64_t>(0xffffffffff800000));
  Lane exponent = ashr(k, 23).to_float() + select(subnormal, x.like(-23.0), 0.0);
  return {exponent, isub(bits, k).as_float()};
}

// The cases all logarithms share: 0 gives -inf, negative and NaN give NaN, inf gives inf.
Lane log_cases(Lane x, Lane regular) {
  Lane r = select(x > 0.0, regular, select(x == 0.0, x.like(-kInf), kNan));
  return select(x == kInf, x, select(is_nan(x), x, r));
}

// The two sums that end log and log1p: exponent * ln(2) + log(1 + f).
Lane add_exponent(Lane exponent, Lane f) { return fma(exponent, 0x1.62e430p-1, f + fma(exponent, -0x1.05c610p-29, log1p_minus(f))); }

Lane sin_polynomial(Lane r, Lane s) {
  return fma(polynomial(s, {-0x1.555556p-3, 0x1.111108p-7, -0x1.a00f7ap-13, 0x1.6cd0b0p-19}) * s, r, r);
}
Lane cos_polynomial(Lane s) {
  return fma(s * s, polynomial(s, {0x1.555556p-5, -0x1.6c16b8p-10, 0x1.a010dap-16, -0x1.241da0p-22}), fma(s, -0.5, 1.0));
}

struct Reduced {
  Lane quadrant, r;
};  // x = quadrant * pi/2 + r, |r| <= pi/4; the quadrant is right modulo 4

Reduced reduce_small(Lane x) {  // |x| < 32768
  Rounded n = round_small(x * 0x1.45f306p-1);
  Lane r = fma(n.value, -0x1.846988p-48, fma(n.value, -0x1.4442d0p-24, fma(n.value, -0x1.921fb4p+0, x)));
  return {n.integer, r};
}

// Any finite x, after Payne and Hanek ("Radian reduction for trigonometric functions", 1983): 24 mantissa bits times the 96 bits of 2/pi that matter.
// All in 32-bit steps, so that it works on lanes; multiples of 4 quadrants fall off at the top.
Reduced reduce_large(Lane x) {
  llvm::IRBuilder<>& b = *x.builder;
  llvm::Type* wide = x.widened(b.getInt64Ty());
  auto wide_of = [&](Lane v) { return v.with(b.CreateZExt(v.value, wide)); };
  static const uint32_t words[] = {0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561};
  Lane bits = fabs(x).as_int();
  Lane mantissa = wide_of(iand(bits, 0x7fffff) | bits.like_int(0x800000));
  Lane shift = isub(lshr(bits, 23), 150);                                 // |x| = mantissa * 2^shift
  Lane skip = iselect(igt(shift, 2), isub(shift, 2), shift.like_int(0));  // bits of 2/pi that only make multiples of 4
  Lane word = lshr(skip, 5), bit = iand(skip, 31);
  auto pick = [&](int k) {  // words[word + k]; word <= 3
    Lane r = bits.like_int(static_cast<int32_t>(words[k]));
    for (int w = 1; w <= 3; ++w) r = iselect(ieq(word, w), bits.like_int(static_cast<int32_t>(words[w + k])), r);
    return wide_of(r);
  };
  Lane w0 = pick(0), w1 = pick(1), w2 = pick(2), w3 = pick(3);
  Lane wide_bit = wide_of(bit);
  auto window = [&](Lane high, Lane low) {  // 32 bits starting `bit` bits into high:low
    Lane joined = high.with(b.CreateOr(b.CreateShl(high.value, high.like_int(32).value), low.value));
    Lane moved = joined.with(b.CreateShl(joined.value, wide_bit.value));
    return moved.with(b.CreateLShr(moved.value, moved.like_int(32).value));
  };
  Lane a0 = window(w0, w1), a1 = window(w1, w2), a2 = window(w2, w3);  // 96 bits of 2/pi
  // product = mantissa * (a0:a1:a2), 24 + 96 bits; the integer part of |x| * 2/pi starts at bit 96 - up, with up = shift - skip (<= 2).
  auto mul = [&](Lane a) { return imul(mantissa, a); };
  auto low32 = [&](Lane v) { return iand(v, 0xffffffff); };
  auto high32 = [&](Lane v) { return v.with(b.CreateLShr(v.value, v.like_int(32).value)); };
  Lane p2 = mul(a2), p1 = iadd(mul(a1), high32(p2)), p0 = iadd(mul(a0), high32(p1));
  Lane top = p0, mid = low32(p1), bottom = low32(p2);  // value = top * 2^64 + mid * 2^32 + bottom, over 2^96, times 2^up
  Lane fraction64 = top.with(b.CreateOr(b.CreateShl(low32(top).value, top.like_int(32).value), mid.value));
  Lane integer = high32(top);
  Lane up = isub(shift, skip);  // in [-9, 2]; negative only for |x| near 32768
  Lane positive = wide_of(iselect(igt(up, 0), up, up.like_int(0)));
  Lane negative = wide_of(iselect(igt(up, 0), up.like_int(0), isub(up.like_int(0), up)));
  auto shl_by = [&](Lane v, Lane n) { return v.with(b.CreateShl(v.value, n.value)); };
  auto shr_by = [&](Lane v, Lane n) { return v.with(b.CreateLShr(v.value, n.value)); };
  // Left by 0..2: bits from `bottom` come in below, bits leave into the integer. Right by 0..9: the reverse.
  Lane low_in = shr_by(shl_by(bottom, positive), top.like_int(32));
  Lane left_fraction = shl_by(fraction64, positive) | low_in;
  Lane carry = shr_by(shr_by(fraction64, isub(top.like_int(63), positive)), top.like_int(1));
  Lane left_integer = shl_by(integer, positive) | carry;
  Lane right_fraction = shr_by(left_fraction, negative) | shl_by(shl_by(left_integer, isub(top.like_int(63), negative)), top.like_int(1));
  Lane right_integer = shr_by(left_integer, negative);
  Lane quadrant = right_integer.with(b.CreateTrunc(right_integer.value, bits.type()));
  // Nearest quadrant: a fraction of a half or more counts down from the next.
  Lane upper_half = right_fraction.with(b.CreateICmpSLT(right_fraction.value, right_fraction.like_int(0).value));
  quadrant = iadd(quadrant, quadrant.with(b.CreateZExt(upper_half.value, quadrant.type())));
  // The signed 64-bit fraction as f64 keeps 53 bits, enough for f32 results even after cancellation.
  llvm::Type* doubles = x.widened(b.getDoubleTy());
  Lane fraction = x.with(b.CreateSIToFP(right_fraction.value, doubles)) * 0x1p-64;
  Lane r = x.with(b.CreateFPTrunc((fraction * 0x1.921fb54442d18p+0).value, x.type()));
  Lane is_negative = x < 0.0;
  return {iselect(is_negative, isub(quadrant.like_int(0), quadrant), quadrant), select(is_negative, -r, r)};
}

Reduced reduce_by_half_pi(Lane x) {
  Reduced small = reduce_small(x), large = reduce_large(x);
  Lane is_small = fabs(x) < 32768.0;
  return {iselect(is_small, small.quadrant, large.quadrant), select(is_small, small.r, large.r)};
}

// asin(z) for |z| <= 1/2 through atan: sqrt(1 - z^2) is exact enough there.
Lane atan_of_ratio(Lane z, Lane one_minus_square) { return atan(z / sqrt(one_minus_square)); }

}  // namespace

// At the upper bound of the clamp the two-step scaling overflows to infinity, at the lower it rounds to 0; NaN goes through the polynomial.
Lane exp(Lane x) {
  Lane c = clamp(x, -104.0, 89.0);
  Rounded n = round_small(c * 0x1.715476p+0);
  return scale(1.0 + exp_minus_one(reduce_by_ln2(c, n.value)), n.integer);
}

Lane exp2(Lane x) {
  Lane c = clamp(x, -151.0, 129.0);
  Rounded n = round_small(c);
  Lane r = c - n.value;
  return scale(fma(exp2_tail(r), r, 1.0), n.integer);
}

Lane expm1(Lane x) {
  Lane c = clamp(x, -18.0, 89.0);
  Rounded n = round_small(c * 0x1.715476p+0);
  Lane p = exp_minus_one(reduce_by_ln2(c, n.value));
  Lane i = n.integer;
  Lane huge = igt(i, 127);
  Lane s = power_of_two(iselect(huge, isub(i, 1), i));
  Lane y = select(huge, fma(p, s, s) * 2.0, fma(p, s, s - 1.0));
  y = select(x == 0.0, x, y);
  return select(is_nan(x), x, select(x > 88.8, x.like(kInf), select(x < -17.5, x.like(-1.0), y)));
}

Lane log(Lane x) {
  Split s = split(x);
  return log_cases(x, add_exponent(s.exponent, s.mantissa - 1.0));
}

Lane log2(Lane x) {
  Split s = split(x);
  Lane f = s.mantissa - 1.0;
  Lane p = log1p_minus(f);
  Lane h = f * 0x1.715476p+0;  // (f + p) * log2(e) in two pieces
  Lane l = fma(p, 0x1.715476p+0, fma(f, 0x1.4ae0c0p-26, fma(f, 0x1.715476p+0, -h)));
  Lane sum = s.exponent + h;
  return log_cases(x, sum + (((s.exponent - sum) + h) + l));
}

Lane log1p(Lane x) {
  Lane k = iand(isub((1.0 + x).as_int(), 0x3f400000), static_cast<int64_t>(0xffffffffff800000));  // (1 + x) / 2^e in [3/4, 3/2)
  Lane s = isub(k.like_int(0x3f800000), k).as_float();
  Lane exponent = ashr(k, 23).to_float();
  Lane f = fma(x, s, s - 1.0);
  Lane fold = f > 0.33333334;  // once more, into the range of the polynomial
  exponent = select(fold, exponent + 1.0, exponent);
  s = select(fold, s * 0.5, s);
  f = fma(x, s, s - 1.0);
  Lane r = add_exponent(exponent, f);
  r = select(x > -1.0, r, select(x == -1.0, x.like(-kInf), kNan));
  r = select(fabs(x) < 1e-10, x, r);
  r = select(x >= 16777216.0, log(x), r);
  return select(x == kInf, x, select(is_nan(x), x, r));
}

Lane tanh(Lane x) {
  Lane a = fabs(x), s = x * x;
  Lane p = polynomial(s, {-0x1.55553ep-2, 0x1.1109aep-3, -0x1.b898e0p-5, 0x1.54b8a6p-6, -0x1.82586cp-8});
  Lane small = fma(p * s, x, x);
  Lane e = exp(2.0 * select(a > 10.0, a.like(10.0), a));
  Lane big = 1.0 - 2.0 / (e + 1.0);
  return select(is_nan(x), x, select(a < 0.6, small, copysign(big, x)));
}

Lane erf(Lane x) {
  Lane a = fabs(x), s = x * x;
  Lane p = polynomial(s, {0x1.06eba8p-3, -0x1.812744p-2, 0x1.ce2e24p-4, -0x1.b810eap-6, 0x1.54df20p-8, -0x1.ab1070p-11, 0x1.5f952cp-14});
  Lane small = fma(p, x, x);
  Lane c = select(a > 4.0, a.like(4.0), a);
  Lane q = polynomial(c, {-0x1.a0d7eep+0, -0x1.d52994p-1, -0x1.39e17cp-3, 0x1.18cbbcp-5, -0x1.583f3cp-8, 0x1.e7c55cp-12, -0x1.0ef436p-16});
  Lane big = select(a > 3.93, x.like(1.0), 1.0 - exp2(q * c));
  return select(is_nan(x), x, select(a < 0.92, small, copysign(big, x)));
}

Lane sin_cos(Lane x, bool cosine) {
  Reduced q = reduce_by_half_pi(x);
  Lane s = q.r * q.r;
  Lane quadrant = cosine ? iadd(q.quadrant, 1) : q.quadrant;  // cos x = sin(x + pi/2)
  Lane y = select(ieq(iand(quadrant, 1), 1), cos_polynomial(s), sin_polynomial(q.r, s));
  y = select(ieq(iand(quadrant, 2), 2), -y, y);
  if (!cosine) y = select(x == 0.0, x, y);
  return select(fabs(x) < kInf, y, kNan);
}

Lane tan(Lane x) {
  Reduced q = reduce_by_half_pi(x);
  Lane s = q.r * q.r;
  Lane sine = sin_polynomial(q.r, s), cosine = cos_polynomial(s);
  Lane odd = ieq(iand(q.quadrant, 1), 1);
  Lane y = select(odd, -cosine, sine) / select(odd, sine, cosine);
  return select(fabs(x) < kInf, select(x == 0.0, x, y), kNan);
}

Lane atan(Lane x) {
  Lane a = fabs(x);
  Lane inverted = a > 1.0;
  Lane z = select(inverted, 1.0 / a, a), s = z * z;
  Lane p = polynomial(s, {-0x1.55553ep-2, 0x1.9991fep-3, -0x1.2421b8p-3, 0x1.c09a14p-4, -0x1.5834cep-4, 0x1.dacaa6p-5, -0x1.fed2cep-6,
                          0x1.65a7d2p-7, -0x1.d63270p-10});
  Lane r = fma(p * s, z, z);
  r = select(inverted, (0x1.921fb6p+0 - r) + -0x1.777a5cp-25, r);
  return select(is_nan(x), x, copysign(r, x));
}

// asin x = atan(x / sqrt(1 - x^2)); near 1, pi/2 - 2 asin(sqrt((1 - x) / 2)), where 1 - x is exact.
Lane asin(Lane x) {
  Lane a = fabs(x);
  Lane small = atan_of_ratio(x, fma(-x, x, 1.0));
  Lane half = (1.0 - a) * 0.5;
  Lane big = 0x1.921fb6p+0 - (2.0 * atan_of_ratio(sqrt(half), 1.0 - half) - -0x1.777a5cp-25);
  return select(a <= 1.0, select(a < 0.5, small, copysign(big, x)), kNan);
}

Lane acos(Lane x) {
  Lane a = fabs(x);
  Lane small = (0x1.921fb6p+0 - atan_of_ratio(x, fma(-x, x, 1.0))) + -0x1.777a5cp-25;
  Lane half = (1.0 - a) * 0.5;
  Lane near = 2.0 * atan_of_ratio(sqrt(half), 1.0 - half);
  Lane big = select(x < 0.0, (0x1.921fb6p+1 - near) + -0x1.777a5cp-24, near);
  return select(a <= 1.0, select(a < 0.5, small, big), kNan);
}

// 2^(y log2|x|) with the logarithm and the product in two floats each; then the cases of IEEE 754 pow.
Lane pow(Lane x, Lane y) {
  Split parts = split(fabs(x));
  Lane th = (parts.mantissa - 1.0) / (parts.mantissa + 1.0);
  Lane tail = polynomial(th * th, {0x1.99999ap-2, 0x1.24924ap-2, 0x1.c71c72p-3, 0x1.745d18p-3, 0x1.3b13b2p-3});  // 2/5, 2/7, ...
  static constexpr LogConstants constants{0x1.555556p-1, -0x1.555556p-26, 0x1.715476p+0, 0x1.4ae0c0p-26};
  TwoLanes power = times(log2_in_two(parts.mantissa, parts.exponent, th, tail, constants), y);
  Lane c = clamp(power.high, -160.0, 130.0);
  Lane low = select(c == power.high, power.low, 0.0);
  Rounded n = round_small(c);
  Lane r = (c - n.value) + low;
  Lane v = scale(fma(exp2_tail(r), r, 1.0), n.integer);
  return pow_cases(x, y, select(power.high >= 129.0, x.like(kInf), v), 0x1p24);
}

}  // namespace tcc::codegen::f32
