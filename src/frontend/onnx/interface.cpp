// What the model declares around its nodes: operator sets, functions, inputs, initializers, outputs.
#include <unordered_set>

#include "frontend/base/control_flow.h"
#include "frontend/onnx/importer.h"
#include "tcc/graph/rule_error.h"

namespace tcc::onnx {

void Importer::read_opsets() {
  for (const auto& import : model_->opset_import()) top_.opsets[domain_of(import.domain())] = import.version();
  // Files of IR version 1 and 2 have no list; they are of opset 1.
  if (model_->opset_import_size() == 0) top_.opsets[""] = 1;
}

void Importer::read_functions() {
  for (const auto& function : model_->functions()) {
    if (functions_.add(function)) continue;
    diagnostics_.error("malformed-file", faults_.file(),
                       "function `" + function.name() + "` of domain `" + function.domain() + "` is defined twice");
  }
}

void Importer::add_inputs() {
  std::unordered_set<std::string> initialized;  // older files list initializers as inputs too: for us they are constants
  for (const auto& tensor : model_->graph().initializer()) initialized.insert(tensor.name());
  for (const auto& tensor : model_->graph().sparse_initializer()) initialized.insert(tensor.values().name());
  for (const auto& input : model_->graph().input()) {
    if (initialized.contains(input.name())) continue;
    faults_.attempt([&] { add_input(input); }, [&] { return faults_.where(input.name()); });
  }
}

void Importer::add_input(const pb::ValueInfoProto& input) {
  const std::string& name = input.name();
  if (top_.names.has_own(name)) throw RuleError{"malformed-file", "input `" + name + "` is declared twice"};
  const pb::TypeProto& type = value_type(input.type());
  const bool is_sequence = type.has_sequence_type() && type.sequence_type().elem_type().has_tensor_type();
  Value* value = is_sequence ? add_sequence(name, type.sequence_type().elem_type()) : graph_->add_input(name, type_of(type, name));
  set_narrow(value, narrow_type(type.tensor_type().elem_type()));
  top_.names.set(name, value);
}

Value* Importer::add_sequence(const std::string& name, const pb::TypeProto& element) {
  Type type = type_of(element, name);
  for (Dim& dim : type.dims) {
    if (!dim.is_constant()) dim = Dim(std::string("?"));  // one name, yet a size of each element
  }
  std::vector<Value*> elements;
  const Bindings& known = options_.known;
  for (std::string own; own = name + "." + std::to_string(elements.size()), known.shapes.contains(own) || known.inputs.contains(own);)
    elements.push_back(graph_->add_input(own, type));
  if (elements.empty()) throw RuleError{"unknown-value", "input `" + name + "` is a sequence, whose length is not known"};
  return make_sequence(std::move(elements), type.dtype);
}

/// An external file that can't be read ends the import: `add` says which tensor wanted it.
void Importer::add_weights(const pb::GraphProto& graph, Body& body) {
  const auto add = [&](const std::string& name, const auto& tensor, int type) {
    const auto make = [&] {
      if (body.names.has_own(name)) throw RuleError{"malformed-file", "initializer `" + name + "` is defined twice"};
      Value*& weight = weights_[&tensor];
      if (weight == nullptr) weight = graph_->add_weight(name, tensor_of(tensor, source_));
      set_narrow(weight, narrow_type(type));
      body.names.set(name, weight);
    };
    try {
      if (!faults_.attempt(make, [&] { return faults_.where(name); })) body.names.set_faulty(name);
    } catch (const Error& error) {
      if (error.code() != ExitCode::environment) throw;
      std::vector<Diagnostic> all = error.diagnostics();
      all.push_back({Diagnostic::Severity::note, "", faults_.where(name), "the bytes of this tensor are expected there", ""});
      all.push_back(
          {Diagnostic::Severity::help, "", faults_.where(name), "keep the files that were exported with the model beside it", ""});
      throw Error(ExitCode::environment, std::move(all));
    }
  };
  for (const auto& tensor : graph.initializer()) add(tensor.name(), tensor, tensor.data_type());
  for (const auto& tensor : graph.sparse_initializer()) add(tensor.values().name(), tensor, tensor.values().data_type());
}

void Importer::add_outputs() {
  std::unordered_set<std::string> declared_before;
  for (const auto& output : model_->graph().output()) {
    const auto add = [&] {
      if (!declared_before.insert(output.name()).second)
        throw RuleError{"malformed-file", "output `" + output.name() + "` is declared twice"};
      add_output(output);
    };
    faults_.attempt(add, [&] { return faults_.where(output.name()); });
  }
  if (model_->graph().output_size() == 0) diagnostics_.error("malformed-file", faults_.file(), "the graph has no outputs");
}

void Importer::add_output(const pb::ValueInfoProto& output) {
  Value* value = top_.find(output.name());
  if (value == nullptr) throw RuleError{"malformed-file", "output `" + output.name() + "` is made by no node, input or initializer"};
  if (is_nothing(value)) throw RuleError{"unsupported-dtype", "output `" + output.name() + "` is an empty optional, a tensor was expected"};
  if (const auto* elements = sequence(value)) {
    for (size_t i = 0; i < elements->size(); ++i) graph_->add_output((*elements)[i], output.name() + "." + std::to_string(i));
    return;
  }
  const pb::TypeProto& type = value_type(output.type());
  if (type.has_sequence_type() && value->producer != nullptr)
    throw RuleError{"unknown-value", "output `" + output.name() + "` is a sequence whose elements are not known, they depend on " +
                                         inputs_behind(value->producer->operands.back())};
  if (type.value_case() != pb::TypeProto::VALUE_NOT_SET) {
    const Type declared = type_of(type, output.name());
    if (const NarrowType *found = narrow(value), *expected = narrow_type(type.tensor_type().elem_type()); found != expected) {
      throw RuleError{"type-error", "output `" + output.name() + "` is " +
                                        (found != nullptr ? std::string(found->name) : to_string(value->type)) + ", declared is " +
                                        (expected != nullptr ? std::string(expected->name) : to_string(declared))};
    }
    if (declared.dtype != value->type.dtype)
      throw RuleError{"type-error", "output `" + output.name() + "` is " + to_string(value->type) + ", declared is " + to_string(declared)};
  }
  graph_->add_output(value, output.name());
}

void Importer::check_declared_types(const pb::GraphProto& graph, const Body& body) {
  std::string first, where_first;
  int others = 0;
  for (const auto& info : graph.value_info()) {
    const Value* value = body.names.has_own(info.name()) ? body.find(info.name()) : nullptr;
    if (value == nullptr || !info.type().has_tensor_type()) continue;
    const NarrowType* narrow = narrow_type(info.type().tensor_type().elem_type());
    const auto declared = narrow != nullptr ? narrow->carrier : dtype_of(info.type().tensor_type().elem_type());
    if (!declared || *declared == value->type.dtype || sequence(value) != nullptr) continue;
    if (!first.empty()) {
      ++others;
      continue;
    }
    where_first =
        faults_.where(value->producer == nullptr || value->producer->loc.node.empty() ? info.name() : value->producer->loc.node.str());
    first = "`" + info.name() + "` is " + std::string(name_of(value->type.dtype)) + ", the model declares it as " +
            std::string(name_of(*declared));
  }
  if (first.empty()) return;
  if (others > 0) first += ", and " + std::to_string(others) + " more value" + (others == 1 ? "" : "s") + " otherwise than they are";
  diagnostics_.warning("ignored", where_first, first + ": what the nodes make is taken");
}

}  // namespace tcc::onnx
