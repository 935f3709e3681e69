// What a vjp rule sees, and the list of rules.
//
// A rule turns the cotangents of a node's results into those of its operands: `v.give(i, ...)` for each operand i with `v.wants(i)`. It may read
// operands and results; where there is a choice it reads what lets more die before the backward pass (relu reads its result, not its operand).
// A cotangent has the dtype of its operand; its shape may be one that the operand broadcasts to: give() sums it.
#pragma once

#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/rules/builder.h"
#include "tcc/rules/rules_common.h"

namespace tcc::autograd {

class Vjp {
 public:
  /// `results`: what stands for the node's results where a rule reads them; themselves unless the backward pass has them from elsewhere.
  Vjp(Builder& builder, const Node& of, std::vector<Value*> results, std::vector<Value*> cotangents, std::vector<char> wanted)
      : b(builder),
        node(of),
        g(cotangents[0]),
        results_(std::move(results)),
        cotangents_(std::move(cotangents)),
        wanted_(std::move(wanted)),
        given_(wanted_.size(), nullptr) {}

  Builder& b;
  const Node& node;
  Value* const g;  ///< the cotangent of result 0; null when only other results have one

  Value* x(int operand = 0) const { return node.operand(operand); }
  Value* y(int result = 0) const { return results_[static_cast<size_t>(result)]; }
  const Attrs& attrs() const { return node.attrs; }
  /// Null: the result does not matter.
  Value* cotangent(int result) const { return cotangents_[static_cast<size_t>(result)]; }
  bool wants(int operand) const { return static_cast<size_t>(operand) < wanted_.size() && wanted_[static_cast<size_t>(operand)]; }
  void give(int operand, Value* cotangent);
  Value* given(int operand) const { return given_[static_cast<size_t>(operand)]; }

  // Idioms of the rules.
  Value* zeros(const Value* like) { return b.full(like->type.dtype, like->type.shape(), 0); }
  Value* scale(Value* value, double factor) { return factor == 1 ? value : b.binary(Op::mul_, value, factor); }
  Value* neg(Value* value) { return b.unary(Op::neg_, value); }
  /// condition ? value : 0. Never value * cast(condition): 0 times infinity is NaN.
  Value* where(Value* condition, Value* value) { return b.select(condition, value, zeros(value)); }
  Value* where_not(Value* condition, Value* value) { return b.select(condition, zeros(value), value); }

 private:
  std::vector<Value*> results_;
  std::vector<Value*> cotangents_;
  std::vector<char> wanted_;
  std::vector<Value*> given_;
};

/// Zeros of the shape with the updates added at the indices by scatter_nd or scatter_elements; many of 16 bits may meet in one place, so they add up in f32.
Value* add_to_zeros(Builder& b, Op scatter, const Shape& shape, Value* indices, Value* updates, Attrs attrs);

using VjpRule = void (*)(Vjp& v);

struct VjpEntry {
  Gradient kind;           ///< not `conditional`: what holds for the node
  VjpRule rule = nullptr;  ///< of kind `rule`
};
/// The gradient column of ops.def for this node.
VjpEntry find_vjp(const Node& node);

/// Sums what broadcasting spread: a value whose shape `shape` broadcasts to, back to `shape`.
Value* sum_to(Builder& b, Value* value, const Shape& shape);

// What the gradient column of ops.def asks for. A rule that is missing stops the link.
#define TCC_DECLARE_rule(name) void vjp_##name(Vjp& v);
#define TCC_DECLARE_conditional(name)    \
  bool has_vjp_##name(const Node& node); \
  void vjp_##name(Vjp& v);
#define TCC_DECLARE_zero(name)
#define TCC_DECLARE_decompose(name)
#define TCC_DECLARE_none(name)
#define TCC_POINTWISE(name, scalar_class, cost, gradient, precision, attributes) TCC_DECLARE_##gradient(name)
#define TCC_PRIM(name, min_operands, max_operands, results, lowering, gradient, precision, infer_rule, eval_rule, attributes) \
  TCC_DECLARE_##gradient(name)
#define TCC_COMPOSITE(name, min_operands, max_operands, results, gradient, precision, infer_rule, decompose_rule, attributes) \
  TCC_DECLARE_##gradient(name)
#include "tcc/ops/ops.def"
#undef TCC_DECLARE_rule
#undef TCC_DECLARE_conditional
#undef TCC_DECLARE_zero
#undef TCC_DECLARE_decompose
#undef TCC_DECLARE_none

}  // namespace tcc::autograd
