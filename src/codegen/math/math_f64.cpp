// f64 math, for models that hold doubles. Rare in deployed networks, so the functions aim at a few units in the last place with little code:
// argument reduction and truncated Taylor or continued-fraction expansions, whose lengths are chosen so that the truncation error is below 2^-54.
#include <cmath>
#include <limits>
#include <vector>

#include "codegen/math/math.h"

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

struct ExpParts { Lane p, n; };   // e^x = (1 + p) 2^n
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
  return sum * s * t;                                             // log(m) - 2t
}

Lane log_of(Lane exponent, Lane f) {
  Lane t = f;
  Lane tail = log_mantissa_tail(f, &t);
  // 2t = f - f t: the product keeps the rounding of the division out of the leading term.
  return fma(exponent, kLn2High, f + fma(exponent, kLn2Low, tail - f * t));
}

}  // namespace

Lane exp(Lane x) {
  ExpParts e = exp_parts(clamp(x, -746.0, 710.0));
  return select(is_nan(x), x, select(x > 709.79, x.like(kInf), scale(1.0 + e.p, e.n)));
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

// Three-part reduction by pi/2, good to |x| about 2^30; beyond, results lose bits.
Lane sin_cos(Lane x, bool cosine) {
  Lane n = round_small(clamp(x, -0x1p50, 0x1p50) * 0x1.45f306dc9c883p-1);
  Lane r = fma(n, -0x1.c1cd129024e09p-106, fma(n, -0x1.1a62633145c07p-54, fma(n, -0x1.921fb54442d18p+0, x)));
  Lane s = r * r;
  Lane sine = s.like(0.0), cos = s.like(0.0);
  double factorial = 1.0;
  std::vector<double> inverse{1.0};
  for (int k = 1; k <= 23; ++k) inverse.push_back(1.0 / (factorial *= k));
  for (int k = 23; k >= 3; k -= 2) sine = fma(sine, s, s.like((k % 4 == 3 ? -1 : 1) * inverse[static_cast<size_t>(k)]));
  for (int k = 22; k >= 2; k -= 2) cos = fma(cos, s, s.like((k % 4 == 2 ? -1 : 1) * inverse[static_cast<size_t>(k)]));
  sine = fma(sine * s, r, r);
  cos = fma(cos, s, 1.0);
  Lane quadrant = cosine ? iadd(n.to_int(), 1) : n.to_int();
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

// e^(y log|x|); the relative error grows with |y log x| (a few hundred units in the last place near overflow).
Lane pow(Lane x, Lane y) {
  Lane ax = fabs(x), ay = fabs(y);
  Lane v = exp(y * log(ax));
  Lane whole = trunc(y) == y, half_y = y * 0.5;
  Lane odd = whole & !(trunc(half_y) == half_y) & (ay < 0x1p53);
  Lane bits = x.as_int();
  Lane negative_x = bits.with(x.builder->CreateICmpSLT(bits.value, bits.like_int(0).value));
  Lane y_positive = y > 0.0;
  v = select(ax == 0.0, select(y_positive, x.like(0.0), kInf), v);
  v = select(ay == kInf, select(ax == 1.0, x.like(1.0), select((ax > 1.0) ^ !y_positive, x.like(kInf), 0.0)), v);
  v = select((x < 0.0) & !whole & (ax < kInf), x.like(kNan), v);
  v = select(negative_x & odd, -v, v);
  v = select(is_nan(x), x, select(is_nan(y), y, v));
  return select(y == 0.0, x.like(1.0), select(x == 1.0, x.like(1.0), v));
}

}  // namespace tcc::codegen::f64
