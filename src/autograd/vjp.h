// What a vjp rule sees, and the list of rules.
//
// A rule turns the cotangents of a node's results into those of its operands: `v.give(i, ...)` for each operand i with `v.wants(i)`. It may read
// operands and results; where there is a choice it reads what lets more die before the backward pass (relu reads its result, not its operand).
// A cotangent has the dtype of its operand; its shape may be one that the operand broadcasts to: give() sums it.
#pragma once

#include <vector>

#include "tcc/graph/builder.h"
#include "tcc/graph/graph.h"
#include "tcc/prims/rules_common.h"

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

using VjpRule = void (*)(Vjp& v);

struct VjpEntry {
  enum class Kind : uint8_t {
    rule,
    zero,       ///< the derivative is zero, or the result is no float
    decompose,  ///< differentiated through its decomposition
    missing,
  };
  Kind kind = Kind::missing;
  VjpRule rule = nullptr;
};
VjpEntry find_vjp(const Node& node);

/// Sums what broadcasting spread: a value whose shape `shape` broadcasts to, back to `shape`.
Value* sum_to(Builder& b, Value* value, const Shape& shape);

#define TCC_VJP(op, rule) void rule(Vjp& v);
#define TCC_VJP_WHEN(op, predicate, rule) \
  bool predicate(const Node& node);       \
  void rule(Vjp& v);
#include "autograd/vjp.def"

}  // namespace tcc::autograd
