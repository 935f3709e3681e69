#include "frontend/fx/read_fx_graph.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "frontend/fx/arguments.h"
#include "frontend/fx/fields.h"
#include "frontend/fx/read_fx_guard.h"
#include "tcc/graph/graph.h"
#include "tcc/graph/rule_error.h"

namespace tcc::fx {

namespace {

using Json = nlohmann::json;

// Lists within lists, in an argument: no operator takes deeper ones, and the reader recurses.
constexpr int kDeepestArgument = 16;

TensorMeta read_tensor_value(const FxContext& context, const Fields& fields) {
  TensorMeta meta;
  meta.dtype_name = fields.text("dtype");
  meta.dtype = parse_dtype(meta.dtype_name);
  meta.is_ranked = !fields.at("shape").is_null();
  if (!meta.is_ranked) return meta;
  for (const Json& size : fields.list("shape")) meta.sizes.push_back(read_size(context, size, fields.place()));
  const Json* strides = fields.find("stride");
  if (strides == nullptr || strides->is_null()) return meta;
  if (!strides->is_array() || strides->size() != meta.sizes.size()) fields.fail("`stride` is not a list with a number for each axis");
  meta.strides.emplace();
  for (const Json& stride : *strides) meta.strides->push_back(read_size(context, stride, fields.place()));
  if (const Json* offset = fields.find("storage_offset")) meta.storage_offset = read_size(context, *offset, fields.place());
  return meta;
}

double special_float(const Fields& fields) {
  const std::string text = fields.text("f");
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  fields.fail("`f` is `" + text + "`, one of inf, -inf and nan was expected");
}

Argument read_special(const FxContext& context, const Json& json, const std::string& place) {
  const Fields fields(json, place, {"v", "sym", "dtype", "graph", "f", "c", "device", "layout", "memory_format"});
  if (json.size() != 1) fields.fail("an argument is an object of " + std::to_string(json.size()) + " keys, one was expected");
  const std::string key = json.begin().key();
  if (key == "v") return {ValueName{fields.text("v")}};
  if (key == "sym") return {read_size(context, fields.at("sym"), place)};
  if (key == "graph") return {context.body(fields.text("graph"), place)};
  if (key == "f") return {special_float(fields)};
  if (key == "c") unsupported("unsupported-dtype", place, "a complex number");
  if (key == "dtype") {
    const std::string name = fields.text("dtype");
    if (const auto dtype = parse_dtype(name)) return {*dtype};
    return {UnknownDType{name}};
  }
  return {Setting{key, fields.text(key)}};
}

Argument read_argument_at(const FxContext& context, const Json& json, const std::string& place, int depth) {
  if (depth > kDeepestArgument) malformed(place, "lists in an argument nest more than " + std::to_string(kDeepestArgument) + " deep");
  if (json.is_null()) return {};
  if (json.is_boolean()) return {json.get<bool>()};
  if (json.is_string()) return {json.get<std::string>()};
  if (json.is_number_float()) return {json.get<double>()};
  if (json.is_object()) return read_special(context, json, place);
  if (const auto integer = integer_in(json)) return {*integer};
  if (json.is_number()) malformed(place, "the integer " + json.dump() + " doesn't fit 64 bits");
  std::vector<Argument> elements;
  for (const Json& element : json) elements.push_back(read_argument_at(context, element, place, depth + 1));
  return {std::move(elements)};
}

/// Reads the parts of a graph in order, and keeps which names are made.
class Reader {
 public:
  Reader(const FxContext& context, const std::string& place, FxFunction& function)
      : context_(context),
        place_(place),
        program_(function.program),
        graph_(function.program.graph),
        guards_(function.program.guards),
        is_body_(function.role == "body") {}

  void read(const Json& json) {
    const Fields fields(json, place_, {"id", "role", "inputs", "values", "nodes", "outputs", "guards", "meta", "extra"});
    for (const char* free : {"meta", "extra"}) {
      if (fields.has(free)) fields.object(free);
    }
    for (const auto& [name, value] : fields.object("values").items()) read_value(name, value);
    for (const Json& input : fields.list("inputs")) read_input(input);
    std::unordered_set<std::string> names;
    for (const Json& node : fields.list("nodes")) {
      read_node(node);
      if (!names.insert(graph_.nodes.back().name).second) fields.fail("two nodes are called `" + graph_.nodes.back().name + "`");
    }
    for (const Json& output : fields.list("outputs")) read_output(output);
    for (const std::string& name : declared_) {
      if (!made_.contains(name)) fields.fail("`values` has `" + name + "`, which is made by no node and is not an input");
    }
    if (!fields.has("guards")) return;
    if (is_body_) fields.fail("a graph of role body has guards");
    for (const Json& guard : fields.list("guards"))
      guards_.push_back(read_guard(context_, guard, program_, sources_, place_ + ": guard " + std::to_string(guards_.size())));
  }

