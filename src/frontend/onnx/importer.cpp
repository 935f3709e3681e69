// ONNX model -> graph.
//
// One walk over the nodes, producers first. Model-local functions and branches with a known condition are inlined as they are met. A node
// with a fault is reported and poisons its results, so that one walk reports every independent fault; unknown ops are looked for in a walk
// of their own before, because a list of those is the first thing that a user wants of a new model.
#include "frontend/onnx/importer.h"

#include <algorithm>
#include <cctype>
#include <functional>

#include "frontend/onnx/cone.h"
#include "frontend/onnx/inlining.h"
#include "frontend/onnx/order.h"
#include "frontend/onnx/parse.h"
#include "tcc/frontend/import.h"
#include "tcc/support/printable.h"

namespace tcc::onnx {
namespace {

/// Whether opsets 1 to 5 have the op in the form that opset 6 has: a model of those alone is read, too.
bool is_same_since_opset_1(const std::string& op) {
  static const std::set<std::string, std::less<>> ops = {"And",
                                                         "ArgMax",
                                                         "ArgMin",
                                                         "AveragePool",
                                                         "Constant",
                                                         "Conv",
                                                         "ConvTranspose",
                                                         "DepthToSpace",
                                                         "Equal",
                                                         "Flatten",
                                                         "Gather",
                                                         "GlobalAveragePool",
                                                         "GlobalMaxPool",
                                                         "Greater",
                                                         "Identity",
                                                         "LRN",
                                                         "Less",
                                                         "LogSoftmax",
                                                         "MatMul",
                                                         "MaxPool",
                                                         "Not",
                                                         "Or",
                                                         "Pow",
                                                         "ReduceL1",
                                                         "ReduceL2",
                                                         "ReduceLogSum",
                                                         "ReduceLogSumExp",
                                                         "ReduceMax",
                                                         "ReduceMean",
                                                         "ReduceMin",
                                                         "ReduceProd",
                                                         "ReduceSum",
                                                         "ReduceSumSquare",
                                                         "Shape",
                                                         "Size",
                                                         "Slice",
                                                         "Softmax",
                                                         "Softplus",
                                                         "Softsign",
                                                         "SpaceToDepth",
                                                         "Squeeze",
                                                         "Transpose",
                                                         "Unsqueeze",
                                                         "Xor"};
  return ops.contains(op);
}

/// The default domain has two spellings.
std::string domain_of(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }
std::string domain_text(const std::string& domain) { return domain.empty() ? "ai.onnx" : domain; }

std::string function_key(const std::string& domain, const std::string& name, const std::string& overload) {
  return domain_of(domain) + "\n" + name + "\n" + overload;
}

/// Whether a message names two element types.
bool is_about_dtypes(const std::string& message) {
  std::set<DType> named;
  std::string word;
  for (const char c : message + " ") {
    if (std::isalnum(static_cast<unsigned char>(c))) {
      word += c;
      continue;
    }
    if (const auto dtype = parse_dtype(word)) named.insert(*dtype);
    word.clear();
  }
  return named.size() > 1;
}

/// What a user can do about a fault of this kind; empty when the message says it.
std::string help_for(const std::string& kind, const std::string& message) {
  if (kind == "type-error" && is_about_dtypes(message))
    return "ONNX converts nothing by itself: add a Cast where the types differ, or export the model anew";
  if (kind == "unknown-value") return "give the input behind it a value with --bind=NAME=VALUE, or export the model with it as a constant";
  if (kind == "unsupported-control-flow")
    return "compute both sides and choose between them with torch.where, or fix the condition with --bind=NAME=VALUE";
  if (kind == "unsupported-attribute") return "export the model without the attribute, or with a value that the message names";
  if (kind == "cyclic-graph") return "no order of these nodes exists: export the model anew";
  return "";
}

}  // namespace

Value* Scope::find(const std::string& name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
    if (const auto found = scope->values.find(name); found != scope->values.end()) return found->second;
  }
  return nullptr;
}

