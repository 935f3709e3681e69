// What the importer of one op sees: the node, its operands as values, its attributes, and the graph to append to.
//
//   void import_leaky_relu(NodeContext& node) {
//     node.result(Op::leaky_relu_, {node.in(0)}, {{"alpha", node.number("alpha", 0.01)}});
//   }
//
// A handler reads every attribute that its op may have at the node's opset; one that stays unread is a fault ("unknown attribute").
// Faults are thrown as RuleError; the importer adds file and node.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/onnx/narrow_types.h"
#include "frontend/onnx/proto.h"
#include "tcc/graph/graph.h"
#include "tcc/graph/rule_error.h"
#include "tcc/rules/builder.h"

namespace tcc::onnx {

class Importer;
struct Body;

/// How the graph of an attribute is put in the place of the node.
struct SubgraphUse {
  std::vector<Value*> operands;  ///< of its inputs
  std::optional<int64_t> step;   ///< of a loop: tells the names of its nodes apart
  Value* predicate = nullptr;    ///< bool[]: where it is not `taken`, what the graph makes is thrown away
  bool taken = true;
};

class NodeContext {
 public:
  NodeContext(Importer& importer, Body& body, const pb::NodeProto& proto, int64_t opset, Builder& builder);

  const std::string& op_type() const { return proto_.op_type(); }
  /// Version of the operator set that the node's domain has here.
  int64_t opset() const { return opset_; }
  /// Appends to the graph with this node's location; for inner values that have no name in the model.
  Builder& build() { return builder_; }

  // ---- operands. An empty name and a missing trailing operand are the same: absent.
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  bool has(int i) const { return i < num_inputs() && inputs_[static_cast<size_t>(i)] != nullptr; }
  Value* in(int i) const;  ///< RuleError when absent or a sequence
  /// An operand, which may be a sequence or an empty optional; RuleError when absent.
  Value* tensor_or_sequence(int i) const;
  Value* maybe(int i) const { return has(i) ? in(i) : nullptr; }
  DType dtype(int i = 0) const { return in(i)->type.dtype; }
  ElementType element(int i) const;        ///< the dtype of an operand, and what the model calls it where it has another name
  std::vector<Value*> all_inputs() const;  ///< none may be absent
  /// The value of an operand where it is known while importing; `what` names it in the RuleError otherwise.
  std::optional<Tensor> constant(int i) const;
  Tensor require_constant(int i, std::string_view what) const;
  /// The type of a value with all that is known of its sizes while importing.
  Type type_of(const Value* value) const;
  /// Rank of an operand; RuleError when it isn't known while importing.
  int64_t rank(int i) const;

  // ---- results
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  bool wants(int i) const { return i < num_outputs() && !outputs_[static_cast<size_t>(i)].empty(); }
  /// Appends the node that makes the results: they get the names that the model has for them.
  void result(Op op, std::vector<Value*> operands, Attrs attrs = {}, int num_results = -1);
  /// Makes `value` the i-th result.
  void set(int i, Value* value);
  /// Makes a constant of the model the i-th result. It is no parameter: those are the initializers.
  void set_weight(int i, Tensor tensor);

  /// Says that the i-th result, which is made, has elements of this type; nullptr: of its dtype.
  void set_narrow(int i, const NarrowType* type);

  Value* made(int i) const { return results_[static_cast<size_t>(i)]; }  ///< what was set; the result must be wanted

