// Rewrites of logic: neutral elements of and, or, xor, negations, and selects whose condition or choice is known.

#include "passes/rewrite.h"

#include <utility>

namespace tcc {
namespace {

bool is_bool(const Value* value) { return value->type.dtype == DType::boolean; }
Value* if_same_type(Value* x, const Node& node) { return x->type == node.result()->type ? x : nullptr; }

Value* constant_to_the_right(Rewriter& r, Node& node) {
  if (r.splat(node.operand(0)) && !r.splat(node.operand(1))) std::swap(node.operands[0], node.operands[1]);
  return nullptr;
}

Value* and_or(Rewriter& r, Node& node) {
  if (node.operand(0) == node.operand(1)) return node.operand(0);
  if (!is_bool(node.operand(1))) return nullptr;
  const auto c = r.splat(node.operand(1));
  if (!c) return nullptr;
  const bool neutral = (c->integer != 0) == (node.op == Op::and_);
  return neutral ? if_same_type(node.operand(0), node) : r.full(node.result()->type, *c);
}

Value* xor_constant(Rewriter& r, Node& node) {
  Value* x = if_same_type(node.operand(0), node);
  if (x == nullptr) return nullptr;
  if (r.is_splat(node.operand(1), 0)) return x;
  return is_bool(x) && r.is_splat(node.operand(1), 1) ? r.emit(Op::not_, {x}) : nullptr;
}

/// The comparison that is true where this one is false. Order comparisons of floats have none: both are false for NaN.
std::optional<Op> opposite(Op op, bool floats) {
  if (op == Op::eq_) return Op::ne_;
  if (op == Op::ne_) return Op::eq_;
  if (floats) return std::nullopt;
  switch (op) {
    case Op::lt_: return Op::ge_;
    case Op::ge_: return Op::lt_;
    case Op::gt_: return Op::le_;
    case Op::le_: return Op::gt_;
    default: return std::nullopt;
  }
}

Value* not_of(Rewriter& r, Node& node) {
  const Node* inner = node.operand(0)->producer;
  if (inner == nullptr) return nullptr;
  if (inner->op == Op::not_) return inner->operand(0);
  if (info(inner->op).lowering != Lowering::pointwise || inner->operands.size() != 2) return nullptr;
  const auto other = opposite(inner->op, is_float(inner->operand(0)->type.dtype));
  return other ? r.emit(*other, inner->operands) : nullptr;
}

Value* compare_bool(Rewriter& r, Node& node) {
  // x == true, x != false  ->  x;  x == false, x != true  ->  not x
  Value* x = node.operand(0);
  if (!is_bool(x) || x->type != node.result()->type) return nullptr;
  const auto c = r.splat(node.operand(1));
  if (!c) return nullptr;
  return (c->integer != 0) == (node.op == Op::eq_) ? x : r.emit(Op::not_, {x});
}

Value* select_known(Rewriter& r, Node& node) {
  Value* condition = node.operand(0);
  Value* yes = node.operand(1);
  Value* no = node.operand(2);
  if (yes == no) return if_same_type(yes, node);
  if (const auto c = r.splat(condition)) return if_same_type(c->integer != 0 ? yes : no, node);
  if (const Node* negation = made_by(condition, Op::not_)) return r.emit(Op::select_, {negation->operand(0), no, yes});
  if (is_bool(yes) && condition->type == node.result()->type) {
    if (r.is_splat(yes, 1) && r.is_splat(no, 0)) return condition;
    if (r.is_splat(yes, 0) && r.is_splat(no, 1)) return r.emit(Op::not_, {condition});
  }
  return nullptr;
}

}  // namespace

std::vector<RewriteRow> logic_rewrites() {
  return {
      {Op::and_, constant_to_the_right},
      {Op::and_, and_or},
      {Op::or_, constant_to_the_right},
      {Op::or_, and_or},
      {Op::xor_, constant_to_the_right},
      {Op::xor_, xor_constant},
      {Op::not_, not_of},
      {Op::eq_, constant_to_the_right},
      {Op::eq_, compare_bool},
      {Op::ne_, constant_to_the_right},
      {Op::ne_, compare_bool},
      {Op::select_, select_known},
  };
}

}  // namespace tcc
