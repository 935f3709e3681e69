// vjp rules of element-wise prims. Operands may broadcast as numpy does: g and the result have the common shape, and give() sums.
//
// Conventions: abs has slope 0 at 0; equal operands of max and min get half each; clamp passes at its bounds; what a select does not take gets
// exact zeros, so that an infinity there never makes NaN.

#include <cmath>
#include <numbers>

#include "autograd/vjp.h"

namespace tcc::autograd {
namespace {

Value* square(Vjp& v, Value* value) { return v.b.mul(value, value); }
Value* plus(Vjp& v, Value* value, double other) { return v.b.binary(Op::add_, value, other); }

}  // namespace

void vjp_neg(Vjp& v) { v.give(0, v.neg(v.g)); }
void vjp_abs(Vjp& v) { v.give(0, v.b.mul(v.g, v.b.unary(Op::sign_, v.x()))); }
void vjp_sqrt(Vjp& v) { v.give(0, v.b.div(v.g, v.scale(v.y(), 2))); }
void vjp_rsqrt(Vjp& v) { v.give(0, v.scale(v.b.mul(v.g, v.b.mul(v.y(), square(v, v.y()))), -0.5)); }
void vjp_recip(Vjp& v) { v.give(0, v.neg(v.b.mul(v.g, square(v, v.y())))); }
void vjp_exp(Vjp& v) { v.give(0, v.b.mul(v.g, v.y())); }
void vjp_exp2(Vjp& v) { v.give(0, v.scale(v.b.mul(v.g, v.y()), std::numbers::ln2)); }
void vjp_expm1(Vjp& v) { v.give(0, v.b.mul(v.g, plus(v, v.y(), 1))); }
void vjp_log(Vjp& v) { v.give(0, v.b.div(v.g, v.x())); }
void vjp_log2(Vjp& v) { v.give(0, v.b.div(v.g, v.scale(v.x(), std::numbers::ln2))); }
void vjp_log1p(Vjp& v) { v.give(0, v.b.div(v.g, plus(v, v.x(), 1))); }
void vjp_sin(Vjp& v) { v.give(0, v.b.mul(v.g, v.b.unary(Op::cos_, v.x()))); }
void vjp_cos(Vjp& v) { v.give(0, v.neg(v.b.mul(v.g, v.b.unary(Op::sin_, v.x())))); }
void vjp_tan(Vjp& v) { v.give(0, v.b.mul(v.g, plus(v, square(v, v.y()), 1))); }
void vjp_asin(Vjp& v) { v.give(0, v.b.mul(v.g, v.b.unary(Op::rsqrt_, plus(v, v.neg(square(v, v.x())), 1)))); }
void vjp_acos(Vjp& v) { v.give(0, v.neg(v.b.mul(v.g, v.b.unary(Op::rsqrt_, plus(v, v.neg(square(v, v.x())), 1))))); }
void vjp_atan(Vjp& v) { v.give(0, v.b.div(v.g, plus(v, square(v, v.x()), 1))); }
void vjp_sinh(Vjp& v) { v.give(0, v.b.mul(v.g, v.b.unary(Op::cosh_, v.x()))); }
void vjp_cosh(Vjp& v) { v.give(0, v.b.mul(v.g, v.b.unary(Op::sinh_, v.x()))); }
void vjp_tanh(Vjp& v) { v.give(0, v.b.mul(v.g, plus(v, v.neg(square(v, v.y())), 1))); }
void vjp_asinh(Vjp& v) { v.give(0, v.b.mul(v.g, v.b.unary(Op::rsqrt_, plus(v, square(v, v.x()), 1)))); }
void vjp_acosh(Vjp& v) { v.give(0, v.b.mul(v.g, v.b.unary(Op::rsqrt_, plus(v, square(v, v.x()), -1)))); }
void vjp_atanh(Vjp& v) { v.give(0, v.b.div(v.g, plus(v, v.neg(square(v, v.x())), 1))); }
void vjp_erf(Vjp& v) {
  Value* slope = v.scale(v.b.unary(Op::exp_, v.neg(square(v, v.x()))), 2 / std::sqrt(std::numbers::pi));
  v.give(0, v.b.mul(v.g, slope));
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
  if (v.x(0) == v.x(1)) return v.give(0, v.b.mul(v.g, v.scale(v.x(0), 2)));
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

/// 0 where the exponent is 0, whatever the base; the exponent's is 0 where 0 is raised to 0 or more: log(0) never meets the zero result.
void vjp_pow(Vjp& v) {
  Builder& b = v.b;
  Value *base = v.x(0), *exponent = v.x(1);
  if (v.wants(0)) {
    Value* slope = b.mul(exponent, b.binary(Op::pow_, base, plus(v, exponent, -1)));
    v.give(0, v.where_not(b.binary(Op::eq_, exponent, 0.0), b.mul(v.g, slope)));
  }
  if (v.wants(1)) {
    Value* flat = b.binary(Op::and_, b.binary(Op::eq_, base, 0.0), b.binary(Op::ge_, exponent, 0.0));
    v.give(1, v.where_not(flat, b.mul(v.g, b.mul(v.y(), b.unary(Op::log_, base)))));
  }
}

/// Zero at the origin.
void vjp_atan2(Vjp& v) {
  Builder& b = v.b;
  Value* squares = b.add(square(v, v.x(0)), square(v, v.x(1)));
  Value* share = v.where_not(b.binary(Op::eq_, squares, 0.0), b.div(v.g, squares));
  if (v.wants(0)) v.give(0, b.mul(share, v.x(1)));
  if (v.wants(1)) v.give(1, v.neg(b.mul(share, v.x(0))));
}

void vjp_max_min(Vjp& v) {
  Builder& b = v.b;
  Value* tie = b.binary(Op::eq_, v.x(0), v.x(1));
  Value* half = v.scale(v.g, 0.5);
  // The loser is found by a comparison that is false for NaN: then both get all.
  const Op loses = v.node.op == Op::max_ ? Op::lt_ : Op::gt_;
  for (int i = 0; i < 2; ++i) {
    if (v.wants(i)) v.give(i, b.select(tie, half, v.where_not(b.binary(loses, v.x(i), v.x(1 - i)), v.g)));
  }
}

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

}  // namespace tcc::autograd
