// Arguments and results of the operator being imported.
#include "frontend/fx/call.h"

#include <algorithm>
#include <set>

#include "frontend/fx/arguments.h"
#include "frontend/fx/importer.h"

namespace tcc::fx {

namespace {

bool is_setting(const Argument& argument) { return argument.as<Setting>() != nullptr; }

}  // namespace

Call::Call(Importer& importer, Builder& builder, const ProgramNode& node, const Handler& handler)
    : importer_(importer), builder_(builder), node_(node) {
  const HandlerMatch match = find_handler(node.op);
  const Signature& signature = *match.signature;
  check(&handler == match.handler, "a call is made with the handler of another operator");
  for (const Parameter& parameter : signature.parameters)
    arguments_.emplace_back(parameter.name, parameter.otherwise ? &*parameter.otherwise : nullptr);
  size_t position = 0;
  for (const NamedArgument& given : node.arguments) {
    auto found = std::find_if(arguments_.begin(), arguments_.end(), [&](const auto& entry) { return entry.first == given.name; });
    // What is written in place is `self`, also where the functional form calls it `input`.
    if (found == arguments_.end() && match.in_place && given.name == "self") found = arguments_.begin();
    if (found != arguments_.end()) {
      found->second = &given.argument;
    } else if (given.name.empty() && position < arguments_.size()) {
      arguments_[position].second = &given.argument;
    } else if (!is_setting(given.argument) && !given.argument.is_none()) {  // devices and layouts of strides mean nothing here
      refuse("unsupported-attribute", "argument `" + given.name + "` of " + node.op);
    }
    ++position;
  }
  for (const auto& [name, argument] : arguments_) {
    if (argument == nullptr) refuse("malformed-file", "argument `" + std::string(name) + "` of " + node.op + " is missing");
  }
}

const Argument& Call::argument(std::string_view name) const {
  for (const auto& [known, argument] : arguments_) {
    if (known == name) return *argument;
  }
  internal_error("a handler reads `" + std::string(name) + "`, which the signature of " + node_.op + " lacks");
}

std::optional<Type> Call::declared(size_t i) const {
  if (graph_ == nullptr || i >= node_.results.size() || node_.results[i].names.size() != 1) return std::nullopt;
  const auto meta = graph_->tensors.find(node_.results[i].names[0]);
  if (meta == graph_->tensors.end() || !meta->second.dtype) return std::nullopt;
  Shape shape;
  for (const SizeExpr& size : meta->second.sizes) {
    const auto extent = importer_.evaluate(size);
    if (!extent) return std::nullopt;
    shape.push_back(*extent);
  }
  return Type(*meta->second.dtype, shape);
}

std::optional<Call::Layout> Call::layout(std::string_view name) const {
  const auto* tensor = argument(name).as<ValueName>();
  if (graph_ == nullptr || tensor == nullptr) return std::nullopt;
  const auto meta = graph_->tensors.find(tensor->name);
  if (meta == graph_->tensors.end() || !meta->second.strides) return std::nullopt;
  const auto offset = importer_.evaluate(meta->second.storage_offset);
  if (!offset) return std::nullopt;
  Layout layout{{}, *offset};
  for (const SizeExpr& stride : *meta->second.strides) {
    const auto value = importer_.evaluate(stride);
    if (!value) return std::nullopt;
    layout.strides.push_back(*value);
  }
  return layout;
}

void Call::wrong(std::string_view name, std::string_view expected) const {
  refuse("malformed-file", "argument `" + std::string(name) + "` of " + node_.op + " is not " + std::string(expected));
}

std::optional<Number> Call::number_of(const Argument& argument) const {
  if (const auto* value = argument.as<bool>()) return *value;
  if (const auto* value = argument.as<int64_t>()) return *value;
  if (const auto* value = argument.as<double>()) return *value;
  if (const auto* expr = argument.as<SizeExpr>()) {
    if (const auto value = importer_.evaluate(*expr)) return *value;
  }
  if (const auto* name = argument.as<ValueName>()) {
    const Slot* slot = importer_.find(name->name);
    if (slot != nullptr && slot->number) return slot->number;
  }
  return std::nullopt;
}

Operand Call::operand(std::string_view name) {
  const Argument& given = argument(name);
  if (const auto number = number_of(given)) return {nullptr, *number};
  const auto* value = given.as<ValueName>();
  if (value == nullptr) wrong(name, "a tensor or number");
  const Slot* slot = importer_.find(value->name);
  if (slot == nullptr) refuse("malformed-file", "`" + value->name + "` is made by no node and is not an input");
  if (slot->tensor == nullptr) wrong(name, "a tensor or number");
  return {slot->tensor->read(builder_), false};
}

Value* Call::in(std::string_view name) {
  const Operand operand = this->operand(name);
  if (operand.is_tensor()) return operand.value;
  if (std::holds_alternative<double>(operand.number)) return constant(DType::f32, operand.number);
  return constant(std::holds_alternative<int64_t>(operand.number) ? DType::i64 : DType::boolean, operand.number);
}

Value* Call::maybe(std::string_view name) { return has(name) ? in(name) : nullptr; }

std::vector<Value*> Call::tensors(std::string_view name) {
  const auto* list = argument(name).as<std::vector<Argument>>();
  if (list == nullptr) wrong(name, "a list of tensors");
  std::vector<Value*> values;
  for (const Argument& element : *list) {
    const auto* value = element.as<ValueName>();
    if (element.is_none()) {
      values.push_back(nullptr);
      continue;
    }
    const Slot* slot = value == nullptr ? nullptr : importer_.find(value->name);
    if (slot == nullptr || slot->tensor == nullptr) wrong(name, "a list of tensors");
    values.push_back(slot->tensor->read(builder_));
  }
  return values;
}

Number Call::scalar(std::string_view name) {
  const auto number = number_of(argument(name));
  if (!number) wrong(name, "a number that is known");
  return *number;
}

int64_t Call::integer(std::string_view name) {
  const Number number = scalar(name);
  if (const auto* value = std::get_if<int64_t>(&number)) return *value;
  if (const auto* value = std::get_if<bool>(&number)) return *value ? 1 : 0;
  wrong(name, "an integer");
}

std::optional<int64_t> Call::maybe_integer(std::string_view name) { return has(name) ? std::optional(integer(name)) : std::nullopt; }
double Call::number(std::string_view name) { return to_double(scalar(name)); }
std::optional<double> Call::maybe_number(std::string_view name) { return has(name) ? std::optional(number(name)) : std::nullopt; }
double Call::number_at(std::string_view name, size_t i) {
  const auto* list = argument(name).as<std::vector<Argument>>();
  if (list == nullptr || i >= list->size()) wrong(name, "a list of numbers");
  const auto number = number_of((*list)[i]);
  if (!number) wrong(name, "a list of numbers");
  return to_double(*number);
}

bool Call::flag(std::string_view name) { return number(name) != 0; }

std::string Call::text(std::string_view name) {
  const auto* text = argument(name).as<std::string>();
  if (text == nullptr) wrong(name, "a text");
  return *text;
}

std::vector<int64_t> Call::integers(std::string_view name) {
  const Argument& given = argument(name);
  if (given.is_none()) return {};
  const auto* list = given.as<std::vector<Argument>>();
  if (list == nullptr) return {integer(name)};
  std::vector<int64_t> values;
  for (const Argument& element : *list) {
    const auto number = number_of(element);
    if (!number || std::holds_alternative<double>(*number)) wrong(name, "a list of integers");
    values.push_back(static_cast<int64_t>(std::holds_alternative<bool>(*number) ? std::get<bool>(*number) : std::get<int64_t>(*number)));
  }
  return values;
}

std::optional<DType> Call::maybe_dtype(std::string_view name) {
  const Argument& given = argument(name);
  if (given.is_none()) return std::nullopt;
  if (const auto* unknown = given.as<UnknownDType>()) refuse("unsupported-dtype", "`" + std::string(name) + "` is " + unknown->name);
  if (const auto* dtype = given.as<DType>()) return *dtype;
  wrong(name, "a dtype");
}

std::vector<int64_t> Call::per_axis(std::string_view name, size_t count) {
  std::vector<int64_t> values = integers(name);
  if (values.size() == 1) values.assign(count, values[0]);
  if (values.size() != count)
    refuse("malformed-file",
           "`" + std::string(name) + "` has " + std::to_string(values.size()) + " numbers, expected " + std::to_string(count));
  return values;
}

int64_t Call::axis_of(int64_t axis, int64_t rank) {
  const int64_t known = std::max<int64_t>(rank, 1);
  if (axis < -known || axis >= known)
    refuse("type-error", "axis " + std::to_string(axis) + " is asked for, the rank is " + std::to_string(rank));
  return axis < 0 ? axis + known : axis;
}

std::vector<int64_t> Call::axes(std::string_view name, const Value* x) {
  std::set<int64_t> axes;
  for (const int64_t axis : integers(name)) {
    const int64_t from_front = axis_of(axis, x->type.rank());
    if (from_front < x->type.rank()) axes.insert(from_front);
  }
  if (integers(name).empty()) {
    for (int64_t axis = 0; axis < x->type.rank(); ++axis) axes.insert(axis);
  }
  return {axes.begin(), axes.end()};
}

void Call::results(const std::vector<Value*>& values) {
  results_.clear();
  for (Value* value : values) results_.push_back({value});
}

void Call::view(std::string_view name, ViewStep step) { views(name, {std::move(step)}); }

void Call::views(std::string_view name, std::vector<ViewStep> steps) {
  const auto* tensor = argument(name).as<ValueName>();
  const Slot* slot = tensor == nullptr ? nullptr : importer_.find(tensor->name);
  if (slot == nullptr || slot->tensor == nullptr) wrong(name, "a tensor");
  const std::shared_ptr<Alias> base = slot->tensor;
  Value* value = base->read(builder_);
  results_.assign(1, {});
  aliases_.clear();
  for (ViewStep& step : steps) {
    results_[0].push_back(step.derive(builder_, value));
    aliases_.push_back(Alias::of_view(*base, std::move(step), results_[0].back()));
  }
}

void Call::same(std::string_view name) {
  view(name, {[](Builder&, Value* base) { return base; }, [](Builder&, Value*, Value* view) { return view; }});
}

const std::shared_ptr<Alias>& Call::update(std::string_view name, Value* value) {
  const auto* tensor = argument(name).as<ValueName>();
  const Slot* slot = tensor == nullptr ? nullptr : importer_.find(tensor->name);
  if (slot == nullptr || slot->tensor == nullptr) wrong(name, "a tensor");
  Value* old = slot->tensor->read(builder_);
  value = builder_.cast(value, old->type.dtype);
  if (value->type != old->type) value = builder_.broadcast_to(value, old->type.shape());
  slot->tensor->write(builder_, value);
  return slot->tensor;
}

void Call::write(std::string_view name, Value* value) {
  const std::shared_ptr<Alias>& written = update(name, value);
  results_.assign(1, {written->read(builder_)});
  aliases_.assign(1, written);
}

Value* Call::filler(size_t i, const Type& otherwise) {
  const Type type = declared(i).value_or(otherwise);
  return builder_.full(type.dtype, type.shape(), 0);
}

Value* Call::as_declared(size_t i, Value* value) {
  const auto type = declared(i);
  return type && is_float(type->dtype) ? builder_.cast(value, type->dtype) : value;
}

Value* Call::constant(DType dtype, const Number& number, const Shape& shape) {
  if (is_float(dtype)) return builder_.full(dtype, shape, to_double(number));
  if (dtype == DType::boolean) return builder_.full_int(dtype, shape, to_double(number) != 0 ? 1 : 0);
  if (const auto* value = std::get_if<double>(&number)) return builder_.full_int(dtype, shape, static_cast<int64_t>(*value));
  return builder_.full_int(dtype, shape, std::holds_alternative<bool>(number) ? std::get<bool>(number) : std::get<int64_t>(number));
}

void check_count(int64_t count, int64_t most, std::string_view what) {
  if (count > most)
    Call::refuse("type-error", std::to_string(count) + " " + std::string(what) + ", " + std::to_string(most) + " at most are possible");
}

Value* Call::seed() { return importer_.random_ops().seed(); }
int64_t Call::count_random_op() { return importer_.random_ops().count(); }

}  // namespace tcc::fx
