// log(m) = 2 atanh(t) = 2t + t s (2/3 + s tail), s = t^2, every product with its rounding error beside it (Dekker's products, by fma).
#include "codegen/math/pow.h"

#include <limits>

namespace tcc::codegen {

TwoLanes log2_in_two(Lane m, Lane exponent, Lane t, Lane tail, const LogConstants& c) {
  Lane f = m - 1.0, g = m + 1.0, gl = m - (g - 1.0);
  Lane tl = fma(-t, gl, fma(-t, g, f)) / g;  // what the rounded quotient leaves
  Lane s = t * t;
  Lane sl = fma(2.0 * t, tl, fma(t, t, -s));
  Lane ph = fma(s, tail, c.third_high);
  Lane pl = fma(sl, tail, fma(s, tail, -(ph - c.third_high)) + c.third_low);
  Lane qh = s * ph;
  Lane ql = fma(sl, ph, fma(s, pl, fma(s, ph, -qh)));
  Lane zh = t * qh;
  Lane zl = fma(tl, qh, fma(t, ql, fma(t, qh, -zh)));
  Lane ah = 2.0 * t, lh = ah + zh;
  Lane ll = ((ah - lh) + zh) + (zl + 2.0 * tl);
  Lane bh = lh * c.log2e_high;
  Lane bl = fma(ll, c.log2e_high, fma(lh, c.log2e_low, fma(lh, c.log2e_high, -bh)));
  Lane sum = exponent + bh;  // without an exponent the sum is bh, and its error none
  Lane low = (exponent - sum) + bh;
  Lane none = exponent == 0.0;
  Lane high = select(none, bh, sum);
  low = select(none, low.like(0.0), low) + bl;
  Lane result = high + low;
  return {result, (high - result) + low};
}

TwoLanes times(TwoLanes a, Lane b) {
  Lane high = a.high * b;
  return {high, fma(a.low, b, fma(a.high, b, -high))};
}

Lane pow_cases(Lane x, Lane y, Lane power, double even_above) {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  Lane ax = fabs(x), ay = fabs(y);
  Lane whole = trunc(y) == y, half = y * 0.5;
  Lane odd = whole & !(trunc(half) == half) & (ay < even_above);
  Lane bits = x.as_int();
  Lane negative = bits.with(x.builder->CreateICmpSLT(bits.value, bits.like_int(0).value));
  Lane positive_y = y > 0.0;
  Lane v = select(ax == 0.0, select(positive_y, x.like(0.0), inf), power);
  v = select(ax == inf, select(positive_y, x.like(inf), 0.0), v);
  v = select(ay == inf, select(ax == 1.0, x.like(1.0), select((ax > 1.0) ^ !positive_y, x.like(inf), 0.0)), v);
  v = select((x < 0.0) & !whole & (ax < inf), x.like(nan), v);
  v = select(negative & odd, -v, v);
  v = select(is_nan(x), x, select(is_nan(y), y, v));
  return select(y == 0.0, x.like(1.0), select(x == 1.0, x.like(1.0), v));
}

}  // namespace tcc::codegen