bool Scope::is_faulty(const std::string& name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
    if (scope->faulty.contains(name)) return true;
  }
  return false;
}

Importer::Importer(const ModelFile& file, std::shared_ptr<const pb::ModelProto> model, const ImportOptions& options,
                   Diagnostics& diagnostics)
    : file_(file),
      model_(std::move(model)),
      options_(options),
      known_(options.known),
      diagnostics_(diagnostics),
      graph_(std::make_unique<Graph>(model_->graph().name().empty() ? "model" : model_->graph().name())),
      random_ops_(*graph_) {
  graph_->file = file_.name;
  source_ = {std::make_shared<ExternalFiles>(file.folders, options.files_read), model_};
}

std::unique_ptr<Graph> Importer::run() {
  const pb::GraphProto& graph = model_->graph();
  if (model_->training_info_size() > 0) diagnostics_.warning("ignored", file_.name, "the training information of the model is ignored");
  read_opsets();
  read_functions();
  try {
    check_inlining(graph, [this](const pb::NodeProto& node) { return find_function(node); });
  } catch (const RuleError& error) { report(error, file_.name, ""); }
  diagnostics_.checkpoint(ExitCode::model);
  std::set<const pb::FunctionProto*> seen;
  check_ops(graph.node(), top_, seen);
  missing_ops_.report(diagnostics_, options_.report_every_node);
  diagnostics_.checkpoint(ExitCode::model);

  add_inputs();
  diagnostics_.checkpoint(ExitCode::model);
  if (options_.bindings) known_ = options_.bindings(*graph_);
  add_weights(graph, top_);
  diagnostics_.checkpoint(ExitCode::model);
  import_nodes(graph.node(), top_);
  missing_ops_.report(diagnostics_, options_.report_every_node);
  diagnostics_.checkpoint(ExitCode::model);
  check_declared_types(graph, top_);
  add_outputs();
  diagnostics_.checkpoint(ExitCode::model);
  graph_->remove_unused_weights();
  return std::move(graph_);
}

void Importer::read_opsets() {
  for (const auto& import : model_->opset_import()) top_.opsets[domain_of(import.domain())] = import.version();
  // Files of IR version 1 and 2 have no list; they are of opset 1.
  if (model_->opset_import_size() == 0) top_.opsets[""] = 1;
}

void Importer::read_functions() {
  for (const auto& function : model_->functions()) {
    const std::string key = function_key(function.domain(), function.name(), function.overload());
    if (!functions_.emplace(key, &function).second) {
      diagnostics_.error("malformed-file", file_.name,
                         "function `" + function.name() + "` of domain `" + function.domain() + "` is defined twice");
    }
  }
}

const pb::FunctionProto* Importer::find_function(const pb::NodeProto& node) const {
  const auto found = functions_.find(function_key(node.domain(), node.op_type(), node.overload()));
  return found == functions_.end() ? nullptr : found->second;
}

void Importer::check_ops(const Nodes& nodes, const Scope& scope, std::set<const pb::FunctionProto*>& seen) {
  for (const auto& node : nodes) {
    const std::string domain = domain_of(node.domain());
    if (const pb::FunctionProto* function = find_function(node)) {
      if (!seen.insert(function).second) continue;
      Scope inner;
      inner.opsets = scope.opsets;
      for (const auto& import : function->opset_import()) inner.opsets[domain_of(import.domain())] = import.version();
      inner.prefix = scope.prefix + name_of_node(node) + "/";
      check_ops(function->node(), inner, seen);
      continue;
    }
    const auto opset = scope.opsets.find(domain);
    const std::string version = opset == scope.opsets.end() ? "none imported" : std::to_string(opset->second);
    if (find_handler(domain, node.op_type()) == nullptr) {
      missing_ops_.add(domain, node.op_type(), version, where(scope, node), scope.prefix + name_of_node(node));
    } else if (opset == scope.opsets.end()) {
      diagnostics_.error("malformed-file", where(scope, node),
                         "op `" + node.op_type() + "` is of domain `" + domain_text(domain) + "`, which the model does not import");
    } else if (domain.empty() &&
               ((opset->second < kOldestOpset && !is_same_since_opset_1(node.op_type())) || opset->second > kNewestOpset)) {
      // One message for all: the version is a property of the model.
      diagnostics_.not_supported(
          "unsupported-opset", file_.name,
          "the model is of opset " + version + ", " + std::to_string(kOldestOpset) + " to " + std::to_string(kNewestOpset) + " are read");
      diagnostics_.help(file_.name, "export the model with an opset in that range, or convert it with onnx.version_converter");
      return;
    }
  }
}

