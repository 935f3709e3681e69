#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "frontend/fx/infix.h"
#include "tcc/frontend/fx_json.h"
#include "tcc/support/diagnostics.h"

namespace tcc {

namespace {

using Json = nlohmann::ordered_json;

// Weights lie so that they can be used where they are mapped.
constexpr size_t kAlignment = 64;
constexpr std::array<std::byte, kAlignment> kPadding{};

struct AttributeJson {
  Json operator()(bool value) const { return value; }
  Json operator()(int64_t value) const { return value; }
  Json operator()(double value) const {
    if (std::isfinite(value)) return value;
    return {{"f", std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"}};
  }
  Json operator()(const std::string& value) const { return value; }
  Json operator()(DType value) const { return {{"dtype", name_of(value)}}; }
  template <class T> Json operator()(const std::vector<T>& values) const {
    Json list = Json::array();
    for (const T value : values) list.push_back((*this)(value));
    return list;
  }
};

class Writer {
 public:
  Writer(const Graph& graph, std::string weights_file) : graph_(graph), weights_file_(std::move(weights_file)) {}

  FxJson write() {
    for (const Value* input : graph_.body.args) declare(input);
    for (const auto& weight : graph_.weights()) declare(graph_.find_weight(weight->name));
    std::string inputs, nodes, outputs;
    for (const Value* input : graph_.body.args) add_line(inputs, input_json(*input));
    for (const auto& weight : graph_.weights()) add_line(inputs, weight_json(*weight));
    for (const Node* node : graph_.body.nodes) add_line(nodes, node_json(*node));
    for (size_t i = 0; i < graph_.body.results.size(); ++i) {
      Json output = {{"value", name_of_value(graph_.body.results[i])}, {"kind", "user"}};
      if (graph_.output_names[i] != output["value"]) output["name"] = graph_.output_names[i];
      add_line(outputs, output);
    }
    for (const StateUpdate& update : graph_.state_updates) {
      if (!update.weight->is_state) refuse("a step of a training");
      add_line(outputs, {{"value", name_of_value(update.value)}, {"kind", "mutation"}, {"target", update.weight->name}});
    }
    std::string text = "{\"format\": \"tcc.fx\", \"version\": [1, 0], \"entry\": " + Json(graph_.name).dump() + ",\n";
    if (!symbols_.empty()) text += " \"symbols\": " + symbols_.dump() + ",\n";
    if (!weights_.empty()) text += " \"weights\": [" + weights_ + "],\n";
    text += " \"graphs\": [\n  {\"id\": " + Json(graph_.name).dump() + ", \"role\": \"forward\",\n   \"inputs\": [" + inputs + "],\n";
    text += "   \"values\": {" + values_ + "},\n   \"nodes\": [" + nodes + "],\n   \"outputs\": [" + outputs + "]}]}\n";
    result_.text = std::move(text);
    return std::move(result_);
  }

 private:
  static void add_line(std::string& list, const Json& json) { list += (list.empty() ? "\n    " : ",\n    ") + json.dump(); }

  [[noreturn]] void refuse(const std::string& what) const {
    Diagnostics diagnostics;
    diagnostics.not_supported("unsupported-format", graph_.file, what + " as tcc.fx JSON");
    diagnostics.help(graph_.file, "--emit=graph prints it");
    diagnostics.checkpoint(ExitCode::model);
    internal_error("a refusal was not thrown");
  }

  /// Weights and values of a graph may have the same name.
  static std::string name_of_value(const Value* value) { return (value->kind == Value::Kind::weight ? "@" : "") + value->name; }

  void declare(const Value* value) {
    Json shape = nullptr;
    if (value->type.ranked) {
      shape = Json::array();
      for (const Dim& dim : value->type.dims) shape.push_back(size_json(dim));
    }
    if (value->type.layout != nullptr) refuse("a value with a layout");
    values_ += (values_.empty() ? "\n    " : ",\n    ") + Json(name_of_value(value)).dump() + ": " +
               Json{{"dtype", name_of(value->type.dtype)}, {"shape", shape}}.dump();
  }

  Json size_json(const Dim& dim) {
    if (dim.is_constant()) return dim.bound;
    const Json range = dim.bound < 0 ? Json::object() : Json{{"max", dim.bound}};
    const auto known = symbols_.find(dim.symbol);
    if (known != symbols_.end() && *known != range) refuse("the size `" + dim.symbol + "` with two bounds");
    symbols_[dim.symbol] = range;
    return fx::symbol_text(dim.symbol);
  }

  static Json input_json(const Value& input) {
    const bool is_seed = input.name == "seed" && input.type == Type(DType::i64, {});
    return {{"name", input.name}, {"kind", is_seed ? "seed" : "user"}};
  }

  Json weight_json(const Weight& weight) {
    if (!weights_file_.empty()) {
      const size_t padding = (kAlignment - offset_ % kAlignment) % kAlignment;
      if (padding > 0) result_.weights.emplace_back(kPadding.data(), padding);
      offset_ += padding;
      const auto size = static_cast<size_t>(weight.tensor.size_bytes());
      weights_ += (weights_.empty() ? "\n  " : ",\n  ") + Json{{"fqn", weight.name},
                                                               {"file", weights_file_},
                                                               {"offset", offset_},
                                                               {"length", size},
                                                               {"dtype", name_of(weight.tensor.dtype())},
                                                               {"shape", weight.tensor.shape()}}
                                                              .dump();
      result_.weights.emplace_back(weight.tensor.bytes(), size);
      offset_ += size;
    }
    const char* kind = weight.from_model ? "param" : weight.is_buffer ? "buffer" : "const";
    return {{"name", name_of_value(graph_.find_weight(weight.name))}, {"kind", kind}, {"fqn", weight.name}};
  }

  Json node_json(const Node& node) {
    if (!node.regions.empty()) refuse("an operation with regions, `" + std::string(name_of(node.op)) + "`,");
    Json args = Json::array(), outs = Json::array(), kwargs = Json::object(), meta = Json::object();
    for (const Value* operand : node.operands) args.push_back(operand == nullptr ? Json() : Json{{"v", name_of_value(operand)}});
    for (const auto& [name, value] : node.attrs.all()) kwargs[name] = std::visit(AttributeJson(), value);
    for (const Value* result : node.results) {
      declare(result);
      outs.push_back(result->name);
    }
    Json json = {{"name", node.results.empty() ? "node" + std::to_string(node.id) : node.results[0]->name},
                 {"op", "tcc." + std::string(name_of(node.op))},
                 {"args", args}};
    if (!kwargs.empty()) json["kwargs"] = kwargs;
    json["outs"] = outs;
    if (!node.loc.node.empty()) meta["loc"] = node.loc.node.str();
    if (!node.loc.phase.empty()) meta["phase"] = node.loc.phase;
    if (!node.loc.file.empty() && node.loc.file.str() != graph_.file) meta["file"] = node.loc.file.str();
    if (!meta.empty()) json["meta"] = meta;
    return json;
  }

  const Graph& graph_;
  const std::string weights_file_;
  Json symbols_ = Json::object();
  std::string values_, weights_;
  size_t offset_ = 0;
  FxJson result_;
};

}  // namespace

FxJson print_fx_json(const Graph& graph, const std::string& weights_file) {
  try {
    return Writer(graph, weights_file).write();
  } catch (const nlohmann::json::type_error&) {  // the only one: a text that is not UTF-8
    throw Error(ExitCode::model, "malformed-name", graph.file, "a name of the model is not UTF-8, which JSON asks for",
                "--emit=graph prints any name");
  }
}

}  // namespace tcc
