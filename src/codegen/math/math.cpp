// The functions that are compositions of others, and the choice by width.
#include "codegen/math/math.h"

#include <cmath>
#include <limits>

#include "tcc/support/diagnostics.h"

namespace tcc::codegen::math {
namespace {

bool is_f64(Lane x) { return x.type()->getScalarType()->isDoubleTy(); }

}  // namespace

Lane exp(Lane x) { return is_f64(x) ? f64::exp(x) : f32::exp(x); }
Lane exp2(Lane x) { return is_f64(x) ? f64::exp2(x) : f32::exp2(x); }
Lane expm1(Lane x) { return is_f64(x) ? f64::expm1(x) : f32::expm1(x); }
Lane log(Lane x) { return is_f64(x) ? f64::log(x) : f32::log(x); }
Lane log2(Lane x) { return is_f64(x) ? f64::log(x) * 0x1.71547652b82fep+0 : f32::log2(x); }
Lane log1p(Lane x) { return is_f64(x) ? f64::log1p(x) : f32::log1p(x); }
Lane sin(Lane x) { return is_f64(x) ? f64::sin_cos(x, false) : f32::sin_cos(x, false); }
Lane cos(Lane x) { return is_f64(x) ? f64::sin_cos(x, true) : f32::sin_cos(x, true); }
Lane tan(Lane x) { return is_f64(x) ? f64::sin_cos(x, false) / f64::sin_cos(x, true) : f32::tan(x); }
Lane atan(Lane x) { return is_f64(x) ? f64::atan(x) : f32::atan(x); }
Lane tanh(Lane x) { return is_f64(x) ? f64::tanh(x) : f32::tanh(x); }
Lane erf(Lane x) { return is_f64(x) ? f64::erf(x) : f32::erf(x); }

// (e^a - e^-a) / 2 with a = |x|; where e^a would overflow before the result does, e^(a/2) is used twice.
Lane sinh(Lane x) {
  Lane a = fabs(x);
  Lane m = expm1(a);
  Lane small = 0.5 * (m + m / (m + 1.0));
  Lane half = exp(0.5 * a);
  Lane big = (0.5 * half) * half;
  return copysign(select(a < (is_f64(x) ? 40.0 : 20.0), small, big), x);
}

Lane cosh(Lane x) {
  Lane a = fabs(x);
  Lane half = exp(0.5 * a);
  Lane e = exp(a);
  return select(a < (is_f64(x) ? 40.0 : 20.0), 0.5 * (e + 1.0 / e), (0.5 * half) * half);
}

// log(a + sqrt(a^2 + 1)) as log1p, so that small values keep their digits; very large ones as log(a) + log(2).
Lane asinh(Lane x) {
  Lane a = fabs(x), s = a * a;
  Lane regular = log1p(a + s / (1.0 + sqrt(s + 1.0)));
  Lane r = select(a > (is_f64(x) ? 1e150 : 1e15), log(a) + 0x1.62e42fefa39efp-1, regular);
  return select(x == 0.0, x, copysign(r, x));
}

Lane acosh(Lane x) {
  Lane d = x - 1.0;
  Lane regular = log1p(d + sqrt(d) * sqrt(x + 1.0));
  Lane r = select(x > (is_f64(x) ? 1e150 : 1e15), log(x) + 0x1.62e42fefa39efp-1, regular);
  return select(x >= 1.0, r, std::numeric_limits<double>::quiet_NaN());
}

Lane atanh(Lane x) {
  Lane a = fabs(x);
  Lane r = 0.5 * log1p(2.0 * a / (1.0 - a));
  return select(x == 0.0, x, copysign(r, x));
}

namespace {

Lane asin64(Lane x) { return atan(x / sqrt((1.0 - x) * (1.0 + x))); }

// 2 asin(sqrt((1 - |x|) / 2)) near 1, where pi/2 - asin(x) would cancel.
Lane acos64(Lane x) {
  Lane a = fabs(x), half = (1.0 - a) * 0.5;
  Lane near = 2.0 * asin64(sqrt(half));
  Lane far = 0x1.921fb54442d18p+0 - asin64(x);
  return select(a > 0.5, select(x < 0.0, 0x1.921fb54442d18p+1 - near, near), far);
}

}  // namespace

Lane asin(Lane x) { return is_f64(x) ? asin64(x) : f32::asin(x); }
Lane acos(Lane x) { return is_f64(x) ? acos64(x) : f32::acos(x); }

Lane pow(Lane x, Lane y) { return is_f64(x) ? f64::pow(x, y) : f32::pow(x, y); }

Lane atan2(Lane y, Lane x) {
  constexpr double pi = 0x1.921fb54442d18p+1;
  Lane base = atan(y / x);
  Lane x_negative = x.with(x.builder->CreateICmpSLT(x.as_int().value, x.as_int().like_int(0).value));
  Lane turned = base + copysign(x.like(pi), y);
  Lane r = select(x_negative, turned, base);
  r = select((x == 0.0) & (y == 0.0), copysign(select(x_negative, x.like(pi), 0.0), y), r);
  Lane both_infinite = (fabs(x) == std::numeric_limits<double>::infinity()) & (fabs(y) == std::numeric_limits<double>::infinity());
  r = select(both_infinite, copysign(select(x_negative, x.like(0.75 * pi), 0.25 * pi), y), r);
  return select(is_nan(x), x, select(is_nan(y), y, r));
}

// Binary long division: subtract the largest d * 2^k that fits, until none does. Each step is exact and clears the leading bit, so a step count is bounded
// by the difference of the exponents. f32 works in f64, whose range makes its subnormals ordinary; f64's own are scaled by 2^54 to find that multiple.
Lane fmod(Lane x, Lane y) {
  llvm::IRBuilder<>& b = *x.builder;
  if (!is_f64(x)) {
    llvm::Type* doubles = x.widened(b.getDoubleTy());
    Lane wide = fmod(x.with(b.CreateFPExt(x.value, doubles)), x.with(b.CreateFPExt(y.value, doubles)));
    return x.with(b.CreateFPTrunc(wide.value, x.type()));
  }
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr int64_t mantissa_mask = (int64_t{1} << 52) - 1;
  llvm::Function* function = b.GetInsertBlock()->getParent();
  Lane a = fabs(x), d = fabs(y);
  Lane mantissa = iand(select(d < 0x1p-1022, d * 0x1p54, d).as_int(), mantissa_mask);
  llvm::BasicBlock* entry = b.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(b.getContext(), "fmod", function);
  auto* done = llvm::BasicBlock::Create(b.getContext(), "fmod.done", function);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode* phi = b.CreatePHI(x.type(), 2);
  phi->addIncoming(a.value, entry);
  Lane r = x.with(phi);
  Lane tiny = r < 0x1p-1022;
  Lane scaled = select(tiny, r * 0x1p54, r);
  Lane moved = (iand(scaled.as_int(), ~mantissa_mask) | mantissa).as_float();  // d's mantissa with r's exponent, halved when above r
  Lane multiple = select(moved > scaled, moved * 0.5, moved);
  multiple = select(tiny, multiple * 0x1p-54, multiple);
  Lane active = (r >= d) & (r < inf) & (d > 0.0);
  Lane next = select(active, r - multiple, r);
  llvm::Value* any = ((next >= d) & active).value;
  if (any->getType()->isVectorTy()) any = b.CreateOrReduce(any);
  phi->addIncoming(next.value, b.GetInsertBlock());
  b.CreateCondBr(any, loop, done);
  b.SetInsertPoint(done);
  Lane result = select((a < inf) & (d > 0.0), copysign(next, x), std::numeric_limits<double>::quiet_NaN());
  return select(is_nan(x), x, select(is_nan(y), y, result));
}

}  // namespace tcc::codegen::math
