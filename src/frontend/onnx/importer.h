// Walks the graphs and functions of a model and calls the handler of each node.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "frontend/base/random_ops.h"
#include "frontend/onnx/context.h"
#include "frontend/onnx/missing_ops.h"
#include "frontend/onnx/onnx.h"
#include "frontend/onnx/tensors.h"

namespace tcc::onnx {

/// The names that the nodes of one graph or function body see.
struct Scope {
  const Scope* outer = nullptr;  ///< a subgraph sees the names around it, a function body doesn't
  std::unordered_map<std::string, Value*> values;
  std::unordered_set<std::string> faulty;                       ///< results of nodes that had a fault: what reads them is passed over
  std::map<std::string, int64_t> opsets;                        ///< by domain
  std::map<std::string, const pb::AttributeProto*> attributes;  ///< of the call, inside a function body
  std::string prefix;                                           ///< put in front of node names: "call/" inside a function body

  Value* find(const std::string& name) const;
  bool is_faulty(const std::string& name) const;
};

/// Thrown where a node reads what a faulty node should have made: it is passed over, the fault has its message.
struct Poisoned {};

class Importer {
 public:
  Importer(const ModelFile& file, std::shared_ptr<const pb::ModelProto> model, const ImportOptions& options, Diagnostics& diagnostics);
  std::unique_ptr<Graph> run();

  // For NodeContext.
  Graph& graph() { return *graph_; }
  const TensorSource& source() const { return source_; }
  /// Value of something that doesn't depend on the inputs (or only on known ones, or on their shapes); nothing when it isn't known.
  std::optional<Tensor> evaluate(Value* value);
  /// A stand-in for a sequence of these elements; it is no value of the graph.
  Value* make_sequence(std::vector<Value*> elements, DType dtype);
  const std::vector<Value*>* sequence(const Value* value) const;  ///< nullptr when the value is no stand-in
  std::vector<Value*> inline_subgraph(const Scope& outer, const pb::GraphProto& graph);
  RandomOps& random_ops() { return random_ops_; }
  void warn(const Scope& scope, const pb::NodeProto& node, const std::string& message);

 private:
  using Nodes = google::protobuf::RepeatedPtrField<pb::NodeProto>;

  void read_opsets();
  void read_functions();
  void add_inputs();
  void add_weights(const pb::GraphProto& graph, Scope& scope);
  void add_outputs();
  /// Warns of values whose element type is not the one that the graph declares for them.
  void check_declared_types(const pb::GraphProto& graph, const Scope& scope);
  void check_ops(const Nodes& nodes, const Scope& scope, std::set<const pb::FunctionProto*>& seen);
  void import_nodes(const Nodes& nodes, Scope& scope);
  void import_node(const pb::NodeProto& node, Scope& scope);
  void call_function(const pb::FunctionProto& function, const pb::NodeProto& node, Scope& scope);
  /// The model's name for a value that was made after `first_new` values: it may have an inner one, of a function or a handler.
  void give_name(Value* value, const std::string& name, int first_new);
  /// Poisoned when one of them is the result of a faulty node.
  std::vector<Value*> graph_outputs(const pb::GraphProto& graph, const Scope& scope);
  const pb::FunctionProto* find_function(const pb::NodeProto& node) const;
  void report(const RuleError& error, const std::string& where, const std::string& snippet);
  std::string where(const Scope& scope, const pb::NodeProto& node) const;
  std::string snippet(const Scope& scope, const pb::NodeProto& node) const;

  const ModelFile& file_;
  std::shared_ptr<const pb::ModelProto> model_;
  const ImportOptions& options_;
  Bindings known_;  ///< of the inputs
  Diagnostics& diagnostics_;
  TensorSource source_;
  std::unique_ptr<Graph> graph_;
  RandomOps random_ops_;
  Scope top_;
  std::map<std::string, const pb::FunctionProto*> functions_;  ///< by domain, name and overload
  std::unordered_map<const Value*, std::vector<Value*>> sequences_;
  int64_t num_inlined_nodes_ = 0;
  MissingOps missing_ops_;
  std::vector<const pb::FunctionProto*> active_;  ///< calls being inlined
};

}  // namespace tcc::onnx
