// Walks the graphs and functions of a model and calls the handler of each node. What importers of all formats need is in frontend/base.
#pragma once

#include <list>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontend/base/faults.h"
#include "frontend/base/missing_ops.h"
#include "frontend/base/random_ops.h"
#include "frontend/base/shape_arithmetic.h"
#include "frontend/onnx/body.h"
#include "frontend/onnx/context.h"
#include "frontend/onnx/functions.h"
#include "frontend/onnx/onnx.h"
#include "frontend/onnx/tensors.h"

namespace tcc::onnx {

class Importer {
 public:
  Importer(const ModelFile& file, std::shared_ptr<const pb::ModelProto> model, const ImportOptions& options, Diagnostics& diagnostics);
  std::unique_ptr<Graph> run();

  // For NodeContext.
  Graph& graph() { return *graph_; }
  const TensorSource& source() const { return source_; }
  ShapeArithmetic& shape_arithmetic() { return shape_arithmetic_; }
  /// A stand-in for a sequence of these elements; it is no value of the graph.
  Value* make_sequence(std::vector<Value*> elements, DType dtype);
  const std::vector<Value*>* sequence(const Value* value) const;  ///< nullptr when the value is no stand-in
  /// A stand-in for an optional value that isn't there; it is no value of the graph.
  Value* nothing();
  bool is_nothing(const Value* value) const { return value != nullptr && value == nothing_; }
  const NarrowType* narrow(const Value* value) const;  ///< what the model calls the type of its elements; nullptr: as its dtype
  void set_narrow(const Value* value, const NarrowType* type);
  std::vector<Value*> inline_subgraph(const Body& outer, const pb::NodeProto& node, const pb::GraphProto& graph, const SubgraphUse& use);
  RandomOps& random_ops() { return random_ops_; }
  void warn(const Body& body, const pb::NodeProto& node, const std::string& message);

 private:
  using Nodes = google::protobuf::RepeatedPtrField<pb::NodeProto>;

  // ---- around the nodes (interface.cpp)
  void read_opsets();
  void read_functions();
  void add_inputs();
  void add_input(const pb::ValueInfoProto& input);
  /// The elements of an input that is a sequence, each an input of the graph: those whose shapes the command line gives.
  Value* add_sequence(const std::string& name, const pb::TypeProto& element);
  void add_weights(const pb::GraphProto& graph, Body& body);
  void add_outputs();
  void add_output(const pb::ValueInfoProto& output);
  /// Warns of values whose element type is not the one that the graph declares for them.
  void check_declared_types(const pb::GraphProto& graph, const Body& body);

  // ---- ops that are not read (check_ops.cpp)
  void check_ops(const Nodes& nodes, const Body& body, std::set<const pb::FunctionProto*>& seen);
  void check_ops_of_graphs(const pb::NodeProto& node, const Body& body, std::set<const pb::FunctionProto*>& seen);
  void add_missing_op(const pb::NodeProto& node, const Body& body);
  void report_missing_ops();

  // ---- nodes (importer.cpp)
  void import_nodes(const Nodes& nodes, Body& body);
  void import_node(const pb::NodeProto& node, Body& body);
  /// Casts weights to the float type of the data that the op has beside them (mixed_floats.cpp).
  void convert_weights(NodeContext& context, Builder& builder, std::string_view domain);
  void warn_of_converted_weights();
  void check_narrow_operands(const NodeContext& context, std::string_view domain) const;
  void name_results(NodeContext& context, const pb::NodeProto& node, std::string_view domain, int first_new);
  std::string where(const Body& body, const pb::NodeProto& node) const;
  std::string snippet(const Body& body, const pb::NodeProto& node) const;

  // ---- functions and subgraphs (calls.cpp)
  void call_function(const pb::FunctionProto& function, const pb::NodeProto& node, Body& body);
  void import_function_nodes(const pb::FunctionProto& function, Body& inner);
  void set_operands(const pb::GraphProto& graph, const SubgraphUse& use, Body& inner);
  /// Puts what a graph sees of the names around it behind a predicate.
  void gate_names_around(const pb::GraphProto& graph, const SubgraphUse& use, Body& inner);
  Value* gated(Builder& builder, Value* value, const SubgraphUse& use);
  /// Poisoned when one of them is the result of a faulty node.
  static std::vector<Value*> graph_outputs(const pb::GraphProto& graph, const Body& body);

  std::shared_ptr<const pb::ModelProto> model_;
  const ImportOptions& options_;
  Diagnostics& diagnostics_;
  Faults faults_;
  TensorSource source_;
  std::unique_ptr<Graph> graph_;
  RandomOps random_ops_;
  ShapeArithmetic shape_arithmetic_;
  Body top_;
  Functions functions_;
  std::unordered_map<const Value*, std::vector<Value*>> sequences_;
  Value* nothing_ = nullptr;
  std::unordered_map<const google::protobuf::MessageLite*, Value*> weights_;  ///< of the graphs: a loop has its own once, not in each step
  std::list<Nodes> function_nodes_;                                           ///< of calls that leave operands out
  std::unordered_map<const Value*, const NarrowType*> narrow_;
  int64_t num_inlined_nodes_ = 0, num_unrolled_nodes_ = 0, num_converted_weights_ = 0;
  std::pair<std::string, std::string> first_converted_weight_;  ///< the node, and what is said of it
  MissingOps missing_ops_;
  std::vector<const pb::FunctionProto*> active_;  ///< calls being inlined
};

}  // namespace tcc::onnx
