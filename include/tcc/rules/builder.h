// Appends nodes to a region; types come from the shape rules. Decompositions, importers and passes write graphs with it.
#pragma once

#include "tcc/graph/graph.h"

namespace tcc {

class Builder {
 public:
  /// Nodes are appended to `region.nodes` with the location given.
  Builder(Graph& graph, Region& region, Location loc) : graph_(graph), region_(region), loc_(std::move(loc)) {}

  Graph& graph() { return graph_; }
  const Location& loc() const { return loc_; }
  void set_loc(Location loc) { loc_ = std::move(loc); }
  /// Name for results of the next emitted nodes ("" : derived from the op).
  void set_name_hint(std::string hint) { name_ = std::move(hint), whole_.clear(); }
  /// The next emitted nodes compute parts of the value `whole`: their results are named `<whole>.<op>`.
  void name_as_parts_of(std::string whole) { whole_ = std::move(whole), name_.clear(); }

  /// Any op; RuleError when the rule refuses. `num_results` only for ops whose count is the node's.
  Node* emit_node(Op op, std::vector<Value*> operands, Attrs attrs = {}, int num_results = -1);
  Value* emit(Op op, std::vector<Value*> operands, Attrs attrs = {}) {
    return emit_node(op, std::move(operands), std::move(attrs))->result();
  }

  // Scalars and shapes. Operands of the arithmetic below must have equal shapes except where a rank-0 value meets any shape: it is broadcast.
  Value* full(DType dtype, const Shape& shape, double value);
  Value* full_int(DType dtype, const Shape& shape, int64_t value);
  /// Rank-0... shaped like `like`, its dtype, holding `value`.
  Value* full_like(Value* like, double value);
  Value* constant(Tensor tensor, std::string_view name_hint = "const");                     ///< a weight made by a pass
  Value* cast(Value* x, DType dtype);                                                       ///< x itself when it has that dtype
  Value* reshape(Value* x, const Shape& shape);                                             ///< x itself when it has that shape
  Value* transpose(Value* x, const std::vector<int64_t>& permutation);                      ///< x itself for the identity
  Value* broadcast_in_dim(Value* x, const Shape& shape, const std::vector<int64_t>& dims);  ///< x itself when nothing changes
  Value* broadcast_to(Value* x, const Shape& shape);                                        ///< numpy rules
  /// Numpy broadcast of all to their common shape (RuleError "type-error" when there is none).
  std::vector<Value*> broadcast_together(std::vector<Value*> values);
  Value* slice(Value* x, std::vector<int64_t> starts, std::vector<int64_t> limits, std::vector<int64_t> steps = {});
  Value* pad(Value* x, Value* value, std::vector<int64_t> low, std::vector<int64_t> high, std::vector<int64_t> interior = {});
  Value* concat(std::vector<Value*> values, int64_t axis);
  Value* iota(DType dtype, const Shape& shape, int64_t axis);
  Value* reduce(Op op, Value* x, std::vector<int64_t> axes);       ///< axes leave the shape
  Value* reduce_keep(Op op, Value* x, std::vector<int64_t> axes);  ///< axes stay with extent 1 (reduce, then reshape)

  // Pointwise with numpy broadcast made explicit.
  Value* unary(Op op, Value* x) { return emit(op, {x}); }
  Value* binary(Op op, Value* a, Value* b);
  Value* binary(Op op, Value* a, double b);  ///< scalar of a's dtype
  Value* add(Value* a, Value* b) { return binary(Op::add_, a, b); }
  Value* sub(Value* a, Value* b) { return binary(Op::sub_, a, b); }
  Value* mul(Value* a, Value* b) { return binary(Op::mul_, a, b); }
  Value* div(Value* a, Value* b) { return binary(Op::div_, a, b); }
  Value* max(Value* a, Value* b) { return binary(Op::max_, a, b); }
  Value* min(Value* a, Value* b) { return binary(Op::min_, a, b); }
  Value* select(Value* condition, Value* a, Value* b);  ///< numpy broadcast of all three

 private:
  Graph& graph_;
  Region& region_;
  Location loc_;
  std::string name_, whole_;
};

}  // namespace tcc
