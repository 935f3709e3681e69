#include "frontend/fx/graph_ops.h"

#include <algorithm>
#include <unordered_map>

#include "frontend/fx/arguments.h"
#include "tcc/graph/rule_error.h"
#include "tcc/ops/attributes.h"
#include "tcc/rules/verify.h"

namespace tcc::fx {

namespace {

constexpr std::string_view kPrefix = "tcc.";

template <class T> std::optional<std::vector<T>> list_of(const Argument& argument) {
  const auto* list = argument.as<std::vector<Argument>>();
  if (list == nullptr) return std::nullopt;
  std::vector<T> values;
  for (const Argument& element : *list) {
    const auto number = number_in(element);
    if (!number || std::holds_alternative<bool>(*number)) return std::nullopt;
    if (std::is_same_v<T, int64_t> && !std::holds_alternative<int64_t>(*number)) return std::nullopt;
    values.push_back(std::visit([](auto value) { return static_cast<T>(value); }, *number));
  }
  return values;
}

std::optional<AttrValue> attribute(AttrKind kind, const Argument& argument, bool is_float_dtype) {
  const auto number = number_in(argument);
  const bool is_number = number && !std::holds_alternative<bool>(*number);
  switch (kind) {
    case AttrKind::boolean:
      if (const auto* value = argument.as<bool>()) return *value;
      break;
    case AttrKind::integer:
      if (const auto* value = argument.as<int64_t>()) return *value;
      break;
    case AttrKind::floating:
      if (is_number) return to_double(*number);
      break;
    case AttrKind::string:
      if (const auto* value = argument.as<std::string>()) return *value;
      break;
    case AttrKind::dtype:
      if (const auto* value = argument.as<DType>()) return *value;
      break;
    case AttrKind::ints:
      if (auto list = list_of<int64_t>(argument)) return std::move(*list);
      break;
    case AttrKind::floats:
      if (auto list = list_of<double>(argument)) return std::move(*list);
      break;
    case AttrKind::number:
      if (is_number && is_float_dtype) return to_double(*number);
      if (const auto* value = argument.as<int64_t>()) return *value;
      break;
  }
  return std::nullopt;
}

/// The types that the program declares are taken as they are, and verified afterwards.
class GraphReader {
 public:
  GraphReader(const Program& program, const std::string& file, const WeightSource& weights, Diagnostics& diagnostics)
      : program_(program), weights_(weights), faults_(diagnostics, file), graph_(std::make_unique<Graph>(program.name)) {
    graph_->file = file;
  }

  std::unique_ptr<Graph> read() {
    for (const InputSpec& input : program_.inputs) {
      faults_.attempt([&] { add_input(input); }, [&] { return faults_.where(input.name); });
    }
    faults_.checkpoint();
    for (const ProgramNode& node : program_.graph.nodes) {
      faults_.attempt([&] { add_node(node); }, [&] { return faults_.where(node.name); });
    }
    faults_.checkpoint();
    for (const OutputSpec& output : program_.outputs) {
      faults_.attempt([&] { add_output(output); }, [&] { return faults_.file(); });
    }
    faults_.checkpoint();
    for (const std::string& fault : verify(*graph_, GraphStage::imported)) faults_.diagnostics().error("type-error", faults_.file(), fault);
    faults_.checkpoint();
    return std::move(graph_);
  }

 private:
  Type type_of(const std::string& name) const {
    const TensorMeta& meta = program_.graph.tensors.at(name);
    if (!meta.dtype) throw RuleError{"unsupported-dtype", "`" + name + "` is " + meta.dtype_name};
    Type type = Type::unranked(*meta.dtype);
    if (!meta.is_ranked) return type;
    type.ranked = true;
    for (const SizeExpr& size : meta.sizes) {
      if (size.op == SizeExpr::Op::constant) {
        type.dims.emplace_back(size.value);
        continue;
      }
      const auto range = size.op == SizeExpr::Op::symbol ? program_.symbols.find(size.symbol) : program_.symbols.end();
      const bool is_bounded = range != program_.symbols.end() && range->second.high;
      type.dims.emplace_back(to_string(size), is_bounded ? *range->second.high : -1);
    }
    return type;
  }

  void add_input(const InputSpec& input) {
    const Type type = type_of(input.name);
    const std::string name = input.kind == InputSpec::Kind::seed ? "seed" : input.target.empty() ? input.name : input.target;
    const bool is_stored = input.kind != InputSpec::Kind::user && input.kind != InputSpec::Kind::seed;
    const auto tensor = is_stored ? weights_(input, program_.graph.tensors.at(input.name)) : std::nullopt;
    if (!tensor) {
      values_[input.name] = graph_->add_input(name, type);
      return;
    }
    const Type stored(tensor->dtype(), tensor->shape());
    if (stored != type) throw RuleError{"type-error", "the weight is " + to_string(stored) + ", declared is " + to_string(type)};
    Value* weight = graph_->add_weight(name, *tensor, input.kind == InputSpec::Kind::parameter);
    weight->weight->is_buffer = input.kind == InputSpec::Kind::buffer;
    values_[input.name] = weight;
  }

