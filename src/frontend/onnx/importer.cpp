// ONNX model -> graph.
//
// One walk over the nodes, producers first. Model-local functions, branches and bodies of loops are inlined as they are met (calls.cpp). A
// node with a fault is reported and poisons its results, so that one walk reports every independent fault; unknown ops are looked for in a walk
// of their own before (check_ops.cpp), because a list of those is the first thing that a user wants of a new model.
#include "frontend/onnx/importer.h"

#include <algorithm>

#include "frontend/base/bind_signature.h"
#include "frontend/base/names.h"
#include "frontend/onnx/fault_help.h"
#include "frontend/onnx/node_names.h"
#include "frontend/onnx/order.h"
#include "frontend/onnx/parse.h"
#include "tcc/graph/rule_error.h"
#include "tcc/support/printable.h"

namespace tcc::onnx {

Importer::Importer(const ModelFile& file, std::shared_ptr<const pb::ModelProto> model, const ImportOptions& options,
                   Diagnostics& diagnostics)
    : model_(std::move(model)),
      options_(options),
      diagnostics_(diagnostics),
      faults_(diagnostics, file.name, help_for),
      graph_(std::make_unique<Graph>(model_->graph().name().empty() ? "model" : model_->graph().name())),
      random_ops_(*graph_),
      shape_arithmetic_(*graph_) {
  source_ = {std::make_shared<BesideFiles>(file.folders, options.files_read), model_};
  graph_->file = file.name;
}

std::unique_ptr<Graph> Importer::run() {
  const pb::GraphProto& graph = model_->graph();
  if (model_->training_info_size() > 0) diagnostics_.warning("ignored", faults_.file(), "the training information of the model is ignored");
  read_opsets();
  read_functions();
  faults_.attempt([&] { functions_.check_size_in(graph); }, [&] { return faults_.file(); });
  faults_.checkpoint();
  std::set<const pb::FunctionProto*> seen;
  check_ops(graph.node(), top_, seen);
  report_missing_ops();

  add_inputs();
  faults_.checkpoint();
  shape_arithmetic_.bind(bindings_of(options_, *graph_));
  add_weights(graph, top_);
  faults_.checkpoint();
  import_nodes(graph.node(), top_);
  report_missing_ops();
  check_declared_types(graph, top_);
  warn_of_converted_weights();
  add_outputs();
  faults_.checkpoint();
  graph_->remove_unused_weights();
  return std::move(graph_);
}

void Importer::import_nodes(const Nodes& nodes, Body& body) {
  std::vector<const pb::NodeProto*> ordered;
  if (!faults_.attempt([&] { ordered = order_nodes(nodes); }, [&] { return faults_.file(); })) return;
  for (const pb::NodeProto* node : ordered) {
    const auto import = [&] {
      for (const std::string& input : node->input()) {
        if (body.names.is_faulty(input)) throw Poisoned();
      }
      import_node(*node, body);
    };
    if (faults_.attempt(import, [&] { return where(body, *node); }, [&] { return snippet(body, *node); })) continue;
    for (const std::string& output : node->output()) body.names.set_faulty(output);
  }
}

void Importer::import_node(const pb::NodeProto& node, Body& body) {
  if (const pb::FunctionProto* function = functions_.find(node)) {
    call_function(*function, node, body);
    return;
  }
  const std::string domain = domain_of(node.domain());
  const Handler* handler = find_handler(domain, node.op_type());
  const auto opset = body.opsets.find(domain);
  // Only subgraphs come here unchecked: a branch that is not taken may hold anything.
  if (handler == nullptr || opset == body.opsets.end()) {
    add_missing_op(node, body);
    throw Poisoned();
  }
  const int first_new = graph_->num_values();
  Builder builder(*graph_, graph_->body, {faults_.file(), body.prefix + name_of_node(node), ""});
  NodeContext context(*this, body, node, opset->second, builder);
  check_narrow_operands(context, domain);
  convert_weights(context, builder, domain);
  handler->import(context);
  context.check_all_attributes_read();
  name_results(context, node, domain, first_new);
}

/// On the dtype that carries a narrow type an op that does not know of it would compute something else.
void Importer::check_narrow_operands(const NodeContext& context, std::string_view domain) const {
  if (narrow_.empty() || takes_narrow_types(domain, context.op_type())) return;
  for (const Value* operand : context.inputs_) {
    if (const NarrowType* type = operand == nullptr ? nullptr : narrow(operand)) {
      throw RuleError{"unsupported-dtype", "operand `" + operand->name + "` of " + context.op_type() + " is " + std::string(type->name) +
                                               ", only ops that convert or move it can have it"};
    }
  }
}

void Importer::name_results(NodeContext& context, const pb::NodeProto& node, std::string_view domain, int first_new) {
  const bool moves = moves_narrow_types(domain, node.op_type());
  for (int i = 0; i < context.num_outputs(); ++i) {
    const std::string& name = node.output(i);
    if (name.empty()) continue;
    Value* value = context.results_[static_cast<size_t>(i)];
    if (value == nullptr) throw RuleError{"unsupported-op", "result " + std::to_string(i) + " of " + node.op_type() + " (`" + name + "`)"};
    if (moves && context.has(0) && !context.is_list(0)) set_narrow(value, context.element(0).narrow);
    give_name(*graph_, value, name, first_new);
    context.body_.names.set(name, value);
  }
}

const NarrowType* Importer::narrow(const Value* value) const {
  const auto found = narrow_.find(value);
  return found == narrow_.end() ? nullptr : found->second;
}

void Importer::set_narrow(const Value* value, const NarrowType* type) {
  if (type != nullptr) narrow_[value] = type;
}

Value* Importer::make_sequence(std::vector<Value*> elements, DType dtype) {
  Value* stand_in = graph_->make_value(Value::Kind::result, Type::unranked(dtype), "sequence");
  sequences_.emplace(stand_in, std::move(elements));
  return stand_in;
}

Value* Importer::nothing() {
  if (nothing_ == nullptr) nothing_ = graph_->make_value(Value::Kind::result, Type::unranked(DType::boolean), "nothing");
  return nothing_;
}

const std::vector<Value*>* Importer::sequence(const Value* value) const {
  const auto found = sequences_.find(value);
  return found == sequences_.end() ? nullptr : &found->second;
}

std::string Importer::where(const Body& body, const pb::NodeProto& node) const { return faults_.where(body.prefix + name_of_node(node)); }

/// The node as the model has it, with the types that are known: `%y = Add(%a: f32[2], %b: i64[2])`.
std::string Importer::snippet(const Body& body, const pb::NodeProto& node) const {
  std::string text;
  for (const std::string& output : node.output()) {
    if (!output.empty()) text += (text.empty() ? "%" : ", %") + output;
  }
  text += " = " + node.op_type() + "(";
  for (int i = 0; i < node.input_size(); ++i) {
    if (i > 0) text += ", ";
    if (node.input(i).empty()) {
      text += "none";
      continue;
    }
    const Value* value = body.find(node.input(i));
    text += (value != nullptr && value->weight != nullptr ? "@" : "%") + node.input(i);
    if (value != nullptr) text += ": " + to_string(value->type);
  }
  return printable(text + ")");
}

void Importer::warn(const Body& body, const pb::NodeProto& node, const std::string& message) {
  diagnostics_.warning("ignored", where(body, node), message);
}

std::unique_ptr<Graph> import(const ModelFile& file, const ImportOptions& options, Diagnostics& diagnostics) {
  return Importer(file, parse_model(file), options, diagnostics).run();
}

}  // namespace tcc::onnx
