// vjp rules of element-wise prims. Operands may broadcast as numpy does: g and the result have the common shape, and give() sums.
//
// Conventions: abs has slope 0 at 0; equal operands of max and min get half each; clamp passes at its bounds; what a select does not take gets
// exact zeros, so that an infinity there never makes NaN.
//
// Slopes hold over the whole range of the dtype: no square that overflows (or vanishes) where the slope itself does not. 16-bit floats are widened where
// a slope takes more than one operation.

#include <cmath>
#include <numbers>

#include "autograd/vjp.h"

namespace tcc::autograd {
namespace {

Value* plus(Vjp& v, Value* value, double other) { return v.b.binary(Op::add_, value, other); }

/// The cotangent f(read, g), computed in wide floats; `read` is the operand or the result.
template <class F> void give_wide(Vjp& v, Value* read, F f) {
  v.give(0, v.b.cast(f(rules::widen(v.b, read), rules::widen(v.b, v.g)), v.x()->type.dtype));
}

/// 1 + x^2 = w^2 * s with w = max(|x|, 1) and s in [1, 2].
struct OnePlusSquare {
  Value* w;
  Value* s;
};
OnePlusSquare one_plus_square(Vjp& v, Value* x) {
  Builder& b = v.b;
  Value* size = b.unary(Op::abs_, x);
  Value* w = b.binary(Op::max_, size, 1.0);
  Value* u = b.min(size, b.unary(Op::recip_, w));  // |x| or its reciprocal
  return {w, plus(v, b.mul(u, u), 1)};
}

/// 1 - x^2, which near 1 would be the rounding of x^2 alone.
Value* one_minus_square(Vjp& v, Value* x) { return v.b.mul(plus(v, v.neg(x), 1), plus(v, x, 1)); }

}  // namespace

void vjp_neg(Vjp& v) { v.give(0, v.neg(v.g)); }
void vjp_abs(Vjp& v) { v.give(0, v.b.mul(v.g, v.b.unary(Op::sign_, v.x()))); }
void vjp_sqrt(Vjp& v) { v.give(0, v.b.div(v.g, v.scale(v.y(), 2))); }
void vjp_rsqrt(Vjp& v) {
  give_wide(v, v.y(), [&](Value* y, Value* g) { return v.b.mul(v.b.mul(v.b.mul(v.scale(g, -0.5), y), y), y); });
}
void vjp_recip(Vjp& v) {
  give_wide(v, v.y(), [&](Value* y, Value* g) { return v.neg(v.b.mul(v.b.mul(g, y), y)); });
}
void vjp_exp(Vjp& v) { v.give(0, v.b.mul(v.g, v.y())); }
void vjp_exp2(Vjp& v) {
  give_wide(v, v.y(), [&](Value* y, Value* g) { return v.b.mul(v.scale(g, std::numbers::ln2), y); });
}
void vjp_expm1(Vjp& v) {
  give_wide(v, v.y(), [&](Value* y, Value* g) { return v.b.mul(g, plus(v, y, 1)); });
}
void vjp_log(Vjp& v) { v.give(0, v.b.div(v.g, v.x())); }
void vjp_log2(Vjp& v) {
  give_wide(v, v.x(), [&](Value* x, Value* g) { return v.b.div(v.scale(g, 1 / std::numbers::ln2), x); });
}
void vjp_log1p(Vjp& v) {
  give_wide(v, v.x(), [&](Value* x, Value* g) { return v.b.div(g, plus(v, x, 1)); });
}
void vjp_sin(Vjp& v) { v.give(0, v.b.mul(v.g, v.b.unary(Op::cos_, v.x()))); }
void vjp_cos(Vjp& v) { v.give(0, v.neg(v.b.mul(v.g, v.b.unary(Op::sin_, v.x())))); }
void vjp_tan(Vjp& v) {
  give_wide(v, v.y(), [&](Value* y, Value* g) { return v.b.add(v.b.mul(v.b.mul(g, y), y), g); });
}
void vjp_asin(Vjp& v) {
  give_wide(v, v.x(), [&](Value* x, Value* g) { return v.b.mul(g, v.b.unary(Op::rsqrt_, one_minus_square(v, x))); });
}
void vjp_acos(Vjp& v) {
  give_wide(v, v.x(), [&](Value* x, Value* g) { return v.neg(v.b.mul(g, v.b.unary(Op::rsqrt_, one_minus_square(v, x)))); });
}
void vjp_atan(Vjp& v) {
  give_wide(v, v.x(), [&](Value* x, Value* g) {
    const OnePlusSquare square = one_plus_square(v, x);
    return v.b.div(v.b.div(g, v.b.mul(square.w, square.s)), square.w);
  });
}
void vjp_sinh(Vjp& v) { v.give(0, v.b.mul(v.g, v.b.unary(Op::cosh_, v.x()))); }
void vjp_cosh(Vjp& v) { v.give(0, v.b.mul(v.g, v.b.unary(Op::sinh_, v.x()))); }
void vjp_tanh(Vjp& v) {
  give_wide(v, v.y(), [&](Value* y, Value* g) { return v.b.mul(g, one_minus_square(v, y)); });
}
void vjp_asinh(Vjp& v) {
  give_wide(v, v.x(), [&](Value* x, Value* g) {
    const OnePlusSquare square = one_plus_square(v, x);
    return v.b.div(g, v.b.mul(square.w, v.b.unary(Op::sqrt_, square.s)));
  });
}
void vjp_acosh(Vjp& v) {
  give_wide(v, v.x(), [&](Value* x, Value* g) {
    return v.b.div(g, v.b.mul(v.b.unary(Op::sqrt_, plus(v, x, -1)), v.b.unary(Op::sqrt_, plus(v, x, 1))));
  });
}
void vjp_atanh(Vjp& v) {
  give_wide(v, v.x(), [&](Value* x, Value* g) { return v.b.div(g, one_minus_square(v, x)); });
}
void vjp_erf(Vjp& v) {
  give_wide(v, v.x(), [&](Value* x, Value* g) {
    return v.b.mul(g, v.scale(v.b.unary(Op::exp_, v.neg(v.b.mul(x, x))), 2 / std::sqrt(std::numbers::pi)));
  });
}

void vjp_add(Vjp& v) {
  v.give(0, v.g);
  v.give(1, v.g);
}

void vjp_sub(Vjp& v) {
  v.give(0, v.g);
  if (v.wants(1)) v.give(1, v.neg(sum_to(v.b, v.g, v.x(1)->type.shape())));
}

void vjp_mul(Vjp& v) {
  if (v.x(0) == v.x(1)) return v.give(0, v.scale(v.b.mul(v.g, v.x(0)), 2));
  if (v.wants(0)) v.give(0, v.b.mul(v.g, v.x(1)));
  if (v.wants(1)) v.give(1, v.b.mul(v.g, v.x(0)));
}

/// From the result: the dividend may die.
void vjp_div(Vjp& v) {
  Value* quotient = v.b.div(v.g, v.x(1));
  v.give(0, quotient);
  if (v.wants(1)) v.give(1, v.neg(v.b.mul(quotient, v.y())));
}

namespace {

/// a - b * step(a / b), with trunc or floor as the step, which is constant almost everywhere.
void remainder_vjp(Vjp& v, Op step) {
  v.give(0, v.g);
  if (v.wants(1)) v.give(1, v.neg(v.b.mul(v.g, v.b.unary(step, v.b.div(v.x(0), v.x(1))))));
}

}  // namespace

void vjp_rem(Vjp& v) { remainder_vjp(v, Op::trunc_); }
void vjp_mod(Vjp& v) { remainder_vjp(v, Op::floor_); }

/// 0 where the exponent is 0, whatever the base; the exponent's is 0 where 0 is raised to 0 or more, and where a power of a positive
/// base is 0: an infinite logarithm never meets the zero result.
void vjp_pow(Vjp& v) {
  Builder& b = v.b;
  const DType dtype = v.x()->type.dtype;
  Value *base = rules::widen(b, v.x(0)), *exponent = rules::widen(b, v.x(1)), *g = rules::widen(b, v.g);
  if (v.wants(0)) {
    Value* slope = b.mul(exponent, b.binary(Op::pow_, base, plus(v, exponent, -1)));
    v.give(0, b.cast(v.where_not(b.binary(Op::eq_, exponent, 0.0), b.mul(g, slope)), dtype));
  }
  if (v.wants(1)) {
    Value* y = rules::widen(b, v.y());
    Value* flat = b.binary(Op::and_, b.binary(Op::eq_, base, 0.0), b.binary(Op::ge_, exponent, 0.0));
    Value* vanished = b.binary(Op::and_, b.binary(Op::eq_, y, 0.0), b.binary(Op::gt_, base, 0.0));
    v.give(1, b.cast(v.where_not(b.binary(Op::or_, flat, vanished), b.mul(g, b.mul(y, b.unary(Op::log_, base)))), dtype));
  }
}

/// Zero at the origin and at infinity. The operands are divided by the larger of them before they are squared.
void vjp_atan2(Vjp& v) {
  Builder& b = v.b;
  const DType dtype = v.x()->type.dtype;
  Value *y = rules::widen(b, v.x(0)), *x = rules::widen(b, v.x(1)), *g = rules::widen(b, v.g);
  Value* size = b.max(b.unary(Op::abs_, y), b.unary(Op::abs_, x));
  Value* flat = b.binary(Op::or_, b.binary(Op::eq_, size, 0.0), b.unary(Op::isinf_, size));
  size = b.select(flat, b.full_like(size, 1), size);
  Value *a = b.div(y, size), *c = b.div(x, size);
  Value* share = b.div(v.where_not(flat, b.div(g, size)), b.add(b.mul(a, a), b.mul(c, c)));
  if (v.wants(0)) v.give(0, b.cast(v.where_not(flat, b.mul(share, c)), dtype));
  if (v.wants(1)) v.give(1, b.cast(v.where_not(flat, v.neg(b.mul(share, a))), dtype));
}

namespace {

void differentiate_max_min(Vjp& v) {
  Builder& b = v.b;
  Value* tie = b.binary(Op::eq_, v.x(0), v.x(1));
  Value* half = v.scale(v.g, 0.5);
  // The loser is found by a comparison that is false for NaN: then both get all.
  const Op loses = v.node.op == Op::max_ ? Op::lt_ : Op::gt_;
  for (int i = 0; i < 2; ++i) {
    if (v.wants(i)) v.give(i, b.select(tie, half, v.where_not(b.binary(loses, v.x(i), v.x(1 - i)), v.g)));
  }
}

}  // namespace

void vjp_max(Vjp& v) { differentiate_max_min(v); }
void vjp_min(Vjp& v) { differentiate_max_min(v); }

void vjp_select(Vjp& v) {
  if (v.wants(1)) v.give(1, v.where(v.x(0), v.g));
  if (v.wants(2)) v.give(2, v.where_not(v.x(0), v.g));
}

/// The bounds get what lies strictly beyond them; the upper one wins where they cross.
void vjp_clamp(Vjp& v) {
  Builder& b = v.b;
  Value *x = v.x(0), *low = v.x(1), *high = v.x(2);
  if (v.wants(0)) v.give(0, v.where(b.binary(Op::and_, b.binary(Op::ge_, x, low), b.binary(Op::le_, x, high)), v.g));
  if (v.wants(1)) v.give(1, v.where(b.binary(Op::and_, b.binary(Op::lt_, x, low), b.binary(Op::lt_, low, high)), v.g));
  if (v.wants(2)) v.give(2, v.where(b.binary(Op::or_, b.binary(Op::gt_, x, high), b.binary(Op::gt_, low, high)), v.g));
}

void vjp_fma(Vjp& v) {
  if (v.wants(0)) v.give(0, v.b.mul(v.g, v.x(1)));
  if (v.wants(1)) v.give(1, v.b.mul(v.g, v.x(0)));
  v.give(2, v.g);
}

void vjp_cast(Vjp& v) { v.give(0, v.b.cast(v.g, v.x()->type.dtype)); }

void vjp_check_index(Vjp& v) { v.give(0, v.g); }

}  // namespace tcc::autograd
