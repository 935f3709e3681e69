// Math functions of kernels, emitted inline: no libm, no libdevice, the same code on both targets (docs/math.md has the errors).
#pragma once

#include "codegen/math/lanes.h"
#include "tcc/graph/graph.h"

namespace tcc::codegen {

/// exp exp2 expm1 log log2 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf of f32 or f64 lanes.
/// Errors: internal when `op` is none of them.
Lane emit_unary_math(Op op, Lane x);
Lane emit_pow(Lane x, Lane y);
Lane emit_atan2(Lane y, Lane x);
/// C's fmod, exact: the remainder has the dividend's sign.
Lane emit_fmod(Lane x, Lane y);

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
