// Rewrites of casts: to the same dtype, of constants, and chains whose first cast loses nothing.

#include "passes/rewrite.h"

namespace tcc {
namespace {

/// Bits that hold integers exactly: of an integer dtype without its sign, of a float its significand.
int exact_bits(DType dtype) {
  switch (dtype) {
    case DType::f64: return 53;
    case DType::f32: return 24;
    case DType::f16: return 11;
    case DType::bf16: return 8;
    case DType::f8e4m3fn:
    case DType::f8e4m3fnuz: return 4;
    case DType::f8e5m2:
    case DType::f8e5m2fnuz: return 3;
    case DType::boolean: return 1;
    default: return size_bits(dtype) - is_signed_integer(dtype);
  }
}

/// Whether every value of `from` is a value of `to`.
bool loses_nothing(DType from, DType to) {
  if (from == to) return true;
  if (to == DType::boolean) return false;
  if (!is_float(from)) {
    if (!is_float(to) && is_signed_integer(from) && !is_signed_integer(to)) return false;
    return exact_bits(from) <= exact_bits(to) && (!is_float(to) || size_bits(to) >= 16);
  }
  switch (to) {
    case DType::f64: return true;
    case DType::f32: return from != DType::f64;
    case DType::f16:
    case DType::bf16: return size_bits(from) == 8;
    default: return false;
  }
}

Value* to_same(Rewriter&, Node& node) { return node.operand(0)->type == node.result()->type ? node.operand(0) : nullptr; }

Value* of_constant(Rewriter& r, Node& node) {
  const auto value = r.splat(node.operand(0));
  if (!value) return nullptr;
  Tensor one(value->dtype, {1});
  if (is_float(value->dtype)) one.set_double(0, value->floating);
  else one.set_int64(0, value->integer);
  return r.full(node.result()->type, *splat_of(one.cast_to(node.result()->type.dtype)));
}

// a -> b -> c is a -> c when b holds every a. Not when the detour through floats makes the last step saturate where integers wrap, or infinity of f8e5m2.
Value* of_cast(Rewriter& r, Node& node) {
  const Node* inner = made_by(node.operand(0), Op::cast_);
  if (inner == nullptr) return nullptr;
  Value* x = inner->operand(0);
  const DType a = x->type.dtype, b = node.operand(0)->type.dtype, c = node.result()->type.dtype;
  if (!loses_nothing(a, b) || (a == c && c == DType::f8e5m2)) return nullptr;
  const bool same_rounding = is_float(a) == is_float(b) || is_float(c) || c == DType::boolean || loses_nothing(a, c);
  if (!same_rounding) return nullptr;
  return a == c ? x : r.emit(Op::cast_, {x}, {{"dtype", c}});
}

Value* like_to_cast(Rewriter& r, Node& node) { return r.emit(Op::cast_, {node.operand(0)}, {{"dtype", node.result()->type.dtype}}); }

}  // namespace

std::vector<RewriteRow> cast_rewrites() {
  return {{Op::cast_, to_same}, {Op::cast_, of_constant}, {Op::cast_, of_cast}, {Op::bitcast_, to_same}, {Op::cast_like_, like_to_cast}};
}

}  // namespace tcc