 private:
  void read_value(const std::string& name, const Json& json) {
    const Fields fields(json, place_ + ": value `" + name + "`", {"dtype", "shape", "stride", "storage_offset", "sym", "number"});
    if (json.contains("sym") ? json.size() != 1 : json.contains("number") && json.size() != 1)
      fields.fail("a value is a tensor, or a `sym`, or a `number`");
    declared_.insert(name);
    if (json.contains("sym")) {
      graph_.sizes.emplace(name, read_size(context_, fields.at("sym"), fields.place()));
    } else if (json.contains("number")) {
      const std::string kind = fields.text("number");
      if (kind != "i64" && kind != "f64" && kind != "bool")
        fields.fail("`number` is `" + kind + "`, one of i64, f64 and bool was expected");
    } else {
      graph_.tensors.emplace(name, read_tensor_value(context_, fields));
    }
  }

  void make(const std::string& name, const std::string& place) {
    if (!declared_.contains(name)) malformed(place, "`values` lacks `" + name + "`");
    if (!made_.insert(name).second) malformed(place, "`" + name + "` is made a second time");
  }

  void read_input(const Json& json) {
    const Fields fields(json, place_ + ": input " + std::to_string(graph_.inputs.size()), {"name", "kind", "fqn", "source", "value"});
    InputSpec spec;
    spec.name = fields.text("name");
    const std::string kind = fields.text("kind");
    if (is_body_ && kind != "user") fields.fail("a graph of role body has an input of kind " + kind);
    make(spec.name, fields.place());
    graph_.inputs.push_back(spec.name);
    spec.is_tensor = graph_.tensors.contains(spec.name);
    if (kind == "param") spec.kind = InputSpec::Kind::parameter;
    else if (kind == "buffer") spec.kind = InputSpec::Kind::buffer;
    else if (kind == "const") spec.kind = InputSpec::Kind::constant;
    else if (kind == "seed") spec.kind = InputSpec::Kind::seed;
    else if (kind != "user" && kind != "saved" && kind != "tangent") fields.fail("`kind` is `" + kind + "`, which is not a kind of input");
    spec.target = fields.maybe_text("fqn");
    const bool is_stored = spec.kind != InputSpec::Kind::user && spec.kind != InputSpec::Kind::seed;
    if (!spec.target.empty() && !is_stored) fields.fail("an input of kind " + kind + " has no `fqn`");
    if (!spec.target.empty() && !fqns_.insert(spec.target).second) fields.fail("two inputs have the fqn `" + spec.target + "`");
    if (!spec.is_tensor && kind != "user" && kind != "saved") fields.fail("`" + spec.name + "` is not a tensor, its kind is " + kind);
    if (spec.kind == InputSpec::Kind::seed) {
      const TensorMeta& meta = graph_.tensors.at(spec.name);
      if (meta.dtype != DType::i64 || !meta.sizes.empty()) fields.fail("a seed is an i64 of rank 0");
    }
    read_fixed(fields, spec);
    if (const std::string source = fields.maybe_text("source"); !source.empty()) sources_.emplace(source, spec.name);
    program_.inputs.push_back(std::move(spec));
  }

  /// The value of an input that is no tensor.
  void read_fixed(const Fields& fields, InputSpec& spec) {
    if (const Json* value = fields.find("value")) {
      if (spec.is_tensor) fields.fail("`" + spec.name + "` is a tensor and has a `value`");
      spec.fixed = read_argument(context_, *value, fields.place());
    }
    if (spec.is_tensor || is_body_) return;  // a body's are those of its operands
    if (const auto size = graph_.sizes.find(spec.name); size != graph_.sizes.end()) {
      spec.size = size->second;
      if (!spec.fixed.is_none()) fields.fail("`" + spec.name + "` is a size and has a `value`");
    } else if (!number_in(spec.fixed)) {
      fields.fail("`" + spec.name + "` is a number and has no `value` that is one");
    }
  }

  void check_names(const Argument& argument, const std::string& place) const {
    if (const auto* name = argument.as<ValueName>(); name != nullptr && !made_.contains(name->name)) {
      const bool later = declared_.contains(name->name);
      malformed(place, "`" + name->name + "` is used " + (later ? "before it is made" : "and made by no node"));
    }
    if (const auto* list = argument.as<std::vector<Argument>>()) {
      for (const Argument& element : *list) check_names(element, place);
    }
  }

