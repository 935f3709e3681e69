// What pow of f32 and of f64 share: a logarithm and a product held in two lanes each, and the cases of IEEE 754.
#pragma once

#include "codegen/math/lanes.h"

namespace tcc::codegen {

/// An unevaluated sum; `low` is below half a unit in the last place of `high`.
struct TwoLanes {
  Lane high, low;
};

/// 2/3 and log2(e), each as the sum of two numbers of the width at hand.
struct LogConstants {
  double third_high, third_low, log2e_high, log2e_low;
};

/// exponent + log2(m) for m in [2/3, 4/3), from t = (m - 1) / (m + 1) rounded and `tail` = 2/5 + 2/7 t^2 + 2/9 t^4 + ...
TwoLanes log2_in_two(Lane m, Lane exponent, Lane t, Lane tail, const LogConstants& constants);
TwoLanes times(TwoLanes a, Lane b);

/// |x|^y in `power` for finite non-zero x and finite y; zeros, infinities, NaN and negative x are put right. `even_above`: from there on every number
/// of the width is an even integer.
Lane pow_cases(Lane x, Lane y, Lane power, double even_above);

}  // namespace tcc::codegen