  void add_node(const ProgramNode& node) {
    const Op op = graph_op_of(node);
    std::vector<Value*> operands;
    for (const NamedArgument& argument : node.arguments) {
      if (!argument.name.empty()) continue;
      const auto* name = argument.argument.as<ValueName>();
      if (name == nullptr && !argument.argument.is_none()) throw RuleError{"malformed-file", "an operand is neither a value nor null"};
      operands.push_back(name == nullptr ? nullptr : value_named(name->name));
    }
    Node* made = graph_->make_node(op, std::move(operands), attributes_of(node), {},
                                   {node.origin.file.empty() ? faults_.file() : node.origin.file, node.origin.node, node.origin.phase});
    for (const Result& result : node.results) {
      if (result.is_list || result.names[0].empty()) throw RuleError{"malformed-file", "a result has no name of its own"};
      Value* value = graph_->make_value(Value::Kind::result, type_of(result.names[0]), result.names[0]);
      value->producer = made;
      value->index = static_cast<int>(made->results.size());
      made->results.push_back(value);
      values_[result.names[0]] = value;
    }
    graph_->body.nodes.push_back(made);
  }

  void add_output(const OutputSpec& output) {
    const auto* name = output.value.as<ValueName>();
    if (name == nullptr) return;
    if (output.kind == OutputSpec::Kind::user || output.kind == OutputSpec::Kind::loss) {
      graph_->add_output(value_named(name->name), output.name.empty() ? name->name : output.name);
    } else if (output.kind == OutputSpec::Kind::buffer_mutation) {
      Value *state = graph_->find_weight(output.target), *value = value_named(name->name);
      if (state == nullptr) throw RuleError{"malformed-file", "`" + output.target + "`, which an output changes, has no bytes"};
      if (state->type != value->type) {
        throw RuleError{"type-error", "`" + output.target + "` is " + to_string(state->type) + ", the program leaves " +
                                          to_string(value->type) + " in it"};
      }
      if (state->weight->is_state) throw RuleError{"malformed-file", "two outputs change `" + output.target + "`"};
      graph_->update_state(state, value);
    } else if (output.kind == OutputSpec::Kind::input_mutation) {
      const std::string new_name = "new." + output.target;
      if (std::find(graph_->output_names.begin(), graph_->output_names.end(), new_name) != graph_->output_names.end())
        throw RuleError{"malformed-file", "two outputs are named `" + new_name + "`"};
      graph_->add_output(value_named(name->name), new_name);
    } else {
      graph_->add_output(value_named(name->name), output.name.empty() ? "grad." + output.target : output.name);
    }
  }

  Value* value_named(const std::string& name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) throw Poisoned();
    return found->second;
  }

  const Program& program_;
  const WeightSource& weights_;
  Faults faults_;
  std::unique_ptr<Graph> graph_;
  std::unordered_map<std::string, Value*> values_;
};

}  // namespace

bool is_graph_op(const std::string& op) { return op.starts_with(kPrefix) && parse_op(std::string_view(op).substr(kPrefix.size())); }

Op graph_op_of(const ProgramNode& node) {
  const auto op = node.op.starts_with(kPrefix) ? parse_op(std::string_view(node.op).substr(kPrefix.size())) : std::nullopt;
  if (!op) throw RuleError{"unsupported-op", "operation `" + node.op + "`"};
  return *op;
}

Attrs attributes_of(const ProgramNode& node) {
  const Op op = graph_op_of(node);
  const Argument* dtype = nullptr;
  for (const NamedArgument& argument : node.arguments) {
    if (argument.name == "dtype") dtype = &argument.argument;
  }
  const bool is_float_dtype = dtype != nullptr && dtype->as<DType>() != nullptr && is_float(*dtype->as<DType>());
  Attrs attrs;
  for (const NamedArgument& argument : node.arguments) {
    if (argument.name.empty()) continue;
    const AttrSpec* spec = find_attribute(op, argument.name);
    if (spec == nullptr) throw RuleError{"malformed-file", "`" + node.op + "` has no attribute `" + argument.name + "`"};
    const auto value = attribute(spec->kind, argument.argument, is_float_dtype);
    if (!value) throw RuleError{"malformed-file", "attribute `" + argument.name + "` of " + node.op + " is of another kind than it takes"};
    attrs.set(argument.name, *value);
  }
  return attrs;
}

bool is_graph(const Program& program) {
  const auto is_tensor = [](const InputSpec& input) { return input.is_tensor; };
  const auto is_own = [](const ProgramNode& node) { return node.op.starts_with(kPrefix); };
  return program.guards.empty() && std::all_of(program.inputs.begin(), program.inputs.end(), is_tensor) &&
         std::all_of(program.graph.nodes.begin(), program.graph.nodes.end(), is_own);
}

std::unique_ptr<Graph> import_graph(const Program& program, const std::string& file, const WeightSource& weights,
                                    Diagnostics& diagnostics) {
  return GraphReader(program, file, weights, diagnostics).read();
}

}  // namespace tcc::fx