void Importer::add_inputs() {
  std::unordered_set<std::string> initialized;  // older files list initializers as inputs too: for us they are constants
  for (const auto& tensor : model_->graph().initializer()) initialized.insert(tensor.name());
  for (const auto& tensor : model_->graph().sparse_initializer()) initialized.insert(tensor.values().name());
  for (const auto& input : model_->graph().input()) {
    if (initialized.contains(input.name())) continue;
    try {
      if (top_.values.contains(input.name())) throw RuleError{"malformed-file", "input `" + input.name() + "` is declared twice"};
      top_.values[input.name()] = graph_->add_input(input.name(), type_of(input.type(), input.name()));
    } catch (const RuleError& error) { report(error, file_.name + ":" + input.name(), ""); }
  }
}

void Importer::add_weights(const pb::GraphProto& graph, Scope& scope) {
  auto add = [&](const std::string& name, const std::function<Tensor()>& make) {
    try {
      if (scope.values.contains(name)) throw RuleError{"malformed-file", "initializer `" + name + "` is defined twice"};
      scope.values[name] = graph_->add_weight(name, make());
    } catch (const RuleError& error) {
      scope.faulty.insert(name);
      report(error, file_.name + ":" + name, "");
    } catch (const Error& error) {
      if (error.code() != ExitCode::environment) throw;
      std::vector<Diagnostic> all = error.diagnostics();
      all.push_back({Diagnostic::Severity::note, "", file_.name + ":" + name, "the bytes of this tensor are expected there", ""});
      all.push_back(
          {Diagnostic::Severity::help, "", file_.name + ":" + name, "keep the files that were exported with the model beside it", ""});
      throw Error(ExitCode::environment, std::move(all));
    }
  };
  for (const auto& tensor : graph.initializer()) add(tensor.name(), [&] { return tensor_of(tensor, source_); });
  for (const auto& tensor : graph.sparse_initializer()) add(tensor.values().name(), [&] { return tensor_of(tensor, source_); });
}

void Importer::add_outputs() {
  std::unordered_set<std::string> declared_before;
  for (const auto& output : model_->graph().output()) {
    const std::string place = file_.name + ":" + output.name();
    if (!declared_before.insert(output.name()).second) {
      diagnostics_.error("malformed-file", place, "output `" + output.name() + "` is declared twice");
      continue;
    }
    Value* value = top_.find(output.name());
    if (value == nullptr) {
      diagnostics_.error("malformed-file", place, "output `" + output.name() + "` is made by no node, input or initializer");
      continue;
    }
    try {
      if (sequence(value) != nullptr)
        throw RuleError{"unsupported-dtype", "output `" + output.name() + "` is a sequence, a tensor was expected"};
      if (output.has_type() && output.type().value_case() != pb::TypeProto::VALUE_NOT_SET) {
        const Type declared = type_of(output.type(), output.name());
        if (declared.dtype != value->type.dtype) {
          throw RuleError{"type-error",
                          "output `" + output.name() + "` is " + to_string(value->type) + ", declared is " + to_string(declared)};
        }
      }
      graph_->add_output(value, output.name());
    } catch (const RuleError& error) { report(error, place, ""); }
  }
  if (model_->graph().output_size() == 0) diagnostics_.error("malformed-file", file_.name, "the graph has no outputs");
}

