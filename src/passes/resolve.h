// What the resolve rules (resolve_*.cpp) share with the sweep that calls them (resolve.cpp).
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/builder.h"

namespace tcc {

/// What a rule knows when its node is reached: operands have static types (except sequences), and some have known values.
class ResolveContext {
 public:
  ResolveContext(Builder& builder, const GradientRule& gradient) : builder_(builder), gradient_(gradient) {}
  virtual ~ResolveContext() = default;

  Builder& builder() { return builder_; }
  const GradientRule& gradient() const { return gradient_; }
  /// The value of an operand if it is known at compile time, else null.
  virtual const Tensor* known(const Value* value) = 0;
  /// A value that is known and, unless a node that stays reads it, leaves no trace in the graph.
  virtual Value* constant(Tensor tensor) = 0;
  /// The same as integers; when it is unknown, remembers the operand for the message and returns nothing. `name`: the operand's role ("shape").
  std::optional<std::vector<int64_t>> ints(const Node& node, int operand, std::string_view name);
  std::optional<std::vector<double>> floats(const Node& node, int operand, std::string_view name);
  /// One integer, from a tensor with one element.
  std::optional<int64_t> scalar(const Node& node, int operand, std::string_view name);

  void set_sequence(const Value* sequence, std::vector<Value*> elements) { sequences_[sequence->id] = std::move(elements); }
  const std::vector<Value*>* find_sequence(const Value* value) const;

  /// The operand that the last rule wanted and that is not known.
  const Value* missing = nullptr;
  std::string missing_role;

 private:
  const Tensor* want(const Node& node, int operand, std::string_view name);

  Builder& builder_;
  const GradientRule& gradient_;
  std::unordered_map<int, std::vector<Value*>> sequences_;
};

/// Emits what the node stands for and returns its results; nothing when an operand that it needs is not known (`context.missing`); RuleError when
/// the node is wrong. A result that stays as it is (a sequence) is returned itself.
using ResolveRule = std::optional<std::vector<Value*>> (*)(ResolveContext& context, const Node& node);
ResolveRule resolve_rule(Op op);  ///< null for ops of another kind

/// An axis as ONNX writes it, negative from the end, as a non-negative one; `name` and the type are for the message.
int64_t normalize_axis(int64_t axis, int64_t rank, std::string_view name, const Type& type);
/// Axes likewise, each at most once.
std::vector<int64_t> normalize_axes(std::vector<int64_t> axes, int64_t rank, std::string_view name, const Type& type);

#define TCC_DYNAMIC(name, min_operands, max_operands, results, infer_rule, resolve_rule, attributes) \
  std::optional<std::vector<Value*>> resolve_rule(ResolveContext& context, const Node& node);
#include "tcc/ops/ops.def"

}  // namespace tcc
