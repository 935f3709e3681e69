// vjp rules of activations, in closed form. Those that are monotone read their result, so that the operand may die. 16-bit floats are computed in
// f32, as the activations themselves are.
//
// At the kinks: relu, and elu's relatives from the left; leaky_relu and prelu take their slope at 0; hard_sigmoid and hard_swish are flat from
// their corners on; clip passes at its bounds.

#include <cmath>
#include <numbers>

#include "autograd/vjp.h"

namespace tcc::autograd {
namespace {

/// The rule in wide floats: f(x or y, g) -> cotangent of x.
template <class F> void in_wide(Vjp& v, Value* read, F f) {
  Value* cotangent = f(rules::widen(v.b, read), rules::widen(v.b, v.g));
  v.give(0, v.b.cast(cotangent, v.x()->type.dtype));
}

Value* plus(Vjp& v, Value* value, double other) { return other == 0 ? value : v.b.binary(Op::add_, value, other); }
Value* one_minus(Vjp& v, Value* value) { return plus(v, v.neg(value), 1); }

/// y for x > 0, else alpha * (exp(x / width) - 1) times gamma throughout: the slope is read off the result. A result above 0 means x > 0 when
/// gamma and alpha are positive; otherwise the operand decides.
void exponential_unit(Vjp& v, double alpha, double gamma, double width) {
  Builder& b = v.b;
  if (alpha > 0 && gamma > 0) {
    in_wide(v, v.y(), [&](Value* y, Value* g) {
      Value* slope = v.scale(plus(v, y, gamma * alpha), 1 / width);
      return b.mul(g, b.select(b.binary(Op::gt_, y, 0.0), b.full_like(y, gamma), slope));
    });
    return;
  }
  in_wide(v, v.x(), [&](Value* x, Value* g) {
    Value* slope = v.scale(b.unary(Op::exp_, v.scale(x, 1 / width)), gamma * alpha / width);
    return b.mul(g, b.select(b.binary(Op::gt_, x, 0.0), b.full_like(x, gamma), slope));
  });
}

}  // namespace

/// By `le`, which is false for NaN.
void vjp_relu(Vjp& v) { v.give(0, v.where_not(v.b.binary(Op::le_, v.y(), 0.0), v.g)); }

void vjp_leaky_relu(Vjp& v) {
  const double alpha = v.attrs().get_float("alpha");
  Value* read = alpha > 0 ? v.y() : v.x();  // of one sign only then
  v.give(0, v.b.select(v.b.binary(Op::gt_, read, 0.0), v.g, v.scale(v.g, alpha)));
}

void vjp_prelu(Vjp& v) {
  Builder& b = v.b;
  Value* positive = b.binary(Op::gt_, v.x(0), 0.0);
  if (v.wants(0)) v.give(0, b.select(positive, v.g, b.mul(v.g, v.x(1))));
  if (v.wants(1)) v.give(1, v.where_not(positive, b.mul(v.g, v.x(0))));
}

void vjp_sigmoid(Vjp& v) {
  in_wide(v, v.y(), [&](Value* y, Value* g) { return v.b.mul(g, v.b.mul(y, one_minus(v, y))); });
}

void vjp_hard_sigmoid(Vjp& v) {
  Builder& b = v.b;
  Value* sloped = b.binary(Op::and_, b.binary(Op::gt_, v.y(), 0.0), b.binary(Op::lt_, v.y(), 1.0));
  v.give(0, v.where(sloped, v.scale(v.g, v.attrs().get_float("alpha"))));
}

void vjp_hard_swish(Vjp& v) {
  Builder& b = v.b;
  in_wide(v, v.x(), [&](Value* x, Value* g) {
    Value* inside = b.mul(g, plus(v, b.binary(Op::div_, x, 3.0), 0.5));
    return b.select(b.binary(Op::le_, x, -3.0), v.zeros(g), b.select(b.binary(Op::lt_, x, 3.0), inside, g));
  });
}

void vjp_silu(Vjp& v) {
  Builder& b = v.b;
  in_wide(v, v.x(), [&](Value* x, Value* g) {
    Value* s = rules::sigmoid(b, x);
    return b.mul(g, b.mul(s, plus(v, b.mul(x, one_minus(v, s)), 1)));
  });
}

/// Phi(x) + x * phi(x), or the derivative of the tanh form.
void vjp_gelu(Vjp& v) {
  Builder& b = v.b;
  in_wide(v, v.x(), [&](Value* x, Value* g) {
    Value* squared = b.mul(x, x);
    if (v.attrs().get_string("approximate") == "tanh") {
      const double scale = std::sqrt(2 / std::numbers::pi);
      squared = b.binary(Op::min_, squared, 1024.0);  // the tanh is 1 long before; an infinite slope must not meet its derivative, 0
      Value* inner = v.scale(b.add(x, v.scale(b.mul(squared, x), 0.044715)), scale);
      Value* t = b.unary(Op::tanh_, inner);
      Value* inner_slope = v.scale(plus(v, v.scale(squared, 3 * 0.044715), 1), scale);
      Value* right = b.mul(b.mul(v.scale(x, 0.5), one_minus(v, b.mul(t, t))), inner_slope);
      return b.mul(g, b.add(v.scale(plus(v, t, 1), 0.5), right));
    }
    Value* cdf = v.scale(plus(v, b.unary(Op::erf_, v.scale(x, std::numbers::sqrt2 / 2)), 1), 0.5);
    Value* pdf = v.scale(b.unary(Op::exp_, v.scale(squared, -0.5)), 1 / std::sqrt(2 * std::numbers::pi));
    return b.mul(g, b.add(cdf, b.mul(x, pdf)));
  });
}

void vjp_elu(Vjp& v) { exponential_unit(v, v.attrs().get_float("alpha"), 1, 1); }
void vjp_selu(Vjp& v) { exponential_unit(v, v.attrs().get_float("alpha"), v.attrs().get_float("gamma"), 1); }
void vjp_celu(Vjp& v) {
  const double alpha = v.attrs().get_float("alpha");
  exponential_unit(v, alpha, 1, alpha);
}

void vjp_softplus(Vjp& v) {
  in_wide(v, v.x(), [&](Value* x, Value* g) { return v.b.mul(g, rules::sigmoid(v.b, x)); });
}

void vjp_softsign(Vjp& v) {
  Builder& b = v.b;
  in_wide(v, v.x(), [&](Value* x, Value* g) {
    Value* slope = b.unary(Op::recip_, plus(v, b.unary(Op::abs_, x), 1));
    return b.mul(b.mul(g, slope), slope);
  });
}

void vjp_mish(Vjp& v) {
  Builder& b = v.b;
  in_wide(v, v.x(), [&](Value* x, Value* g) {
    Value* t = b.unary(Op::tanh_, rules::softplus(b, x));
    return b.mul(g, b.add(t, b.mul(x, b.mul(rules::sigmoid(b, x), one_minus(v, b.mul(t, t))))));
  });
}

/// As clamp. One bound alone passes at equality too, where max would halve.
void vjp_clip(Vjp& v) {
  Builder& b = v.b;
  Value *x = v.x(0), *low = v.x(1), *high = v.x(2);
  auto bound = [&](Value* value) { return b.broadcast_to(b.reshape(value, {}), x->type.shape()); };
  Value* inside = nullptr;
  if (low != nullptr) inside = b.binary(Op::ge_, x, bound(low));
  if (high != nullptr) {
    Value* below = b.binary(Op::le_, x, bound(high));
    inside = inside == nullptr ? below : b.binary(Op::and_, inside, below);
  }
  if (v.wants(0)) v.give(0, inside == nullptr ? v.g : v.where(inside, v.g));
  auto give_bound = [&](int operand, Value* beyond) {
    const Shape shape = v.x(operand)->type.shape();
    v.give(operand, b.reshape(sum_to(b, v.where(beyond, v.g), {}), shape));
  };
  if (v.wants(1)) {
    Value* beyond = b.binary(Op::lt_, x, bound(low));
    if (high != nullptr) beyond = b.binary(Op::and_, beyond, b.binary(Op::lt_, bound(low), bound(high)));
    give_bound(1, beyond);
  }
  if (v.wants(2)) {
    Value* beyond = b.binary(Op::gt_, x, bound(high));
    if (low != nullptr) beyond = b.binary(Op::or_, beyond, b.binary(Op::gt_, bound(low), bound(high)));
    give_bound(2, beyond);
  }
}

}  // namespace tcc::autograd