void Importer::check_declared_types(const pb::GraphProto& graph, const Scope& scope) {
  std::string first, where_first;
  int others = 0;
  for (const auto& info : graph.value_info()) {
    const auto found = scope.values.find(info.name());
    if (found == scope.values.end() || !info.type().has_tensor_type()) continue;
    const Value* value = found->second;
    const auto declared = dtype_of(info.type().tensor_type().elem_type());
    if (!declared || *declared == value->type.dtype || sequence(value) != nullptr) continue;
    if (!first.empty()) {
      ++others;
      continue;
    }
    where_first =
        file_.name + ":" + (value->producer == nullptr || value->producer->loc.node.empty() ? info.name() : value->producer->loc.node);
    first = "`" + info.name() + "` is " + std::string(name_of(value->type.dtype)) + ", the model declares it as " +
            std::string(name_of(*declared));
  }
  if (first.empty()) return;
  if (others > 0) first += ", and " + std::to_string(others) + " more value" + (others == 1 ? "" : "s") + " otherwise than they are";
  diagnostics_.warning("ignored", where_first, first + ": what the nodes make is taken");
}

void Importer::import_nodes(const Nodes& nodes, Scope& scope) {
  std::vector<const pb::NodeProto*> ordered;
  try {
    ordered = order_nodes(nodes);
  } catch (const RuleError& error) {
    report(error, file_.name, "");
    return;
  }
  for (const pb::NodeProto* node : ordered) {
    bool faulty = false;
    for (const std::string& input : node->input()) faulty = faulty || scope.is_faulty(input);
    if (!faulty) {
      try {
        import_node(*node, scope);
      } catch (const Poisoned&) { faulty = true; } catch (const RuleError& error) {
        report(error, where(scope, *node), snippet(scope, *node));
        faulty = true;
      }
    }
    if (faulty) scope.faulty.insert(node->output().begin(), node->output().end());
  }
}

void Importer::import_node(const pb::NodeProto& node, Scope& scope) {
  if (const pb::FunctionProto* function = find_function(node)) {
    call_function(*function, node, scope);
    return;
  }
  const std::string domain = domain_of(node.domain());
  const Handler* handler = find_handler(domain, node.op_type());
  const auto opset = scope.opsets.find(domain);
  // Only subgraphs come here unchecked: a branch that is not taken may hold anything.
  if (handler == nullptr || opset == scope.opsets.end()) {
    const std::string version = opset == scope.opsets.end() ? "none imported" : std::to_string(opset->second);
    missing_ops_.add(domain, node.op_type(), version, where(scope, node), scope.prefix + name_of_node(node));
    throw Poisoned();
  }
  const int first_new = graph_->num_values();
  Builder builder(*graph_, graph_->body, {file_.name, scope.prefix + name_of_node(node), ""});
  NodeContext context(*this, scope, node, opset->second, builder);
  handler->import(context);
  context.check_all_attributes_read();
  for (int i = 0; i < context.num_outputs(); ++i) {
    const std::string& name = node.output(i);
    if (name.empty()) continue;
    Value* value = context.results_[static_cast<size_t>(i)];
    if (value == nullptr) throw RuleError{"unsupported-op", "result " + std::to_string(i) + " of " + node.op_type() + " (`" + name + "`)"};
    give_name(value, name, first_new);
    scope.values[name] = value;
  }
}

void Importer::give_name(Value* value, const std::string& name, int first_new) {
  if (value->kind == Value::Kind::result && value->id >= first_new && value->name != name) graph_->rename(value, name);
}

