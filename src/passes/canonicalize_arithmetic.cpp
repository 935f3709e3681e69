// Rewrites of arithmetic: neutral elements, powers, idempotent functions, scales. x and y are values, c a constant that is the same everywhere.
//   x - 0, x * 1, x / 1, pow(x, 1), max(x, -inf), min(x, inf), clamp(x, -inf, inf)   ->  x
//   transpose(x) * c, broadcast_in_dim(x) / c                                       ->  transpose(x * c), broadcast_in_dim(x / c)
//   x / 2^k  ->  x * 2^-k         1 / x  ->  recip(x)       x * -1  ->  neg(x)        pow(x, 2)  ->  x * x

#include <cmath>
#include <utility>

#include "passes/rewrite.h"

namespace tcc {
namespace {

bool is_float_value(const Value* value) { return is_float(value->type.dtype); }

/// x when it has the type of the node's result: a constant of more axes would broadcast it.
Value* if_same_type(Value* x, const Node& node) { return x->type == node.result()->type ? x : nullptr; }

/// Whether no element can be -0, so that adding +0 changes nothing.
bool is_never_negative_zero(const Value* x) {
  if (!is_float_value(x)) return true;
  if (x->producer == nullptr) return false;
  switch (x->producer->op) {
    case Op::exp_:
    case Op::exp2_:
    case Op::abs_:
    case Op::sigmoid_:
    case Op::softmax_: return true;
    default: return false;
  }
}

/// Whether both 2^-k and its product with any number are exact where the quotient is.
bool has_exact_reciprocal(double value, DType dtype) {
  int exponent = 0;
  if (!std::isfinite(value) || std::fabs(std::frexp(value, &exponent)) != 0.5) return false;
  const int k = exponent - 1;
  const int largest = dtype == DType::f16 ? 14 : dtype == DType::f64 ? 1022 : dtype == DType::f32 || dtype == DType::bf16 ? 126 : -1;
  return k >= -largest && k <= largest;
}

/// The constant of a commutative op goes to the right, where the other rules look for it.
Value* constant_to_the_right(Rewriter& r, Node& node) {
  if (r.splat(node.operand(0)) && !r.splat(node.operand(1))) std::swap(node.operands[0], node.operands[1]);
  return nullptr;
}

Value* add_zero(Rewriter& r, Node& node) {
  Value* x = node.operand(0);
  const bool neutral =
      r.is_splat(node.operand(1), is_float_value(x) ? -0.0 : 0.0) || (r.is_splat(node.operand(1), 0.0) && is_never_negative_zero(x));
  return neutral ? if_same_type(x, node) : nullptr;
}

Value* sub_zero(Rewriter& r, Node& node) { return r.is_splat(node.operand(1), 0.0) ? if_same_type(node.operand(0), node) : nullptr; }

// 0 - x is 0 for x = 0, neg(x) is -0: for floats the zero in front has to be negative.
Value* sub_from_zero(Rewriter& r, Node& node) {
  Value* x = node.operand(1);
  const bool zero = r.is_splat(node.operand(0), is_float_value(x) ? -0.0 : 0.0);
  return zero && x->type == node.result()->type ? r.emit(Op::neg_, {x}) : nullptr;
}

Value* mul_by_one(Rewriter& r, Node& node) {
  Value* x = if_same_type(node.operand(0), node);
  if (x == nullptr) return nullptr;
  if (r.is_splat(node.operand(1), 1.0)) return x;
  if (r.is_splat(node.operand(1), -1.0) && !is_unsigned_integer(x->type.dtype)) return r.emit(Op::neg_, {x});
  return nullptr;
}

Value* mul_by_zero(Rewriter& r, Node& node) {
  return !is_float_value(node.result()) && r.is_splat(node.operand(1), 0.0) ? r.full(node.result()->type, 0.0) : nullptr;
}

Value* div_by_constant(Rewriter& r, Node& node) {
  Value* x = node.operand(0);
  Value* divisor = node.operand(1);
  const auto c = r.splat(divisor);
  if (!c) return nullptr;
  if (c->as_double() == 1) return if_same_type(x, node);
  if (!is_float_value(x) || !has_exact_reciprocal(c->floating, c->dtype)) return nullptr;
  return r.emit(Op::mul_, {x, r.full(divisor->type, 1 / c->floating)});
}

Value* div_of_one(Rewriter& r, Node& node) {
  Value* x = node.operand(1);
  return is_float_value(x) && r.is_splat(node.operand(0), 1.0) && x->type == node.result()->type ? r.emit(Op::recip_, {x}) : nullptr;
}

Value* recip_of_sqrt(Rewriter& r, Node& node) {
  const Node* root = made_by(node.operand(0), Op::sqrt_);
  return root != nullptr ? r.emit(Op::rsqrt_, {root->operand(0)}) : nullptr;
}

Value* cube(Rewriter& r, Value* x) {
  const auto product = [&](Value* y) { return r.emit(Op::mul_, {r.emit(Op::mul_, {y, y}), y}); };
  if (!is_float_value(x) || size_bits(x->type.dtype) >= 32) return product(x);
  // Below f32 a product of three would round twice.
  Value* wide = r.emit(Op::cast_, {x}, {{"dtype", DType::f32}});
  return r.emit(Op::cast_, {product(wide)}, {{"dtype", x->type.dtype}});
}

Value* power(Rewriter& r, Node& node) {
  Value* x = if_same_type(node.operand(0), node);
  const auto exponent = r.splat(node.operand(1));
  if (x == nullptr || !exponent) return nullptr;
  const double c = exponent->as_double();
  if (c == 0) return r.full(x->type, 1.0);  // also of NaN
  if (c == 1) return x;
  if (c == 2) return r.emit(Op::mul_, {x, x});
  if (c == 3) return cube(r, x);
  if (!is_float_value(x)) return nullptr;
  if (c == -1) return r.emit(Op::recip_, {x});
  if (c == 0.5) return r.emit(Op::sqrt_, {x});
  if (c == -0.5) return r.emit(Op::rsqrt_, {x});
  return nullptr;
}

// Bounds that nothing passes. NaN goes through max, min and clamp, so it stays either way.
Value* max_of_least(Rewriter& r, Node& node) {
  if (node.operand(0) == node.operand(1)) return node.operand(0);
  return is_float_value(node.result()) && r.is_splat(node.operand(1), -INFINITY) ? if_same_type(node.operand(0), node) : nullptr;
}

Value* min_of_greatest(Rewriter& r, Node& node) {
  if (node.operand(0) == node.operand(1)) return node.operand(0);
  return is_float_value(node.result()) && r.is_splat(node.operand(1), INFINITY) ? if_same_type(node.operand(0), node) : nullptr;
}

Value* clamp_without_bounds(Rewriter& r, Node& node) {
  const bool open = is_float_value(node.result()) && r.is_splat(node.operand(1), -INFINITY) && r.is_splat(node.operand(2), INFINITY);
  return open ? if_same_type(node.operand(0), node) : nullptr;
}

Value* clip_without_bounds(Rewriter& r, Node& node) {
  const auto open = [&](int i, double bound) {
    return node.operand(i) == nullptr || (is_float_value(node.result()) && r.is_splat(node.operand(i), bound));
  };
  return open(1, -INFINITY) && open(2, INFINITY) ? node.operand(0) : nullptr;
}

Value* same_twice(Rewriter&, Node& node) {
  const Node* inner = made_by(node.operand(0), node.op);
  return inner != nullptr ? inner->result() : nullptr;
}

Value* undone(Rewriter&, Node& node) {
  const Node* inner = made_by(node.operand(0), node.op);
  return inner != nullptr ? inner->operand(0) : nullptr;
}

Value* abs_of_neg(Rewriter& r, Node& node) {
  const Node* inner = made_by(node.operand(0), Op::neg_);
  return inner != nullptr ? r.emit(Op::abs_, {inner->operand(0)}) : nullptr;
}

Value* add_of_neg(Rewriter& r, Node& node) {
  const Node* inner = made_by(node.operand(1), Op::neg_);
  return inner != nullptr ? r.emit(Op::sub_, {node.operand(0), inner->operand(0)}) : nullptr;
}

Value* sub_of_neg(Rewriter& r, Node& node) {
  const Node* inner = made_by(node.operand(1), Op::neg_);
  return inner != nullptr ? r.emit(Op::add_, {node.operand(0), inner->operand(0)}) : nullptr;
}

// A factor of all elements is one of what a transpose or a broadcast shows in another order or several times: then it is where x is made, and a product of
// matrices reads x through the view (the scaled keys of attention).
Value* scale_of_view(Rewriter& r, Node& node) {
  const auto factor = r.splat(node.operand(1));
  if (!factor || node.operand(0)->type != node.result()->type) return nullptr;
  std::vector<const Node*> views;  // the outermost first
  Value* x = node.operand(0);
  bool moves = false;
  while (const Node* view = x->producer) {
    if (view->op != Op::reshape_ && view->op != Op::transpose_ && view->op != Op::broadcast_in_dim_) break;
    moves = moves || view->op != Op::reshape_;
    views.push_back(view);
    x = view->operand(0);
  }
  if (!moves) return nullptr;
  x = r.emit(node.op, {x, r.full(x->type, *factor)});
  for (size_t i = views.size(); i-- > 0;) x = r.emit(views[i]->op, {x}, views[i]->attrs);
  return x;
}

Value* only_operand(Rewriter&, Node& node) { return node.operands.size() == 1 ? node.operand(0) : nullptr; }

}  // namespace

std::vector<RewriteRow> arithmetic_rewrites() {
  return {
      {Op::add_, constant_to_the_right},
      {Op::add_, add_zero},
      {Op::add_, add_of_neg},
      {Op::sub_, sub_zero},
      {Op::sub_, sub_from_zero},
      {Op::sub_, sub_of_neg},
      {Op::mul_, constant_to_the_right},
      {Op::mul_, mul_by_one},
      {Op::mul_, mul_by_zero},
      {Op::mul_, scale_of_view},
      {Op::div_, div_by_constant},
      {Op::div_, scale_of_view},
      {Op::div_, div_of_one},
      {Op::recip_, recip_of_sqrt},
      {Op::pow_, power},
      {Op::max_, max_of_least},
      {Op::min_, min_of_greatest},
      {Op::clamp_, clamp_without_bounds},
      {Op::clip_, clip_without_bounds},
      {Op::relu_, same_twice},
      {Op::abs_, same_twice},
      {Op::abs_, abs_of_neg},
      {Op::neg_, undone},
      {Op::ceil_, same_twice},
      {Op::floor_, same_twice},
      {Op::trunc_, same_twice},
      {Op::round_even_, same_twice},
      {Op::sign_, same_twice},
      {Op::identity_, only_operand},
      {Op::elementwise_mean_, only_operand},
  };
}

}  // namespace tcc
