// Optimizers as graph ops. With g the gradient (negated by maximize, plus weight_decay * p except in adamw) and t the number of the step, from 1:
//   sgd       b = momentum * b + (1 - dampening) * g, at first b = g;  p -= lr * (nesterov ? g + momentum * b : b)
//   adam      m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g^2;  p -= lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + epsilon)
//   adamw     the same after p *= 1 - lr * weight_decay
//   adagrad   s += g^2;  p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + epsilon)
// 1 - beta^t is -expm1(t * log(beta)): exact to the last place where the difference would cancel.

#include "autograd/update_rules.h"

#include <cmath>

namespace tcc::autograd {
namespace {

using Kind = OptimizerOptions::Kind;

struct Rule {
  Builder& b;
  const OptimizerOptions& options;
  Value* lr;
  Value* step;

  Value* scale(Value* x, double factor) { return factor == 1 ? x : b.binary(Op::mul_, x, factor); }
  /// A rank-0 f32 scalar in a tensor's dtype.
  Value* as(Value* scalar, const Value* like) { return b.cast(scalar, like->type.dtype); }
  Value* one_minus_power(double beta) { return b.unary(Op::neg_, b.unary(Op::expm1_, scale(step, std::log(beta)))); }
  /// decay * old + share * added
  Value* blend(double decay, Value* old, double share, Value* added) { return b.add(scale(old, decay), scale(added, share)); }

  Updated sgd(Value* p, Value* g, const std::vector<Value*>& slots) {
    if (options.momentum == 0) return {b.sub(p, b.mul(g, as(lr, p))), {}};
    Value* velocity = blend(options.momentum, slots[0], 1 - options.dampening, g);
    if (options.dampening != 0) velocity = b.select(b.binary(Op::le_, step, 1.0), g, velocity);
    Value* direction = options.nesterov ? blend(1, g, options.momentum, velocity) : velocity;
    return {b.sub(p, b.mul(direction, as(lr, p))), {velocity}};
  }

  Updated adam(Value* p, Value* g, const std::vector<Value*>& slots) {
    Value* m = blend(options.beta1, slots[0], 1 - options.beta1, g);
    Value* v = blend(options.beta2, slots[1], 1 - options.beta2, b.mul(g, g));
    Value* rate = as(b.div(lr, one_minus_power(options.beta1)), p);
    Value* correction = as(b.unary(Op::rsqrt_, one_minus_power(options.beta2)), p);
    Value* width = b.binary(Op::add_, b.mul(b.unary(Op::sqrt_, v), correction), options.epsilon);
    return {b.sub(p, b.mul(b.div(m, width), rate)), {m, v}};
  }

  Updated adagrad(Value* p, Value* g, const std::vector<Value*>& slots) {
    Value* sum = b.add(slots[0], b.mul(g, g));
    Value* slowed = lr;
    if (options.lr_decay != 0) slowed = b.div(lr, b.binary(Op::add_, scale(b.binary(Op::add_, step, -1.0), options.lr_decay), 1.0));
    return {b.sub(p, b.div(b.mul(g, as(slowed, p)), b.binary(Op::add_, b.unary(Op::sqrt_, sum), options.epsilon))), {sum}};
  }
};

}  // namespace

std::vector<Slot> slots_of(const OptimizerOptions& options) {
  switch (options.kind) {
    case Kind::sgd: return options.momentum == 0 ? std::vector<Slot>() : std::vector<Slot>{{"momentum_buffer", 0}};
    case Kind::adam:
    case Kind::adamw: return {{"exp_avg", 0}, {"exp_avg_sq", 0}};
    case Kind::adagrad: return {{"sum", options.initial_accumulator_value}};
  }
  internal_error("an optimizer has no slots");
}

bool counts_steps(const OptimizerOptions& options) {
  return options.kind != Kind::sgd || (options.momentum != 0 && options.dampening != 0);
}

Updated update_rule(Builder& b, const OptimizerOptions& options, Value* parameter, Value* gradient, const std::vector<Value*>& slots,
                    Value* lr, Value* step) {
  Rule rule{b, options, lr, step};
  Value *p = parameter, *g = options.maximize ? b.unary(Op::neg_, gradient) : gradient;
  if (options.weight_decay != 0) {
    if (options.kind == Kind::adamw) p = b.mul(p, b.binary(Op::add_, rule.scale(rule.as(lr, p), -options.weight_decay), 1.0));
    else g = b.add(g, rule.scale(p, options.weight_decay));
  }
  switch (options.kind) {
    case Kind::sgd: return rule.sgd(p, g, slots);
    case Kind::adam:
    case Kind::adamw: return rule.adam(p, g, slots);
    case Kind::adagrad: return rule.adagrad(p, g, slots);
  }
  internal_error("an optimizer has no formula");
}

}  // namespace tcc::autograd
