// Math functions of kernels, emitted inline: no libm, no libdevice, the same code on both targets (docs/math.md has the errors).
#pragma once

#include "codegen/math/lanes.h"

namespace tcc::codegen {

namespace math {
// Of f32 or f64 lanes.
Lane exp(Lane x);
Lane exp2(Lane x);
Lane expm1(Lane x);
Lane log(Lane x);
Lane log2(Lane x);
Lane log1p(Lane x);
Lane sin(Lane x);
Lane cos(Lane x);
Lane tan(Lane x);
Lane asin(Lane x);
Lane acos(Lane x);
Lane atan(Lane x);
Lane sinh(Lane x);
Lane cosh(Lane x);
Lane tanh(Lane x);
Lane asinh(Lane x);
Lane acosh(Lane x);
Lane atanh(Lane x);
Lane erf(Lane x);
Lane pow(Lane x, Lane y);
Lane atan2(Lane y, Lane x);
/// C's fmod, exact: the remainder has the dividend's sign.
Lane fmod(Lane x, Lane y);
}  // namespace math

namespace f32 {
Lane exp(Lane x);
Lane exp2(Lane x);
Lane expm1(Lane x);
Lane log(Lane x);
Lane log2(Lane x);
Lane log1p(Lane x);
Lane tanh(Lane x);
Lane erf(Lane x);
Lane sin_cos(Lane x, bool cosine);
Lane tan(Lane x);
Lane asin(Lane x);
Lane acos(Lane x);
Lane atan(Lane x);
Lane pow(Lane x, Lane y);
}  // namespace f32

namespace f64 {
Lane exp(Lane x);
Lane exp2(Lane x);
Lane expm1(Lane x);
Lane log(Lane x);
Lane log1p(Lane x);
Lane tanh(Lane x);
Lane erf(Lane x);
Lane sin_cos(Lane x, bool cosine);
Lane atan(Lane x);
Lane pow(Lane x, Lane y);
}  // namespace f64

}  // namespace tcc::codegen
