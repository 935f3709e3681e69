// Activations as prims. Where rounding matters (anything with exp, log, erf or tanh) 16-bit floats are computed in f32.
//
//   sigmoid(x)   e = exp(-|x|); (x >= 0 ? 1 : e) / (1 + e)          no overflow for any x
//   softplus(x)  max(x, 0) + log1p(exp(-|x|))                       no cancellation for negative x
//   elu(x)       x > 0 ? x : alpha * expm1(x)                       likewise
// NaN stays NaN in all of them: each either computes with x or selects x itself when a comparison with it is false.

#include <cmath>

#include "tcc/graph/rule_error.h"
#include "tcc/rules/rules_common.h"

namespace tcc {

namespace rules {

Value* sigmoid(Builder& b, Value* x) {
  Value* e = b.unary(Op::exp_, b.unary(Op::neg_, b.unary(Op::abs_, x)));
  Value* numerator = b.select(b.binary(Op::ge_, x, 0.0), b.full_like(x, 1), e);
  return b.div(numerator, b.binary(Op::add_, e, 1.0));
}

Value* softplus(Builder& b, Value* x) {
  Value* e = b.unary(Op::exp_, b.unary(Op::neg_, b.unary(Op::abs_, x)));
  return b.add(b.binary(Op::max_, x, 0.0), b.unary(Op::log1p_, e));
}

}  // namespace rules

namespace {

using Results = std::vector<Value*>;

/// f of the widened operand, rounded once to the operand's dtype.
template <class F> Results in_wide(Builder& b, const Node& node, F f) {
  Value* x = node.operand(0);
  return {b.cast(f(rules::widen(b, x)), rules::dtype_of(x))};
}

Value* scaled(Builder& b, Value* x, double factor) { return factor == 1 ? x : b.binary(Op::mul_, x, factor); }

Value* clamp(Builder& b, Value* x, double low, double high) { return b.emit(Op::clamp_, {x, b.full_like(x, low), b.full_like(x, high)}); }

/// x > 0 ? x : alpha * expm1(x / width)
Value* exponential_unit(Builder& b, Value* x, double alpha, double width) {
  Value* inner = width == 1 ? x : b.binary(Op::div_, x, width);
  return b.select(b.binary(Op::gt_, x, 0.0), x, scaled(b, b.unary(Op::expm1_, inner), alpha));
}

}  // namespace

Results decompose_identity(Builder&, const Node& node) { return {node.operand(0)}; }

Results decompose_relu(Builder& b, const Node& node) { return {b.binary(Op::max_, node.operand(0), 0.0)}; }

Results decompose_leaky_relu(Builder& b, const Node& node) {
  Value* x = node.operand(0);
  return {b.select(b.binary(Op::ge_, x, 0.0), x, b.binary(Op::mul_, x, node.attrs.get_float("alpha")))};
}

Results decompose_prelu(Builder& b, const Node& node) {
  Value* x = node.operand(0);
  Value* slope = b.broadcast_to(node.operand(1), rules::shape_of(x));
  return {b.select(b.binary(Op::lt_, x, 0.0), b.mul(x, slope), x)};
}

Results decompose_sigmoid(Builder& b, const Node& node) {
  return in_wide(b, node, [&](Value* x) { return rules::sigmoid(b, x); });
}

Results decompose_hard_sigmoid(Builder& b, const Node& node) {
  return in_wide(b, node, [&](Value* x) {
    return clamp(b, b.binary(Op::add_, scaled(b, x, node.attrs.get_float("alpha")), node.attrs.get_float("beta")), 0, 1);
  });
}

Results decompose_hard_swish(Builder& b, const Node& node) {
  return in_wide(b, node, [&](Value* x) { return b.mul(x, clamp(b, b.binary(Op::add_, b.binary(Op::div_, x, 6.0), 0.5), 0, 1)); });
}

Results decompose_silu(Builder& b, const Node& node) {
  return in_wide(b, node, [&](Value* x) { return b.mul(x, rules::sigmoid(b, x)); });
}

Results decompose_gelu(Builder& b, const Node& node) {
  const std::string& approximate = node.attrs.get_string("approximate");
  if (approximate != "none" && approximate != "tanh") {
    throw RuleError{"unsupported-attribute", "`approximate` is \"" + approximate + "\", known are \"none\" and \"tanh\""};
  }
  return in_wide(b, node, [&](Value* x) {
    Value* inner;
    if (approximate == "tanh") {
      Value* cube = b.mul(b.mul(x, x), x);
      inner = b.unary(Op::tanh_, b.binary(Op::mul_, b.add(x, b.binary(Op::mul_, cube, 0.044715)), std::sqrt(2 / M_PI)));
    } else {
      inner = b.unary(Op::erf_, b.binary(Op::mul_, x, M_SQRT1_2));
    }
    return b.mul(b.binary(Op::mul_, x, 0.5), b.binary(Op::add_, inner, 1.0));
  });
}

Results decompose_elu(Builder& b, const Node& node) {
  return in_wide(b, node, [&](Value* x) { return exponential_unit(b, x, node.attrs.get_float("alpha"), 1); });
}

Results decompose_selu(Builder& b, const Node& node) {
  return in_wide(b, node, [&](Value* x) {
    return scaled(b, exponential_unit(b, x, node.attrs.get_float("alpha"), 1), node.attrs.get_float("gamma"));
  });
}

Results decompose_celu(Builder& b, const Node& node) {
  const double alpha = node.attrs.get_float("alpha");
  return in_wide(b, node, [&](Value* x) { return exponential_unit(b, x, alpha, alpha); });
}

Results decompose_softplus(Builder& b, const Node& node) {
  return in_wide(b, node, [&](Value* x) { return rules::softplus(b, x); });
}

Results decompose_softsign(Builder& b, const Node& node) {
  return in_wide(b, node, [&](Value* x) { return b.div(x, b.binary(Op::add_, b.unary(Op::abs_, x), 1.0)); });
}

Results decompose_mish(Builder& b, const Node& node) {
  return in_wide(b, node, [&](Value* x) { return b.mul(x, b.unary(Op::tanh_, rules::softplus(b, x))); });
}

Results decompose_thresholded_relu(Builder& b, const Node& node) {
  Value* x = node.operand(0);
  const double alpha = node.attrs.get_float("alpha");
  return {b.select(b.binary(Op::le_, x, alpha), b.full_like(x, 0), x)};  // by `le`, so that NaN stays
}

/// Integers are computed in f64: `bias` and `lambd` need not be whole.
Results decompose_shrink(Builder& b, const Node& node) {
  Value* given = node.operand(0);
  Value* x = is_float(rules::dtype_of(given)) ? given : b.cast(given, DType::f64);
  const double bias = node.attrs.get_float("bias"), lambd = node.attrs.get_float("lambd");
  Value* above = b.select(b.binary(Op::gt_, x, lambd), b.binary(Op::sub_, x, bias), b.full_like(x, 0));
  Value* result = b.select(b.binary(Op::lt_, x, -lambd), b.binary(Op::add_, x, bias), above);
  if (is_float(rules::dtype_of(given))) result = b.select(b.unary(Op::isnan_, x), x, result);
  return {b.cast(result, rules::dtype_of(given))};
}

Results decompose_clip(Builder& b, const Node& node) {
  Value* x = node.operand(0);
  Value* low = node.operand(1);
  Value* high = node.operand(2);
  const Shape shape = rules::shape_of(x);
  // A bound is a scalar, also when it is written as [1].
  auto bound = [&](Value* value) { return b.broadcast_to(b.reshape(value, {}), shape); };
  if (low != nullptr && high != nullptr) return {b.emit(Op::clamp_, {x, bound(low), bound(high)})};
  if (low != nullptr) return {b.max(x, bound(low))};
  if (high != nullptr) return {b.min(x, bound(high))};
  return {x};
}

}  // namespace tcc
