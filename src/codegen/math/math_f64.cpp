// f64 math, for models that hold doubles. Rare in deployed networks, so the functions aim at a few units in the last place with little code:
// argument reduction and truncated Taylor or continued-fraction expansions, whose lengths are chosen so that the truncation error is below 2^-54.
#include <cmath>
#include <limits>
#include <vector>

#include "codegen/math/math.h"
#include "codegen/math/pow.h"

namespace tcc::codegen::f64 {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLn2High = 0x1.62e42fefa3800p-1, kLn2Low = 0x1.ef35793c76730p-45;

Lane power_of_two(Lane exponent) { return shl(iadd(exponent, 1023), 52).as_float(); }
Lane scale(Lane p, Lane n) {
  Lane half = ashr(n, 1);
  return p * power_of_two(half) * power_of_two(isub(n, half));
}
Lane round_small(Lane x) { return (x + 0x1.8p52) - 0x1.8p52; }
Lane clamp(Lane x, double low, double high) { return select(x < low, low, select(x > high, high, x)); }

// e^r - 1 by its Taylor series to r^14, |r| <= ln(2)/2: the next term is below 2^-61.
Lane exp_minus_one(Lane r) {
  double inverse = 1.0;
  Lane sum = r.like(0.0);
  std::vector<double> coefficients;
  for (int k = 2; k <= 14; ++k) coefficients.push_back(inverse /= k);
  for (auto it = coefficients.rbegin(); it != coefficients.rend(); ++it) sum = fma(sum, r, r.like(*it));
  return fma(sum, r * r, r);
}

struct ExpParts {
  Lane p, n;
};  // e^x = (1 + p) 2^n
ExpParts exp_parts(Lane c) {
  Lane n = round_small(c * 0x1.71547652b82fep+0);
  return {exp_minus_one(fma(n, -kLn2Low, fma(n, -kLn2High, c))), n.to_int()};
}

// log(m) for m in [2/3, 4/3) as 2 atanh(f / (2 + f)): t^2 <= 1/25, 11 terms beyond the first.
Lane log_mantissa_tail(Lane f, Lane* t_out) {
  Lane t = f / (f + 2.0), s = t * t;
  Lane sum = s.like(2.0 / 25);
  for (int k = 23; k >= 3; k -= 2) sum = fma(sum, s, s.like(2.0 / k));
  *t_out = t;
  return sum * s * t;  // log(m) - 2t
}

Lane log_of(Lane exponent, Lane f) {
  Lane t = f;
  Lane tail = log_mantissa_tail(f, &t);
  // 2t = f - f t: the product keeps the rounding of the division out of the leading term.
  return fma(exponent, kLn2High, f + fma(exponent, kLn2Low, tail - f * t));
}

struct Reduced {
  Lane quadrant, r;
};  // x = quadrant * pi/2 + r, |r| <= pi/4; the quadrant is right modulo 4

// |x| < 2^29: pi/2 in three parts.
Reduced reduce_small(Lane x) {
  Lane n = round_small(clamp(x, -0x1p30, 0x1p30) * 0x1.45f306dc9c883p-1);
  Lane r = fma(n, -0x1.c1cd129024e09p-106, fma(n, -0x1.1a62633145c07p-54, fma(n, -0x1.921fb54442d18p+0, x)));
  return {n.to_int(), r};
}

// Any finite x of 2^29 or more, after Payne and Hanek: the 53 mantissa bits times the 192 bits of 2/pi that matter; multiples of 4 quadrants fall off at
// the top, and 128 bits of fraction remain, more than the 62 that can cancel near a multiple of pi/2.
Reduced reduce_large(Lane x) {
  llvm::IRBuilder<>& b = *x.builder;
  static constexpr uint64_t two_over_pi[20] = {0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
                                               0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
                                               0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
                                               0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
                                               0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d};
  Lane bits = fabs(x).as_int();
  Lane mantissa = iand(bits, (int64_t{1} << 52) - 1) | bits.like_int(int64_t{1} << 52);
  Lane shift = isub(lshr(bits, 52), 1075);  // |x| = mantissa * 2^shift, shift >= -23
  Lane skip = iselect(igt(shift, 2), isub(shift, 2), shift.like_int(0));
  Lane word = lshr(skip, 6), bit = iand(skip, 63);
  auto pick = [&](int k) {
    Lane r = bits.like_int(static_cast<int64_t>(two_over_pi[k]));
    for (int w = 1; w <= 15; ++w) r = iselect(ieq(word, w), bits.like_int(static_cast<int64_t>(two_over_pi[w + k])), r);
    return r;
  };
  auto shl_by = [&](Lane v, Lane n) { return v.with(b.CreateShl(v.value, n.value)); };
  auto shr_by = [&](Lane v, Lane n) { return v.with(b.CreateLShr(v.value, n.value)); };
  // high:low moved left by n < 64, upper word; by way of 63 - n and 1, since a shift by 64 has no value.
  auto window = [&](Lane high, Lane low, Lane n) { return shl_by(high, n) | lshr(shr_by(low, isub(n.like_int(63), n)), 1); };
  Lane w0 = pick(0), w1 = pick(1), w2 = pick(2), w3 = pick(3);
  Lane a0 = window(w0, w1, bit), a1 = window(w1, w2, bit), a2 = window(w2, w3, bit);
  llvm::Type* wide = x.widened(b.getInt128Ty());
  auto product = [&](Lane a) { return a.with(b.CreateMul(b.CreateZExt(a.value, wide), b.CreateZExt(mantissa.value, wide))); };
  auto upper = [&](Lane p) { return p.with(b.CreateLShr(p.value, llvm::ConstantInt::get(wide, 64))); };
  auto narrow = [&](Lane p) { return p.with(b.CreateTrunc(p.value, bits.type())); };
  Lane p2 = product(a2), p1 = iadd(product(a1), upper(p2)), p0 = iadd(product(a0), upper(p1));
  Lane integer = narrow(upper(p0)), f1 = narrow(p0), f2 = narrow(p1);  // integer . f1 f2, times 2^(shift - skip)
  Lane up = isub(shift, skip);                                         // in [-23, 2]
  Lane left = iselect(igt(up, 0), up, up.like_int(0));
  Lane right = iselect(igt(up, 0), up.like_int(0), isub(up.like_int(0), up));
  integer = window(integer, f1, left);
  f1 = window(f1, f2, left);
  f2 = shl_by(f2, left);
  auto into = [&](Lane low, Lane high) { return shr_by(low, right) | shl(shl_by(high, isub(right.like_int(63), right)), 1); };
  f2 = into(f2, f1);
  f1 = into(f1, integer);
  integer = shr_by(integer, right);
  Lane upper_half = f1.with(b.CreateICmpSLT(f1.value, f1.like_int(0).value));  // nearest quadrant: the fraction is read as signed
  Lane quadrant = iadd(integer, integer.with(b.CreateZExt(upper_half.value, integer.type())));
  Lane sign = ashr(f1, 63);  // a negative fraction by its complement, so that no leading bits cancel
  Lane g1 = f1 ^ sign, g2 = f2 ^ sign;
  Lane fraction = g1.to_float() * 0x1p-64 + g2.with(b.CreateUIToFP(g2.value, x.type())) * 0x1p-128;
  fraction = select(upper_half, -fraction, fraction);
  Lane r = fma(fraction, 0x1.921fb54442d18p+0, fraction * 0x1.1a62633145c07p-54);
  Lane is_negative = x < 0.0;
  return {iselect(is_negative, isub(quadrant.like_int(0), quadrant), quadrant), select(is_negative, -r, r)};
}

}  // namespace