  // ---- attributes
  bool has_attribute(std::string_view name);
  int64_t integer(std::string_view name, int64_t otherwise);
  int64_t integer(std::string_view name);  ///< RuleError when missing; the same below
  /// An axis of operand 0, counted from the front where its rank is known, as the model has it otherwise.
  int64_t axis(std::string_view name, int64_t otherwise) { return from_front(integer(name, otherwise)); }
  int64_t axis(std::string_view name) { return from_front(integer(name)); }
  bool flag(std::string_view name, bool otherwise);
  double number(std::string_view name, double otherwise);
  std::string text(std::string_view name, std::string_view otherwise);
  std::string text(std::string_view name);
  std::vector<int64_t> integers(std::string_view name);  ///< empty when missing
  std::vector<double> numbers(std::string_view name);
  std::vector<std::string> texts(std::string_view name);
  std::optional<Tensor> tensor(std::string_view name);
  const NarrowType* narrow_tensor(std::string_view name);  ///< what the elements of that attribute are called; nullptr: as their dtype
  /// RuleError for types that the graph has no dtype for.
  DType dtype_attribute(std::string_view name, std::optional<DType> otherwise = std::nullopt);
  ElementType element_attribute(std::string_view name);
  const pb::GraphProto& graph(std::string_view name);
  void ignore(std::string_view name) { read_.insert(std::string(name)); }  ///< allowed, without meaning here
  void check_all_attributes_read() const;

  // ---- values
  Value* emit(Op op, std::vector<Value*> operands, Attrs attrs = {}) { return builder_.emit(op, std::move(operands), std::move(attrs)); }
  Value* scalar(DType dtype, double value) { return builder_.full(dtype, {}, value); }
  Value* ints(std::vector<int64_t> values, std::string_view what);  ///< an i64 weight named after the node and `what`
  /// Operand `i` if present; else the attribute of that name as a weight; else nullptr. For attributes that became operands.
  Value* operand_or_ints(int i, std::string_view attribute, int64_t operand_since);

  // ---- sequences whose elements are known while importing
  bool is_list(int i) const;
  bool is_list(const Value* value) const;
  const std::vector<Value*>& sequence(int i) const;  ///< RuleError when the operand is no such sequence
  void set_sequence(int i, std::vector<Value*> elements, DType dtype);

  // ---- optional values: one that is there is its value
  Value* nothing();              ///< a stand-in for one that isn't
  bool is_nothing(int i) const;  ///< whether the operand is such a stand-in

  // ---- random ops
  Value* seed();              ///< the run-time input that they all read, i64[]
  int64_t count_random_op();  ///< how many were met before, this one being counted

  // ---- whole graphs
  /// A value by the name that the model has for it; RuleError naming `what` when nothing made so far is called so.
  Value* named(const std::string& name, std::string_view what) const;
  /// Appends the nodes of a subgraph here; its outputs. Poisoned where one of them has a fault.
  std::vector<Value*> inline_subgraph(const pb::GraphProto& graph, const SubgraphUse& use = {});
  /// Nodes of the graph so far.
  size_t num_nodes() const;
  /// RuleError naming `what` where a node from `first_new` on reads positions that depend on data: it can't be computed and thrown away.
  void check_can_be_thrown_away(size_t first_new, const std::string& what) const;
  /// Where `predicate` holds a, else b; both may be sequences of one length. RuleError, as `what`, where their types differ.
  Value* chosen(Value* predicate, Value* a, Value* b, const std::string& what);
  std::optional<Tensor> value_of(const Value* value) const;  ///< where it is known while importing
  void warn(const std::string& message);
  [[noreturn]] void refuse(std::string kind, std::string message) const { throw RuleError{std::move(kind), std::move(message)}; }

 private:
  friend class Importer;
  const pb::AttributeProto* find(std::string_view name, int type);
  int64_t from_front(int64_t axis) const;

  Importer& importer_;
  Body& body_;
  const pb::NodeProto& proto_;
  int64_t opset_;
  Builder& builder_;
  std::vector<Value*> inputs_;
  std::vector<std::string> outputs_;
  std::vector<Value*> results_;
  std::set<std::string, std::less<>> read_;
};

/// One row of a family's table.
struct Handler {
  std::string_view domain;  ///< "" is ai.onnx
  std::string_view op;
  void (*import)(NodeContext& node);
};

/// Rows of all families; nullptr when the op is unknown.
const Handler* find_handler(std::string_view domain, std::string_view op);

}  // namespace tcc::onnx