void Importer::call_function(const pb::FunctionProto& function, const pb::NodeProto& node, Scope& scope) {
  if (std::find(active_.begin(), active_.end(), &function) != active_.end()) {
    throw RuleError{"malformed-file", "function `" + function.name() + "` calls itself"};
  }
  if (node.input_size() > function.input_size()) {
    throw RuleError{"malformed-file", "function `" + function.name() + "` is called with " + std::to_string(node.input_size()) +
                                          " operands, it has " + std::to_string(function.input_size())};
  }
  Scope inner;
  inner.prefix = scope.prefix + name_of_node(node) + "/";
  inner.opsets = scope.opsets;
  for (const auto& import : function.opset_import()) inner.opsets[domain_of(import.domain())] = import.version();
  for (const auto& attribute : function.attribute_proto()) inner.attributes[attribute.name()] = &attribute;  // defaults
  for (const auto& attribute : node.attribute()) {
    const pb::AttributeProto* value = &attribute;
    if (!attribute.ref_attr_name().empty()) {
      const auto found = scope.attributes.find(attribute.ref_attr_name());
      if (found == scope.attributes.end()) continue;
      value = found->second;
    }
    inner.attributes[attribute.name()] = value;
  }
  for (int i = 0; i < function.input_size(); ++i) {
    if (i >= node.input_size() || node.input(i).empty()) continue;  // what reads it sees an absent operand
    Value* value = scope.find(node.input(i));
    if (value == nullptr) throw RuleError{"malformed-file", "operand `" + node.input(i) + "` is made by no node, input or initializer"};
    inner.values[function.input(i)] = value;
  }
  // A formal input that was not passed is an absent operand inside: its name is taken out of the nodes that read it.
  std::set<std::string> absent;
  for (int i = 0; i < function.input_size(); ++i) {
    if (!inner.values.contains(function.input(i))) absent.insert(function.input(i));
  }
  // Counted beforehand (inlining.h) but where functions call each other in a circle.
  num_inlined_nodes_ += function.node_size();
  if (num_inlined_nodes_ > 2 * kMaxInlinedNodes) throw RuleError{"too-complex", "functions that call each other make too many nodes"};
  const int first_new = graph_->num_values();
  active_.push_back(&function);
  if (absent.empty()) {
    import_nodes(function.node(), inner);
  } else {
    Nodes nodes = function.node();
    for (auto& body : nodes) {
      for (auto& input : *body.mutable_input()) {
        if (absent.contains(input)) input.clear();
      }
    }
    import_nodes(nodes, inner);
  }
  active_.pop_back();
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;
    if (i >= function.output_size())
      throw RuleError{"malformed-file", "function `" + function.name() + "` has no result " + std::to_string(i)};
    Value* value = inner.find(function.output(i));
    if (value != nullptr) {
      give_name(value, node.output(i), first_new);
      scope.values[node.output(i)] = value;
    } else if (inner.is_faulty(function.output(i))) {
      scope.faulty.insert(node.output(i));
    } else {
      throw RuleError{"malformed-file", "result `" + function.output(i) + "` of function `" + function.name() + "` is made by no node"};
    }
  }
}

std::vector<Value*> Importer::inline_subgraph(const Scope& outer, const pb::GraphProto& graph) {
  Scope inner;
  inner.outer = &outer;
  inner.opsets = outer.opsets;
  inner.attributes = outer.attributes;
  inner.prefix = outer.prefix;
  add_weights(graph, inner);
  import_nodes(graph.node(), inner);
  std::vector<Value*> outputs = graph_outputs(graph, inner);
  check_declared_types(graph, inner);
  return outputs;
}

std::vector<Value*> Importer::graph_outputs(const pb::GraphProto& graph, const Scope& scope) {
  std::vector<Value*> values;
  for (const auto& output : graph.output()) {
    Value* value = scope.find(output.name());
    if (value == nullptr && scope.is_faulty(output.name())) throw Poisoned();
    if (value == nullptr)
      throw RuleError{"malformed-file", "output `" + output.name() + "` of a subgraph is made by no node, input or initializer"};
    values.push_back(value);
  }
  return values;
}

