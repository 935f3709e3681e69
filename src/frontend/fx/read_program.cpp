// Source: torch/_export/serde/schema.py. Objects with one key say which of several kinds they are: {"as_tensor": {"name": "x"}}.
#include "frontend/fx/read_program.h"

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "tcc/graph/graph.h"
#include "tcc/graph/rule_error.h"
#include "tcc/support/diagnostics.h"

namespace tcc::fx {

namespace {

using Json = nlohmann::json;

constexpr int64_t kSchema = 8, kOldestSchema = 5;
// Graphs within graphs: no program nests cond and scan deeper, and the reader recurses.
constexpr int kDeepestGraph = 32;

struct NumberedDType {
  int64_t number;
  std::string_view name;  ///< torch's
  std::optional<DType> dtype;
};
constexpr auto kDTypes = std::to_array<NumberedDType>({
    {1, "uint8", DType::u8},
    {2, "int8", DType::i8},
    {3, "int16", DType::i16},
    {4, "int32", DType::i32},
    {5, "int64", DType::i64},
    {6, "float16", DType::f16},
    {7, "float32", DType::f32},
    {8, "float64", DType::f64},
    {9, "complex32", std::nullopt},
    {10, "complex64", std::nullopt},
    {11, "complex128", std::nullopt},
    {12, "bool", DType::boolean},
    {13, "bfloat16", DType::bf16},
    {28, "uint16", DType::u16},
    {29, "float8_e4m3fn", DType::f8e4m3fn},
    {30, "float8_e5m2", DType::f8e5m2},
    {31, "float8_e4m3fnuz", DType::f8e4m3fnuz},
    {32, "float8_e5m2fnuz", DType::f8e5m2fnuz},
    {33, "float8_e8m0fnu", std::nullopt},
    {34, "uint32", DType::u32},
    {35, "uint64", DType::u64},
});

[[noreturn]] void malformed(const std::string& message) { throw RuleError{"malformed-file", message}; }

const Json& field(const Json& json, const char* name) {
  if (!json.is_object()) malformed("an object with `" + std::string(name) + "` was expected, found is " + std::string(json.type_name()));
  const auto found = json.find(name);
  if (found == json.end()) malformed("`" + std::string(name) + "` is missing");
  return *found;
}

/// nullptr when it is missing or null.
const Json* optional_field(const Json& json, const char* name) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(name);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

const Json& list_field(const Json& json, const char* name) {
  const Json& list = field(json, name);
  if (!list.is_array()) malformed("`" + std::string(name) + "` is " + std::string(list.type_name()) + ", a list was expected");
  return list;
}

std::string text_of(const Json& json) {
  if (!json.is_string()) malformed("a text was expected, found is " + std::string(json.type_name()));
  return json.get<std::string>();
}

int64_t integer_of(const Json& json) {
  if (json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    malformed("an integer doesn't fit 64 bits");
  if (!json.is_number_integer()) malformed("an integer was expected, found is " + std::string(json.type_name()));
  return json.get<int64_t>();
}

bool bool_of(const Json& json) {
  if (!json.is_boolean()) malformed("true or false was expected, found is " + std::string(json.type_name()));
  return json.get<bool>();
}

/// JSON has no infinities: they are texts.
double number_of(const Json& json) {
  if (json.is_number()) return json.get<double>();
  const std::string text = text_of(json);
  if (text == "Infinity" || text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity" || text == "-inf") return -std::numeric_limits<double>::infinity();
  if (text == "NaN" || text == "nan") return std::numeric_limits<double>::quiet_NaN();
  malformed("`" + text + "` is not a number");
}

std::string name_of(const Json& json) { return text_of(field(json, "name")); }

/// {"as_int": 8} or {"as_expr": {"expr_str": "...", "hint": ...}}.
SizeExpr read_size(const Json& json) {
  if (const Json* value = optional_field(json, "as_int")) return integer_of(*value);
  return parse_size_expr(text_of(field(field(json, "as_expr"), "expr_str")));
}

template <class Read> Argument read_list(const Json& list, const Read& read) {
  if (!list.is_array()) malformed("a list was expected, found is " + std::string(list.type_name()));
  std::vector<Argument> elements;
  elements.reserve(list.size());
  for (const Json& element : list) elements.push_back(read(element));
  return {std::move(elements)};
}

/// The only key and value of an object that says its kind by that key.
std::pair<std::string, const Json*> kind_of(const Json& json) {
  if (!json.is_object() || json.size() != 1) malformed("an object with one key, such as `as_tensor`, was expected");
  return {json.begin().key(), &json.begin().value()};
}

class Reader {
 public:
  ProgramGraph graph(const Json& json) {
    if (++depth_ > kDeepestGraph) malformed("graphs nest more than " + std::to_string(kDeepestGraph) + " deep");
    ProgramGraph result;
    for (const Json& input : list_field(json, "inputs")) result.inputs.push_back(input_name(input));
    for (const auto& [name, meta] : field(json, "tensor_values").items()) result.tensors.emplace(name, read_tensor_meta(meta));
    for (const Json& node : list_field(json, "nodes")) result.nodes.push_back(read_node(node));
    for (const Json& output : list_field(json, "outputs")) result.outputs.push_back(argument(output));
    --depth_;
    return result;
  }

  Argument argument(const Json& json) {
    const auto [kind, value] = kind_of(json);
    const auto self = [this](const Json& element) { return element.is_null() ? Argument() : argument(element); };
    const auto name = [](const Json& element) { return Argument{ValueName{fx::name_of(element)}}; };
    if (kind == "as_none") return {};
    if (kind == "as_tensor" || kind == "as_custom_obj") return name(*value);
    if (kind == "as_tensors") return read_list(*value, name);
    if (kind == "as_optional_tensor") return self(*value);
    if (kind == "as_optional_tensors") return read_list(*value, self);
    if (kind == "as_nested_tensors") {
      return read_list(*value, [&](const Json& list) { return read_list(list, name); });
    }
    if (kind == "as_int") return {integer_of(*value)};
    if (kind == "as_ints") return read_list(*value, [](const Json& element) { return Argument{integer_of(element)}; });
    if (kind == "as_int_lists") {
      return read_list(*value,
                       [](const Json& list) { return read_list(list, [](const Json& element) { return Argument{integer_of(element)}; }); });
    }
    if (kind == "as_float") return {number_of(*value)};
    if (kind == "as_floats") return read_list(*value, [](const Json& element) { return Argument{number_of(element)}; });
    if (kind == "as_bool") return {bool_of(*value)};
    if (kind == "as_bools") return read_list(*value, [](const Json& element) { return Argument{bool_of(element)}; });
    if (kind == "as_string") return {text_of(*value)};
    if (kind == "as_strings") return read_list(*value, [](const Json& element) { return Argument{text_of(element)}; });
    if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") return symbolic(*value);
    if (kind == "as_sym_ints" || kind == "as_sym_floats" || kind == "as_sym_bools") {
      return read_list(*value, [this](const Json& element) { return symbolic(element); });
    }
    if (kind == "as_scalar_type") return dtype(*value);
    if (kind == "as_device" || kind == "as_layout" || kind == "as_memory_format") return {Setting{kind.substr(3), value->dump()}};
    if (kind == "as_graph") return {std::make_shared<const ProgramGraph>(graph(field(*value, "graph")))};
    throw RuleError{"unsupported-op", "an argument of the kind `" + kind + "`"};
  }

 private:
  static std::string input_name(const Json& json) {
    const auto [kind, value] = kind_of(json);
    if (kind == "as_tensor" || kind == "as_custom_obj") return fx::name_of(*value);
    if (value->is_object()) {
      if (const Json* name = optional_field(*value, "as_name")) return text_of(*name);
    }
    return "";  // an input that is a plain number: nothing reads it
  }

  /// {"as_name": "sym_size"}, or the number itself: {"as_int": 3}.
  static Argument symbolic(const Json& json) {
    const auto [kind, value] = kind_of(json);
    if (kind == "as_name") return {ValueName{text_of(*value)}};
    if (kind == "as_int") return {integer_of(*value)};
    if (kind == "as_float") return {number_of(*value)};
    if (kind == "as_bool") return {bool_of(*value)};
    malformed("`" + kind + "` is not a kind of symbolic number");
  }

  static Argument dtype(const Json& json) {
    std::string name;
    if (const auto found = read_dtype(json, &name)) return {*found};
    return {UnknownDType{name}};
  }

  ProgramNode read_node(const Json& json) {
    ProgramNode node;
    node.op = text_of(field(json, "target"));
    if (const Json* name = optional_field(json, "name")) node.name = text_of(*name);
    try {
      read_parts(json, node);
    } catch (const RuleError& error) {
      throw RuleError{error.kind, "node `" + (node.name.empty() ? node.op : node.name) + "`: " + error.message};
    }
    return node;
  }

  void read_parts(const Json& json, ProgramNode& node) {
    for (const auto& [prefix, ours] : {std::pair<std::string, std::string>{"torch.ops.higher_order.", "hop."},
                                       {"torch.ops.", ""},
                                       {"_operator.", "sym."},
                                       {"math.", "sym.math_"},
                                       {"torch.sym_", "sym."}}) {
      if (!node.op.starts_with(prefix)) continue;
      node.op = ours + node.op.substr(prefix.size());
      break;
    }
    for (const Json& input : list_field(json, "inputs")) {
      node.arguments.push_back({text_of(field(input, "name")), argument(field(input, "arg"))});
    }
    for (const Json& output : list_field(json, "outputs")) node.results.push_back(result(output));
    if (node.name.empty() && !node.results.empty() && !node.results[0].names.empty()) node.name = node.results[0].names[0];
    if (const Json* metadata = optional_field(json, "metadata")) {
      if (const Json* stack = optional_field(*metadata, "nn_module_stack")) node.module = innermost_module(text_of(*stack));
    }
  }

  static Result result(const Json& json) {
    const auto [kind, value] = kind_of(json);
    Result result;
    if (kind == "as_tensor") {
      result.names.push_back(fx::name_of(*value));
    } else if (kind == "as_tensors") {
      result.is_list = true;
      for (const Json& element : *value) result.names.push_back(fx::name_of(element));
    } else if (kind == "as_optional_tensor") {
      const Json* tensor = optional_field(*value, "as_tensor");
      result.names.push_back(tensor == nullptr ? "" : fx::name_of(*tensor));
    } else if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") {
      const Json* name = optional_field(*value, "as_name");
      result.names.push_back(name == nullptr ? "" : text_of(*name));
    } else if (kind == "as_none") {
      result.names.emplace_back();
    } else {
      throw RuleError{"unsupported-op", "a result of the kind `" + kind + "`"};
    }
    return result;
  }

  /// "L__self__,,Net;L__self___0,layers.0,Linear" -> "layers.0"
  static std::string innermost_module(const std::string& stack) {
    const size_t last = stack.rfind(';');
    const std::string entry = last == std::string::npos ? stack : stack.substr(last + 1);
    const size_t begin = entry.find(','), end = entry.rfind(',');
    return begin == std::string::npos || end <= begin ? "" : entry.substr(begin + 1, end - begin - 1);
  }

  int depth_ = 0;
};

InputSpec read_input(Reader& reader, const Json& json) {
  const auto [kind, value] = kind_of(json);
  InputSpec spec;
  const auto tensor = [&, body = value](InputSpec::Kind of, const char* target) {
    spec.kind = of;
    spec.name = name_of(field(*body, "arg"));
    spec.target = text_of(field(*body, target));
  };
  if (kind == "parameter") {
    tensor(InputSpec::Kind::parameter, "parameter_name");
  } else if (kind == "buffer") {
    tensor(InputSpec::Kind::buffer, "buffer_name");
  } else if (kind == "tensor_constant") {
    tensor(InputSpec::Kind::constant, "tensor_constant_name");
  } else if (kind == "user_input") {
    const Argument argument = reader.argument(field(*value, "arg"));
    if (const auto* name = argument.as<ValueName>()) {
      spec.name = name->name;
      spec.is_tensor = field(*value, "arg").contains("as_tensor");
    } else {
      spec.fixed = argument;
      spec.is_tensor = false;
    }
  } else if (kind == "constant_input") {
    spec.name = name_of(*value);
    spec.fixed = reader.argument(field(*value, "value"));
    spec.is_tensor = false;
  } else {
    throw RuleError{"unsupported-op", "an input of the kind `" + kind + "`"};
  }
  return spec;
}

OutputSpec read_output(Reader& reader, const Json& json) {
  const auto [kind, value] = kind_of(json);
  struct Row {
    std::string_view name;
    OutputSpec::Kind kind;
    const char* target;
  };
  constexpr auto rows = std::to_array<Row>({
      {"user_output", OutputSpec::Kind::user, nullptr},
      {"loss_output", OutputSpec::Kind::loss, nullptr},
      {"buffer_mutation", OutputSpec::Kind::buffer_mutation, "buffer_name"},
      {"parameter_mutation", OutputSpec::Kind::buffer_mutation, "parameter_name"},
      {"user_input_mutation", OutputSpec::Kind::input_mutation, "user_input_name"},
      {"gradient_to_parameter", OutputSpec::Kind::gradient_of_parameter, "parameter_name"},
      {"gradient_to_user_input", OutputSpec::Kind::gradient_of_input, "user_input_name"},
  });
  for (const Row& row : rows) {
    if (row.name != kind) continue;
    OutputSpec spec;
    spec.kind = row.kind;
    const Json& argument = field(*value, "arg");
    // Only what the user gets may be no tensor, and says what it is.
    if (row.kind == OutputSpec::Kind::user) spec.value = reader.argument(argument);
    else spec.value = {ValueName{name_of(argument)}};
    if (row.target != nullptr) spec.target = text_of(field(*value, row.target));
    return spec;
  }
  throw RuleError{"unsupported-op", "an output of the kind `" + kind + "`"};
}

void check_schema(const Json& json, const std::string& file) {
  const int64_t major = integer_of(field(field(json, "schema_version"), "major"));
  if (major >= kOldestSchema && major <= kSchema) return;
  const Json* version = optional_field(json, "torch_version");
  Diagnostics diagnostics;
  diagnostics.not_supported("unsupported-format", file,
                            "the program is of schema " + std::to_string(major) + ", written by torch " +
                                (version == nullptr ? "of unknown version" : text_of(*version)) + "; " + std::to_string(kOldestSchema) +
                                " to " + std::to_string(kSchema) + " are read");
  diagnostics.help(file, "export the model with torch 2.9 or later");
  diagnostics.checkpoint(ExitCode::model);
}

void check_names(const Program& program) {
  if (program.inputs.size() != program.graph.inputs.size()) {
    malformed("the signature has " + std::to_string(program.inputs.size()) + " inputs, the graph " +
              std::to_string(program.graph.inputs.size()));
  }
  if (program.outputs.size() != program.graph.outputs.size()) {
    malformed("the signature has " + std::to_string(program.outputs.size()) + " outputs, the graph " +
              std::to_string(program.graph.outputs.size()));
  }
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const InputSpec& spec = program.inputs[i];
    if (spec.is_tensor && spec.name != program.graph.inputs[i])
      malformed("input " + std::to_string(i) + " is `" + program.graph.inputs[i] + "` in the graph and `" + spec.name +
                "` in the signature");
  }
}

}  // namespace

std::optional<DType> read_dtype(const Json& json, std::string* name) {
  for (const NumberedDType& row : kDTypes) {
    const bool same =
        json.is_string() ? json.get<std::string>() == row.name : json.is_number_integer() && json.get<int64_t>() == row.number;
    if (!same) continue;
    *name = std::string(row.name);
    return row.dtype;
  }
  *name = "dtype " + json.dump();
  return std::nullopt;
}

/// Few operators read it: one that isn't understood is as if it were not said.
void read_layout(const Json& json, TensorMeta& meta) {
  try {
    std::vector<SizeExpr> strides;
    for (const Json& stride : json["strides"]) strides.push_back(read_size(stride));
    if (json.contains("storage_offset")) meta.storage_offset = read_size(json["storage_offset"]);
    meta.strides = std::move(strides);
  } catch (const RuleError&) {
  } catch (const Error&) {}
}

TensorMeta read_tensor_meta(const Json& json) {
  TensorMeta meta;
  meta.dtype = read_dtype(field(json, "dtype"), &meta.dtype_name);
  for (const Json& size : list_field(json, "sizes")) meta.sizes.push_back(read_size(size));
  if (json.contains("strides") && json["strides"].is_array()) read_layout(json, meta);
  return meta;
}

Json parse_json(std::string_view text, const std::string& where, const Json::parser_callback_t& watch) {
  try {
    return Json::parse(text.begin(), text.end(), watch);
  } catch (const Json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 7: ..."
    const std::string message = error.what();
    const size_t begin = message.find("] ");
    throw Error(ExitCode::model, "malformed-file", where,
                "not JSON: " + (begin == std::string::npos ? message : message.substr(begin + 2)));
  }
}

Program read_program(std::string_view text, const std::string& file) {
  const Json json = parse_json(text, file);
  try {
    check_schema(json, file);
    Program program;
    if (const Json* version = optional_field(json, "torch_version")) program.producer = "torch " + text_of(*version);
    const Json& module = field(json, "graph_module");
    Reader reader;
    program.graph = reader.graph(field(module, "graph"));
    const Json& signature = field(module, "signature");
    for (const Json& input : list_field(signature, "input_specs")) program.inputs.push_back(read_input(reader, input));
    for (const Json& output : list_field(signature, "output_specs")) program.outputs.push_back(read_output(reader, output));
    if (const Json* ranges = optional_field(json, "range_constraints")) {
      for (const auto& [symbol, range] : ranges->items()) {
        SymbolRange& bounds = program.symbols[symbol];
        if (const Json* low = optional_field(range, "min_val")) bounds.low = integer_of(*low);
        if (const Json* high = optional_field(range, "max_val")) bounds.high = integer_of(*high);
      }
    }
    check_names(program);
    return program;
  } catch (const RuleError& error) {
    Diagnostics diagnostics;
    if (error.kind.starts_with("unsupported-")) diagnostics.not_supported(error.kind, file, error.message);
    else diagnostics.error(error.kind, file, error.message);
    diagnostics.checkpoint(ExitCode::model);
  } catch (const Json::exception& error) {
    throw Error(ExitCode::model, "malformed-file", file, std::string("not a program of torch.export: ") + error.what());
  }
  internal_error("a fault of a program was not reported");
}

}  // namespace tcc::fx