Lane exp(Lane x) {
  ExpParts e = exp_parts(clamp(x, -746.0, 710.0));
  return select(is_nan(x), x, select(x > 709.79, x.like(kInf), scale(1.0 + e.p, e.n)));
}

Lane exp2(Lane x) {
  Lane c = clamp(x, -1076.0, 1025.0);
  Lane n = round_small(c);
  Lane y = scale(1.0 + exp_minus_one((c - n) * 0x1.62e42fefa39efp-1), n.to_int());
  return select(is_nan(x), x, select(x >= 1024.0, x.like(kInf), y));
}

Lane expm1(Lane x) {
  ExpParts e = exp_parts(clamp(x, -40.0, 710.0));
  Lane huge = igt(e.n, 1023);
  Lane s = power_of_two(iselect(huge, isub(e.n, 1), e.n));
  Lane y = select(huge, fma(e.p, s, s) * 2.0, fma(e.p, s, s - 1.0));
  y = select(x == 0.0, x, y);
  return select(is_nan(x), x, select(x > 709.79, x.like(kInf), select(x < -39.0, x.like(-1.0), y)));
}

Lane log(Lane x) {
  Lane subnormal = x < 0x1p-1022;
  Lane bits = select(subnormal, x * 0x1p54, x).as_int();
  Lane k = iand(isub(bits, 0x3fe5555555555555), static_cast<int64_t>(0xfff0000000000000));
  Lane exponent = ashr(k, 52).to_float() + select(subnormal, x.like(-54.0), 0.0);
  Lane r = log_of(exponent, isub(bits, k).as_float() - 1.0);
  r = select(x > 0.0, r, select(x == 0.0, x.like(-kInf), kNan));
  return select(x == kInf, x, select(is_nan(x), x, r));
}

// log(u) * x / (u - 1) with u = 1 + x rounded: the quotient repairs the rounding (Kahan's form).
Lane log1p(Lane x) {
  Lane u = 1.0 + x, d = u - 1.0;
  Lane r = log(u) * (x / d);
  r = select(d == 0.0, x, r);
  return select(u == kInf, u, r);
}