Value* Importer::make_sequence(std::vector<Value*> elements, DType dtype) {
  Value* stand_in = graph_->make_value(Value::Kind::result, Type::unranked(dtype), "sequence");
  sequences_.emplace(stand_in, std::move(elements));
  return stand_in;
}

const std::vector<Value*>* Importer::sequence(const Value* value) const {
  const auto found = sequences_.find(value);
  return found == sequences_.end() ? nullptr : &found->second;
}

std::optional<Tensor> Importer::evaluate(Value* value) {
  if (value->weight != nullptr) return value->weight->tensor;
  if (const auto known = known_.inputs.find(value->name); value->kind == Value::Kind::input && known != known_.inputs.end()) {
    return known->second;
  }
  if (value->kind != Value::Kind::result) return std::nullopt;
  // Everything the value depends on, in a graph of its own, with what is known bound; then the pass that folds such things does its work.
  // Inputs that it doesn't depend on are not in it: they need no sizes.
  std::unique_ptr<Graph> cone = cone_of(*graph_, value);
  Bindings known;
  for (Value* input : cone->body.args) {
    if (const auto shape = known_.shapes.find(input->name); shape != known_.shapes.end()) known.shapes.insert(*shape);
    if (const auto tensor = known_.inputs.find(input->name); tensor != known_.inputs.end()) known.inputs.insert(*tensor);
  }
  for (const auto& symbol : known_.symbols) {
    const auto has = [&](const Value* input) {
      return std::find(input->type.dims.begin(), input->type.dims.end(), Dim(symbol.first)) != input->type.dims.end();
    };
    if (std::any_of(cone->body.args.begin(), cone->body.args.end(), has)) known.symbols.insert(symbol);
  }
  try {
    Diagnostics quiet;
    bind_shapes(*cone, known);
    resolve(*cone, quiet);
    if (quiet.has_errors()) return std::nullopt;
    const Value* result = cone->body.results.at(0);
    if (result->weight != nullptr) return result->weight->tensor;
    if (result->producer != nullptr && result->producer->operands.empty())
      return evaluate_prim(*result->producer, {}, false).at(0);  // a `full`
  } catch (const Error& error) {
    if (error.code() == ExitCode::internal) throw;  // a bug of ours must not look like an unknown value
  }
  return std::nullopt;
}

std::string Importer::where(const Scope& scope, const pb::NodeProto& node) const {
  return file_.name + ":" + scope.prefix + name_of_node(node);
}

/// The node as the model has it, with the types that are known: `%y = Add(%a: f32[2], %b: i64[2])`.
std::string Importer::snippet(const Scope& scope, const pb::NodeProto& node) const {
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
    const Value* value = scope.find(node.input(i));
    text += (value != nullptr && value->weight != nullptr ? "@" : "%") + node.input(i);
    if (value != nullptr) text += ": " + to_string(value->type);
  }
  return printable(text + ")");
}

void Importer::report(const RuleError& error, const std::string& where, const std::string& snippet) {
  if (error.kind.starts_with("unsupported-")) diagnostics_.not_supported(error.kind, where, error.message, snippet);
  else diagnostics_.error(error.kind, where, error.message, snippet);
  if (const std::string help = help_for(error.kind, error.message); !help.empty()) diagnostics_.help(where, help);
}

void Importer::warn(const Scope& scope, const pb::NodeProto& node, const std::string& message) {
  diagnostics_.warning("ignored", where(scope, node), message);
}

std::unique_ptr<Graph> import(const ModelFile& file, const ImportOptions& options, Diagnostics& diagnostics) {
  return Importer(file, parse_model(file), options, diagnostics).run();
}

}  // namespace tcc::onnx
