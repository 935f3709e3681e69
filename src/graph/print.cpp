// Prints a graph; docs/ir.md has the grammar. Everything that parse_graph reads back is here, weights' bytes excepted.

#include "tcc/graph/graph.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/text.h"

namespace tcc {
namespace {

std::string name_text(const Value* value) {
  if (value == nullptr) return "none";
  return value->kind == Value::Kind::weight ? print_global_name(value->name) : print_value_name(value->name);
}

template <class List, class Print> void append_joined(std::string& text, const List& list, Print print) {
  bool first = true;
  for (const auto& item : list) {
    if (!first) text += ", ";
    first = false;
    text += print(item);
  }
}

struct AttributeText {
  std::string operator()(bool flag) const { return flag ? "true" : "false"; }
  std::string operator()(int64_t number) const { return std::to_string(number); }
  std::string operator()(double number) const { return print_float(number); }
  std::string operator()(const std::string& text) const { return print_quoted(text); }
  std::string operator()(DType dtype) const { return std::string(name_of(dtype)); }
  template <class T> std::string operator()(const std::vector<T>& numbers) const {
    std::string text = "[";
    append_joined(text, numbers, [this](T number) { return (*this)(number); });
    return text + "]";
  }
};

std::string attribute_text(const AttrValue& value) { return std::visit(AttributeText(), value); }

class Printer {
 public:
  Printer(const PrintOptions& options, std::string_view file) : options_(options), file_(file) {}

  std::string take() { return std::move(text_); }

  void graph(const Graph& graph) {
    if (!options_.weights_file.empty()) text_ += "weights " + print_quoted(options_.weights_file) + "\n";
    text_ += "graph " + print_global_name(graph.name) + "(";
    typed_values(graph.body.args);
    text_ += ") -> (";
    bool plain = graph.state_updates.empty();
    for (size_t i = 0; i < graph.body.results.size(); ++i) {
      const Value* value = graph.body.results[i];
      if (i > 0) text_ += ", ";
      text_ += print_value_name(graph.output_names[i]) + ": " + to_string(value->type);
      // Without a return line the outputs are the values of those names.
      plain = plain && value->kind != Value::Kind::weight && value->name == graph.output_names[i];
    }
    text_ += ") {\n";
    for (const auto& weight : graph.weights()) declare(*weight);
    nodes(graph.body, 1);
    if (!plain) {
      text_ += "  return ";
      append_joined(text_, graph.body.results, name_text);
      if (!graph.state_updates.empty()) {
        if (!graph.body.results.empty()) text_ += ", ";
        text_ += "state(";
        append_joined(text_, graph.state_updates,
                      [](const StateUpdate& update) { return print_global_name(update.weight->name) + " = " + name_text(update.value); });
        text_ += ")";
      }
      text_ += "\n";
    }
    text_ += "}\n";
  }

  void node(const Node& node, int depth) {
    append_joined(text_, node.results, [](const Value* value) { return print_value_name(value->name) + ": " + to_string(value->type); });
    if (!node.results.empty()) text_ += " = ";
    text_ += name_of(node.op);
    text_ += "(";
    append_joined(text_, node.operands, name_text);
    text_ += ")";
    if (!node.attrs.all().empty()) {
      text_ += " {";
      append_joined(text_, node.attrs.all(), [](const auto& entry) { return entry.first + "=" + attribute_text(entry.second); });
      text_ += "}";
    }
    for (const auto& region : node.regions) {
      text_ += " region(";
      typed_values(region->args);
      text_ += ") {\n";
      nodes(*region, depth + 1);
      indent(depth + 1);
      text_ += "yield ";
      append_joined(text_, region->results, name_text);
      text_ += "\n";
      indent(depth);
      text_ += "}";
    }
    if (options_.locations) location(node.loc);
  }

 private:
  void indent(int depth) { text_.append(static_cast<size_t>(depth) * 2, ' '); }

  void typed_values(const std::vector<Value*>& values) {
    append_joined(text_, values, [](const Value* value) { return print_value_name(value->name) + ": " + to_string(value->type); });
  }

  void nodes(const Region& region, int depth) {
    for (const Node* inner : region.nodes) {
      indent(depth);
      node(*inner, depth);
      text_ += "\n";
    }
  }

  void declare(const Weight& weight) {
    text_ += "  weight " + print_global_name(weight.name) + ": " + to_string(Type(weight.tensor.dtype(), weight.tensor.shape()));
    if (!weight.from_model) text_ += weight.is_buffer ? " buffer" : " made";
    if (weight.is_state) text_ += " state";
    if (weight.tensor.count() <= options_.small_weights) {
      text_ += " = [";
      for (int64_t i = 0; i < weight.tensor.count(); ++i) {
        if (i > 0) text_ += ", ";
        text_ += is_float(weight.tensor.dtype()) ? print_float(weight.tensor.as_double(i)) : std::to_string(weight.tensor.as_int64(i));
      }
      text_ += "]";
    }
    text_ += "\n";
  }

  void location(const Location& loc) {
    if (loc.node.empty() && loc.phase.empty()) return;
    text_ += "    loc(" + print_quoted(loc.node.str());
    if (!loc.file.empty() && loc.file != file_) text_ += ", " + print_quoted(loc.file.str());
    text_ += ")";
    if (!loc.phase.empty()) text_ += " " + loc.phase;
  }

  const PrintOptions& options_;
  std::string_view file_;
  std::string text_;
};

}  // namespace

std::string print(const Graph& graph, const PrintOptions& options) {
  Printer printer(options, graph.file);
  printer.graph(graph);
  return printer.take();
}

std::string print(const Node& node) {
  PrintOptions options;
  options.locations = false;  // messages name the place themselves
  Printer printer(options, "");
  printer.node(node, 0);
  return printer.take();
}

}  // namespace tcc
