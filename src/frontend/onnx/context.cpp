// Operands, results and attributes of the node being imported.
#include "frontend/onnx/context.h"

#include <algorithm>

#include "frontend/base/control_flow.h"
#include "frontend/onnx/importer.h"
#include "frontend/onnx/order.h"
#include "tcc/graph/rule_error.h"

namespace tcc::onnx {
namespace {

std::string kind_name(int type) {
  switch (type) {
    case pb::AttributeProto::FLOAT: return "a float";
    case pb::AttributeProto::INT: return "an integer";
    case pb::AttributeProto::STRING: return "a string";
    case pb::AttributeProto::TENSOR: return "a tensor";
    case pb::AttributeProto::GRAPH: return "a graph";
    case pb::AttributeProto::FLOATS: return "a list of floats";
    case pb::AttributeProto::INTS: return "a list of integers";
    case pb::AttributeProto::STRINGS: return "a list of strings";
    case pb::AttributeProto::SPARSE_TENSOR: return "a sparse tensor";
    default: return "of another kind";
  }
}

[[noreturn]] void missing(std::string_view name) { throw RuleError{"malformed-file", "attribute `" + std::string(name) + "` is missing"}; }

}  // namespace

NodeContext::NodeContext(Importer& importer, Body& body, const pb::NodeProto& proto, int64_t opset, Builder& builder)
    : importer_(importer), body_(body), proto_(proto), opset_(opset), builder_(builder) {
  for (const std::string& name : proto.input()) {
    if (name.empty()) {
      inputs_.push_back(nullptr);
      continue;
    }
    Value* value = body.find(name);
    if (value == nullptr) throw RuleError{"malformed-file", "operand `" + name + "` is made by no node, input or initializer"};
    inputs_.push_back(value);
  }
  while (!inputs_.empty() && inputs_.back() == nullptr) inputs_.pop_back();
  outputs_.assign(proto.output().begin(), proto.output().end());
  while (!outputs_.empty() && outputs_.back().empty()) outputs_.pop_back();
  results_.resize(outputs_.size());
}

Value* NodeContext::in(int i) const {
  tensor_or_sequence(i);
  if (is_nothing(i)) throw RuleError{"type-error", "operand `" + proto_.input(i) + "` is an empty optional, a tensor was expected"};
  if (is_list(i)) throw RuleError{"type-error", "operand `" + proto_.input(i) + "` is a sequence, a tensor was expected"};
  return inputs_[static_cast<size_t>(i)];
}

Value* NodeContext::tensor_or_sequence(int i) const {
  if (!has(i)) throw RuleError{"malformed-file", "operand " + std::to_string(i) + " is missing"};
  return inputs_[static_cast<size_t>(i)];
}

ElementType NodeContext::element(int i) const { return {dtype(i), importer_.narrow(in(i))}; }

std::vector<Value*> NodeContext::all_inputs() const {
  if (inputs_.empty()) throw RuleError{"malformed-file", "operand 0 is missing"};
  for (int i = 0; i < num_inputs(); ++i) in(i);
  return inputs_;
}

std::optional<Tensor> NodeContext::constant(int i) const { return has(i) ? importer_.shape_arithmetic().value_of(in(i)) : std::nullopt; }

Tensor NodeContext::require_constant(int i, std::string_view what) const {
  in(i);
  if (auto value = constant(i)) return *value;
  throw RuleError{"unknown-value", "`" + std::string(what) + "` (operand `" + proto_.input(i) + "`) is not known at compile time"};
}

Type NodeContext::type_of(const Value* value) const { return importer_.shape_arithmetic().type_of(value); }

int64_t NodeContext::rank(int i) const {
  const Type type = type_of(in(i));
  if (!type.ranked) throw RuleError{"unknown-value", "the rank of operand `" + proto_.input(i) + "` is not known while importing"};
  return type.rank();
}

void NodeContext::result(Op op, std::vector<Value*> operands, Attrs attrs, int num_results) {
  while (!operands.empty() && operands.back() == nullptr) operands.pop_back();
  builder_.set_name_hint(outputs_.empty() ? "" : outputs_[0]);
  Node* node = builder_.emit_node(op, std::move(operands), std::move(attrs), num_results);
  builder_.set_name_hint("");
  for (size_t i = 0; i < node->results.size() && i < outputs_.size(); ++i) set(static_cast<int>(i), node->results[i]);
}

void NodeContext::set(int i, Value* value) {
  if (i < num_outputs()) results_[static_cast<size_t>(i)] = value;
}

void NodeContext::set_weight(int i, Tensor tensor) {
  set(i, importer_.graph().add_weight(i < num_outputs() ? outputs_[static_cast<size_t>(i)] : builder_.loc().node.str(), std::move(tensor),
                                      /*from_model=*/false));
}

void NodeContext::set_narrow(int i, const NarrowType* type) {
  if (wants(i)) importer_.set_narrow(made(i), type);
}

const pb::AttributeProto* NodeContext::find(std::string_view name, int type) {
  read_.insert(std::string(name));
  for (const auto& own : proto_.attribute()) {
    if (own.name() != name) continue;
    const pb::AttributeProto* attribute = &own;
    if (!own.ref_attr_name().empty()) {  // inside a function body: the attribute of the call, or its default; else absent
      const auto found = body_.attributes.find(own.ref_attr_name());
      if (found == body_.attributes.end()) return nullptr;
      attribute = found->second;
    }
    if (type == 0) return attribute;
    // Files older than IR version 2 don't write the kind.
    const bool fits = attribute->type() == type || attribute->type() == pb::AttributeProto::UNDEFINED;
    if (!fits) {
      throw RuleError{"malformed-file", "attribute `" + std::string(name) + "` is " + kind_name(attribute->type()) + ", " +
                                            kind_name(type) + " was expected"};
    }
    return attribute;
  }
  return nullptr;
}

bool NodeContext::has_attribute(std::string_view name) { return find(name, 0) != nullptr; }

int64_t NodeContext::integer(std::string_view name, int64_t otherwise) {
  const auto* attribute = find(name, pb::AttributeProto::INT);
  return attribute == nullptr ? otherwise : attribute->i();
}

int64_t NodeContext::integer(std::string_view name) {
  if (!has_attribute(name)) missing(name);
  return integer(name, 0);
}

int64_t NodeContext::from_front(int64_t axis) const {
  const Type& type = in(0)->type;
  if (!type.ranked || axis >= 0) return axis;
  if (axis < -type.rank()) throw RuleError{"type-error", "`axis` is " + std::to_string(axis) + ", rank is " + std::to_string(type.rank())};
  return axis + type.rank();
}

bool NodeContext::flag(std::string_view name, bool otherwise) { return integer(name, otherwise ? 1 : 0) != 0; }

double NodeContext::number(std::string_view name, double otherwise) {
  const auto* attribute = find(name, pb::AttributeProto::FLOAT);
  return attribute == nullptr ? otherwise : static_cast<double>(attribute->f());
}

std::string NodeContext::text(std::string_view name, std::string_view otherwise) {
  const auto* attribute = find(name, pb::AttributeProto::STRING);
  return attribute == nullptr ? std::string(otherwise) : attribute->s();
}

std::string NodeContext::text(std::string_view name) {
  if (!has_attribute(name)) missing(name);
  return text(name, "");
}

std::vector<int64_t> NodeContext::integers(std::string_view name) {
  const auto* attribute = find(name, pb::AttributeProto::INTS);
  return attribute == nullptr ? std::vector<int64_t>() : std::vector<int64_t>(attribute->ints().begin(), attribute->ints().end());
}

std::vector<double> NodeContext::numbers(std::string_view name) {
  const auto* attribute = find(name, pb::AttributeProto::FLOATS);
  return attribute == nullptr ? std::vector<double>() : std::vector<double>(attribute->floats().begin(), attribute->floats().end());
}

std::vector<std::string> NodeContext::texts(std::string_view name) {
  const auto* attribute = find(name, pb::AttributeProto::STRINGS);
  return attribute == nullptr ? std::vector<std::string>()
                              : std::vector<std::string>(attribute->strings().begin(), attribute->strings().end());
}

std::optional<Tensor> NodeContext::tensor(std::string_view name) {
  if (const auto* attribute = find(name, 0); attribute != nullptr && attribute->type() == pb::AttributeProto::SPARSE_TENSOR) {
    return tensor_of(attribute->sparse_tensor(), importer_.source());
  }
  const auto* attribute = find(name, pb::AttributeProto::TENSOR);
  if (attribute == nullptr) return std::nullopt;
  return tensor_of(attribute->t(), importer_.source());
}

DType NodeContext::dtype_attribute(std::string_view name, std::optional<DType> otherwise) {
  if (!has_attribute(name)) {
    if (!otherwise) missing(name);
    return *otherwise;
  }
  const ElementType type = element_attribute(name);
  if (type.narrow != nullptr)
    throw RuleError{"unsupported-dtype",
                    "`" + std::string(name) + "` is " + std::string(type.narrow->name) + ", which " + op_type() + " does not make"};
  return type.dtype;
}

ElementType NodeContext::element_attribute(std::string_view name) {
  const int64_t number = integer(name);
  return element_type_of(number < 0 || number > INT32_MAX ? 0 : static_cast<int>(number));
}

const NarrowType* NodeContext::narrow_tensor(std::string_view name) {
  const auto* attribute = find(name, 0);
  if (attribute == nullptr) return nullptr;
  return narrow_type(attribute->type() == pb::AttributeProto::SPARSE_TENSOR ? attribute->sparse_tensor().values().data_type()
                                                                            : attribute->t().data_type());
}

const pb::GraphProto& NodeContext::graph(std::string_view name) {
  const auto* attribute = find(name, pb::AttributeProto::GRAPH);
  if (attribute == nullptr) missing(name);
  return attribute->g();
}

void NodeContext::check_all_attributes_read() const {
  for (const auto& attribute : proto_.attribute()) {
    if (!read_.contains(attribute.name())) {
      throw RuleError{"unsupported-attribute",
                      "`" + attribute.name() + "` is not an attribute of " + op_type() + " in opset " + std::to_string(opset_)};
    }
  }
}

Value* NodeContext::ints(std::vector<int64_t> values, std::string_view what) {
  const std::string name = builder_.loc().node.str() + "." + std::string(what);
  return importer_.graph().add_weight(name, Tensor::from_ints(std::move(values)), false);
}

Value* NodeContext::operand_or_ints(int i, std::string_view attribute, int64_t operand_since) {
  if (opset_ >= operand_since) return maybe(i);
  return has_attribute(attribute) ? ints(integers(attribute), attribute) : nullptr;
}

Value* NodeContext::nothing() { return importer_.nothing(); }
bool NodeContext::is_nothing(int i) const { return has(i) && importer_.is_nothing(inputs_[static_cast<size_t>(i)]); }

Value* NodeContext::seed() { return importer_.random_ops().seed(); }
int64_t NodeContext::count_random_op() { return importer_.random_ops().count(); }

Value* NodeContext::named(const std::string& name, std::string_view what) const {
  Value* value = body_.find(name);
  if (value == nullptr && body_.names.is_faulty(name)) throw Poisoned();
  if (value == nullptr || importer_.sequence(value) != nullptr)
    throw RuleError{"malformed-file", std::string(what) + " is `" + name + "`, which is the name of no tensor"};
  return value;
}

bool NodeContext::is_list(int i) const { return has(i) && is_list(inputs_[static_cast<size_t>(i)]); }
bool NodeContext::is_list(const Value* value) const { return importer_.sequence(value) != nullptr; }

const std::vector<Value*>& NodeContext::sequence(int i) const {
  if (!has(i)) throw RuleError{"malformed-file", "operand " + std::to_string(i) + " is missing"};
  const auto* list = importer_.sequence(inputs_[static_cast<size_t>(i)]);
  if (list == nullptr)
    throw RuleError{"unknown-value", "the elements of the sequence `" + proto_.input(i) + "` are not known while importing"};
  return *list;
}

void NodeContext::set_sequence(int i, std::vector<Value*> elements, DType dtype) {
  set(i, importer_.make_sequence(std::move(elements), dtype));
}

std::vector<Value*> NodeContext::inline_subgraph(const pb::GraphProto& graph, const SubgraphUse& use) {
  return importer_.inline_subgraph(body_, proto_, graph, use);
}

size_t NodeContext::num_nodes() const { return importer_.graph().body.nodes.size(); }

void NodeContext::check_can_be_thrown_away(size_t first_new, const std::string& what) const {
  const Node* reader = reads_unknown_positions(importer_.graph(), first_new, importer_.shape_arithmetic());
  if (reader == nullptr) return;
  throw RuleError{"unsupported-control-flow",
                  what + ", and node `" + reader->loc.node.str() +
                      "` in it reads positions that depend on data: where it doesn't run they may be out of range"};
}

Value* NodeContext::chosen(Value* predicate, Value* a, Value* b, const std::string& what) {
  if (a == b) return a;
  const auto *first = importer_.sequence(a), *second = importer_.sequence(b);
  if (first != nullptr && second != nullptr && first->size() == second->size()) {
    std::vector<Value*> elements;
    for (size_t i = 0; i < first->size(); ++i) elements.push_back(chosen(predicate, (*first)[i], (*second)[i], what));
    return importer_.make_sequence(std::move(elements), a->type.dtype);
  }
  if (first != nullptr || second != nullptr)
    throw RuleError{"unsupported-control-flow", what + ", and a result is a sequence whose length depends on it"};
  const Type of_a = type_of(a), of_b = type_of(b);
  if (!of_a.is_static() || of_a != of_b)
    throw RuleError{"unsupported-control-flow",
                    what + ", and a result is " + to_string(of_a) + " or " + to_string(of_b) + ": one type was expected"};
  return emit(Op::select_, {predicate, a, b});
}

std::optional<Tensor> NodeContext::value_of(const Value* value) const { return importer_.shape_arithmetic().value_of(value); }

void NodeContext::warn(const std::string& message) { importer_.warn(body_, proto_, message); }

}  // namespace tcc::onnx
