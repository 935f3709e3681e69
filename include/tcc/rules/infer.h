// The shape rules that ops.def names, and what they share. Rules accept symbols and unranked operands: what depends on them comes out as an
// unknown dimension (the symbol `?`) or unranked, and checks that need them are left to the time when they are known.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/graph/rule_error.h"

namespace tcc {

/// What a shape rule sees. Operand types may be null for absent operands.
struct InferInput {
  Op op;
  std::span<const Type* const> operands;
  const Attrs& attrs;
  int num_results;
  const Type& operand(int i) const { return *operands[static_cast<size_t>(i)]; }
};
/// RuleError where the rule of the op refuses.
std::vector<Type> infer_types(const InferInput& input);
/// Checks the operand count and the attribute schema of ops.def, then infers; RuleError as above.
std::vector<Type> infer_node_types(const Node& node);
/// What is wrong with the attributes of a node, "" when they follow the schema.
std::string attribute_fault(Op op, const Attrs& attrs);

using InferRule = std::vector<Type> (*)(const InferInput& input);
InferRule infer_rule(Op op);

#define TCC_SCALAR_CLASS(name, operands, infer_rule, eval_rule) std::vector<Type> infer_rule(const InferInput& input);
#define TCC_PRIM(name, min_operands, max_operands, results, lowering, gradient, precision, infer_rule, eval_rule, attributes) \
  std::vector<Type> infer_rule(const InferInput& input);
#define TCC_COMPOSITE(name, min_operands, max_operands, results, gradient, precision, infer_rule, decompose_rule, attributes) \
  std::vector<Type> infer_rule(const InferInput& input);
#define TCC_DYNAMIC(name, min_operands, max_operands, results, infer_rule, resolve_rule, attributes) \
  std::vector<Type> infer_rule(const InferInput& input);
#include "tcc/ops/ops.def"

/// RuleError{"type-error", message}.
[[noreturn]] void type_error(const std::string& message);

/// A dimension of which nothing is known.
inline Dim unknown_dim() { return Dim(std::string("?")); }
/// Whether a and b can never be the same extent.
bool certainly_differ(const Dim& a, const Dim& b);
/// The dimensions of a type with the dtype of another.
Type with_dtype(Type type, DType dtype);
Type make_type(DType dtype, std::vector<Dim> dims);
/// "axis" of an operand of this rank: `name` names the attribute in the message.
int check_axis(int64_t axis, int rank, std::string_view name);
/// Axes within the rank and each at most once.
void check_axes(const std::vector<int64_t>& axes, int rank, std::string_view name);
/// `values` has one entry per axis.
void check_per_axis(const std::vector<int64_t>& values, int rank, std::string_view name);
/// An attribute that is a shape: no negative extent.
Type type_of_shape(DType dtype, const std::vector<int64_t>& shape);
/// The numpy broadcast of the types' dimensions; unranked when one of them is.
Type broadcast_types(DType dtype, std::span<const Type* const> types);
/// floor((extent + low + high - window) / stride) + 1 with a dilated window; `what` is the op's name for the window in messages.
int64_t window_extent(int64_t extent, int64_t low, int64_t high, int64_t window, int64_t dilation, int64_t stride, int axis,
                      std::string_view what);

}  // namespace tcc