Lane tanh(Lane x) {
  Lane a = fabs(x);
  Lane e = expm1(2.0 * select(a > 22.0, a.like(22.0), a));
  return select(is_nan(x), x, copysign(select(a > 22.0, a.like(1.0), e / (e + 2.0)), x));
}

// |x| < 2.5: the series 2/sqrt(pi) e^(-x^2) sum (2^k x^(2k+1) / (2k+1)!!), all terms positive. Above: 1 - erfc by its continued fraction.
Lane erf(Lane x) {
  Lane a = fabs(x), s = a * a;
  Lane gauss = exp(-s);
  Lane sum = a.like(1.0);
  for (int k = 50; k >= 1; --k) sum = fma(sum * (s * (2.0 / (2 * k + 1))), 1.0, a.like(1.0));
  Lane small = sum * a * gauss * 0x1.20dd750429b6dp+0;
  Lane fraction = a.like(0.0);
  for (int k = 60; k >= 1; --k) fraction = (0.5 * k) / (a + fraction);
  Lane big = 1.0 - gauss * 0x1.20dd750429b6dp-1 / (a + fraction);
  Lane r = select(a < 2.5, small, select(a > 6.0, a.like(1.0), big));
  return select(is_nan(x), x, copysign(r, x));
}

Lane sin_cos(Lane x, bool cosine) {
  Reduced small = reduce_small(x), large = reduce_large(x);
  Lane is_small = fabs(x) < 0x1p29;
  Lane r = select(is_small, small.r, large.r), turns = iselect(is_small, small.quadrant, large.quadrant);
  Lane s = r * r;
  Lane sine = s.like(0.0), cos = s.like(0.0);
  double factorial = 1.0;
  std::vector<double> inverse{1.0};
  for (int k = 1; k <= 23; ++k) inverse.push_back(1.0 / (factorial *= k));
  for (int k = 23; k >= 3; k -= 2) sine = fma(sine, s, s.like((k % 4 == 3 ? -1 : 1) * inverse[static_cast<size_t>(k)]));
  for (int k = 22; k >= 2; k -= 2) cos = fma(cos, s, s.like((k % 4 == 2 ? -1 : 1) * inverse[static_cast<size_t>(k)]));
  sine = fma(sine * s, r, r);
  cos = fma(cos, s, 1.0);
  Lane quadrant = cosine ? iadd(turns, 1) : turns;
  Lane y = select(ieq(iand(quadrant, 1), 1), cos, sine);
  y = select(ieq(iand(quadrant, 2), 2), -y, y);
  if (!cosine) y = select(x == 0.0, x, y);
  return select(fabs(x) < kInf, y, kNan);
}

// Two halvings of the angle, atan x = 2 atan(x / (1 + sqrt(1 + x^2))), then the series: z <= tan(pi/16).
Lane atan(Lane x) {
  Lane a = fabs(x);
  Lane inverted = a > 1.0;
  Lane z = select(inverted, 1.0 / a, a);
  for (int k = 0; k < 2; ++k) z = z / (1.0 + sqrt(fma(z, z, 1.0)));
  Lane s = z * z, sum = s.like(0.0);
  for (int k = 25; k >= 3; k -= 2) sum = fma(sum, s, s.like((k % 4 == 3 ? -1.0 : 1.0) / k));
  Lane r = 4.0 * fma(sum * s, z, z);
  r = select(inverted, (0x1.921fb54442d18p+0 - r) + 0x1.1a62633145c07p-54, r);
  return select(is_nan(x), x, copysign(r, x));
}

// 2^(y log2|x|) with the logarithm and the product in two doubles each; then the cases of IEEE 754 pow.
Lane pow(Lane x, Lane y) {
  Lane ax = fabs(x);
  Lane subnormal = ax < 0x1p-1022;
  Lane bits = select(subnormal, ax * 0x1p54, ax).as_int();
  Lane k = iand(isub(bits, 0x3fe5555555555555), static_cast<int64_t>(0xfff0000000000000));
  Lane exponent = ashr(k, 52).to_float() + select(subnormal, ax.like(-54.0), 0.0);
  Lane m = isub(bits, k).as_float();
  Lane th = (m - 1.0) / (m + 1.0), s = th * th;
  Lane tail = s.like(2.0 / 27);
  for (int odd = 25; odd >= 5; odd -= 2) tail = fma(tail, s, s.like(2.0 / odd));
  static constexpr LogConstants constants{0x1.5555555555555p-1, 0x1.5555555555555p-55, 0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};
  TwoLanes power = times(log2_in_two(m, exponent, th, tail, constants), y);
  Lane c = clamp(power.high, -1100.0, 1025.0);
  Lane low = select(c == power.high, power.low, 0.0);
  Lane n = round_small(c);
  Lane v = scale(1.0 + exp_minus_one(((c - n) + low) * 0x1.62e42fefa39efp-1), n.to_int());
  return pow_cases(x, y, select(power.high >= 1025.0, x.like(kInf), v), 0x1p53);
}

}  // namespace tcc::codegen::f64