  void read_node(const Json& json) {
    ProgramNode node;
    const std::string number = place_ + ": node " + std::to_string(graph_.nodes.size());
    node.name = Fields(json, number, {"name", "op", "args", "kwargs", "outs", "meta", "extra"}).text("name");
    const Fields fields(json, place_ + "/" + node.name, {"name", "op", "args", "kwargs", "outs", "meta", "extra"});
    node.op = fields.text("op");
    for (const Json& argument : fields.list("args")) node.arguments.push_back({"", read_argument(context_, argument, fields.place())});
    if (fields.has("kwargs")) {
      for (const auto& [name, argument] : fields.object("kwargs").items()) {
        if (name.empty()) fields.fail("an argument of `kwargs` has no name");
        node.arguments.push_back({name, read_argument(context_, argument, fields.place())});
      }
    }
    for (const NamedArgument& argument : node.arguments) check_names(argument.argument, fields.place());
    for (const Json& out : fields.list("outs")) node.results.push_back(read_result(out, fields));
    if (fields.has("extra")) fields.object("extra");
    if (fields.has("meta")) {
      const Json& meta = fields.object("meta");
      for (const auto& [key, text] :
           {std::pair{"module", &node.module}, {"loc", &node.origin.node}, {"phase", &node.origin.phase}, {"file", &node.origin.file}}) {
        if (const auto found = meta.find(key); found != meta.end() && found->is_string()) *text = found->get<std::string>();
      }
    }
    graph_.nodes.push_back(std::move(node));
  }

  Result read_result(const Json& json, const Fields& fields) {
    Result result;
    result.is_list = json.is_array();
    const auto take = [&](const Json& name) {
      if (!name.is_null() && (!name.is_string() || name.get_ref<const std::string&>().empty()))
        fields.fail("`outs` has what is neither a name nor null nor a list of those");
      result.names.push_back(name.is_null() ? "" : name.get<std::string>());
      if (!result.names.back().empty()) make(result.names.back(), fields.place());
    };
    if (!result.is_list) take(json);
    else
      for (const Json& name : json) take(name);
    return result;
  }

  void read_output(const Json& json) {
    const Fields fields(json, place_ + ": output " + std::to_string(program_.outputs.size()), {"value", "kind", "target", "name"});
    OutputSpec spec;
    spec.name = fields.maybe_text("name");
    const Json& value = fields.at("value");
    if (!value.is_null()) spec.value = {ValueName{fields.text("value")}};
    check_names(spec.value, fields.place());
    const std::string kind = fields.text("kind"), target = fields.maybe_text("target");
    if (is_body_ && kind != "user") fields.fail("a graph of role body has an output of kind " + kind);
    const bool has_target = kind == "gradient" || kind == "mutation";
    if (has_target == target.empty()) fields.fail("an output of kind " + kind + (has_target ? " needs a `target`" : " has no `target`"));
    if (has_target) read_target(fields, kind == "mutation", target, spec);
    else if (kind == "loss") spec.kind = OutputSpec::Kind::loss;
    else if (kind != "user" && kind != "saved") fields.fail("`kind` is `" + kind + "`, which is not a kind of output");
    graph_.outputs.push_back(spec.value);
    program_.outputs.push_back(std::move(spec));
  }

  /// An output names an input of its graph, or what the forward graph has by that name.
  void read_target(const Fields& fields, bool is_mutation, const std::string& target, OutputSpec& spec) {
    const InputSpec* input = nullptr;
    for (const InputSpec& candidate : program_.inputs) {
      if (candidate.name == target || (!candidate.target.empty() && candidate.target == target)) input = &candidate;
    }
    if (input == nullptr && is_mutation) fields.fail("`target` is `" + target + "`, which is not an input of the graph");
    const bool is_stored = input != nullptr && input->kind != InputSpec::Kind::user;
    if (is_mutation) spec.kind = is_stored ? OutputSpec::Kind::buffer_mutation : OutputSpec::Kind::input_mutation;
    else spec.kind = is_stored ? OutputSpec::Kind::gradient_of_parameter : OutputSpec::Kind::gradient_of_input;
    spec.target = input != nullptr && !input->target.empty() ? input->target : target;
  }

  const FxContext& context_;
  std::string place_;
  Program& program_;
  ProgramGraph& graph_;
  std::vector<Guard>& guards_;
  const bool is_body_;
  std::unordered_set<std::string> made_, fqns_;
  std::set<std::string> declared_;
  std::map<std::string, std::string> sources_;  ///< of inputs: the source -> the name
};

}  // namespace

SizeExpr read_size_text(const FxContext& context, const std::string& text, const std::string& place) {
  try {
    SizeExpr expr = parse_infix(text);
    for (const std::string& symbol : symbols_of(expr)) {
      if (!context.symbols.contains(symbol)) malformed(place, "`symbols` lacks `" + symbol + "`");
    }
    return expr;
  } catch (const RuleError& error) { malformed(place, error.message); }
}

SizeExpr read_size(const FxContext& context, const Json& json, const std::string& place) {
  if (json.is_string()) return read_size_text(context, json.get_ref<const std::string&>(), place);
  const auto integer = integer_in(json);
  if (!integer || *integer < 0)
    malformed(place, "a size is " + json.dump().substr(0, 100) + ", an integer of 0 or more or an expression was expected");
  return *integer;
}

Argument read_argument(const FxContext& context, const Json& json, const std::string& place) {
  return read_argument_at(context, json, place, 0);
}

void read_graph(const FxContext& context, const Json& json, const std::string& place, FxFunction& function) {
  Reader(context, place, function).read(json);
}

}  // namespace tcc::fx
