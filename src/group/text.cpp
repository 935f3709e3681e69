// Text of groups, printed after the graph whose values it names:
//
//   groups @net {
//     unit 0 contract "fc1/Gemm + relu/Relu" anchor %h {%h, %c, %b, %r} (%x, @fc1.weight, @fc1.bias) -> (%r)
//     unit 1 rows "softmax/Softmax" {%m, %m_1, %d, %e, %s, %s_1, %y} (%r) -> (%y)
//     alias %z = %y + 0
//     padding %flat + 24 bytes 232
//     row padding %h 3
//   }
//
// A node is named by its first result.

#include <unordered_map>

#include "tcc/group/group.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/text.h"

namespace tcc::group {
namespace {

constexpr std::string_view kKindNames[] = {"map", "rows", "contract", "window", "scan", "scatter", "sort", "stream", "chain"};
constexpr int kNumKinds = static_cast<int>(std::size(kKindNames));

std::string_view name_of(UnitKind kind) { return kKindNames[static_cast<int>(kind)]; }

std::string name_of(const Value* value) {
  return value->kind == Value::Kind::weight ? print_global_name(value->name) : print_value_name(value->name);
}

std::string list_of(const std::vector<Value*>& values) {
  std::string text;
  for (const Value* value : values) text += (text.empty() ? "" : ", ") + name_of(value);
  return text;
}

/// Finds the values of a graph by name.
class Names {
 public:
  Names(const Graph& graph, Lexer& lexer) : graph_(graph), lexer_(lexer) {
    for (Value* input : graph.body.args) values_[input->name] = input;
    for (Node* node : graph.body.nodes) {
      for (Value* result : node->results) values_[result->name] = result;
    }
  }
  Value* value() {
    const bool is_weight = lexer_.peek().kind == TokenKind::global;
    const std::string name = is_weight ? lexer_.expect_global() : lexer_.expect_value();
    if (is_weight) {
      if (Value* weight = graph_.find_weight(name)) return weight;
      lexer_.fail("the graph has no weight `@" + name + "`");
    }
    const auto it = values_.find(name);
    if (it == values_.end()) lexer_.fail("the graph has no value `%" + name + "`");
    return it->second;
  }
  Node* node() {
    Value* result = value();
    if (!result->producer) lexer_.fail("`%" + result->name + "` is not a result of a node");
    return result->producer;
  }
  std::vector<Value*> list() {
    std::vector<Value*> result;
    lexer_.expect("(");
    while (!lexer_.accept(")")) {
      if (!result.empty()) lexer_.expect(",");
      result.push_back(value());
    }
    return result;
  }

 private:
  const Graph& graph_;
  Lexer& lexer_;
  std::unordered_map<std::string, Value*> values_;
};

}  // namespace

std::string print(const Groups& groups) {
  std::string text = "groups " + print_global_name(groups.graph->name) + " {\n";
  for (const Unit& unit : groups.units) {
    text += "  unit " + std::to_string(unit.id) + " " + std::string(name_of(unit.kind)) + " " + print_quoted(unit.label);
    if (unit.anchor) text += " anchor " + name_of(unit.anchor->result());
    text += " {";
    for (size_t i = 0; i < unit.nodes.size(); ++i) text += (i ? ", " : "") + name_of(unit.nodes[i]->result());
    text += "} (" + list_of(unit.inputs) + ") -> (" + list_of(unit.outputs) + ")" +
            (unit.maxima.empty() ? "" : " maxima (" + list_of(unit.maxima) + ")") + "\n";
  }
  for (const Alias& alias : groups.aliases) {
    text += "  alias " + name_of(alias.value) + " = " + name_of(alias.base) + " + " + std::to_string(alias.byte_offset) + "\n";
  }
  for (const Padding& padding : groups.paddings) {
    text += "  padding " + name_of(padding.base) + " + " + std::to_string(padding.byte_offset) + " bytes " +
            std::to_string(padding.size_bytes) + "\n";
  }
  for (const Layout& layout : groups.layouts)
    text += "  layout " + name_of(layout.value) + " " + to_string(std::span<const int64_t>(layout.order)) + "\n";
  for (const RowPadding& padding : groups.row_paddings)
    text += "  row padding " + name_of(padding.value) + " " + std::to_string(padding.elements) + "\n";
  return text + "}\n";
}

Groups parse_groups(std::string_view text, const std::string& file, const Graph& graph) {
  Lexer lexer(text, file);
  Names names(graph, lexer);
  Groups groups;
  groups.graph = &graph;
  lexer.expect("groups");
  lexer.expect_global();
  lexer.expect("{");
  while (!lexer.accept("}")) {
    if (lexer.accept("alias")) {
      Alias alias;
      alias.value = names.value();
      lexer.expect("=");
      alias.base = names.value();
      lexer.expect("+");
      alias.byte_offset = lexer.expect_integer();
      groups.aliases.push_back(alias);
      continue;
    }
    if (lexer.accept("padding")) {
      Padding padding;
      padding.base = names.value();
      lexer.expect("+");
      padding.byte_offset = lexer.expect_integer();
      lexer.expect("bytes");
      padding.size_bytes = lexer.expect_integer();
      groups.paddings.push_back(padding);
      continue;
    }
    if (lexer.accept("layout")) {
      Layout layout{names.value(), {}};
      lexer.expect("[");
      do layout.order.push_back(lexer.expect_integer());
      while (lexer.accept(","));
      lexer.expect("]");
      if (!is_order(layout)) lexer.fail("this is no order of the axes of " + name_of(layout.value));
      groups.layouts.push_back(std::move(layout));
      continue;
    }
    if (lexer.accept("row")) {
      lexer.expect("padding");
      Value* value = names.value();
      groups.row_paddings.push_back({value, lexer.expect_integer()});
      continue;
    }
    lexer.expect("unit");
    Unit unit;
    unit.id = static_cast<int>(lexer.expect_integer());
    const std::string kind = lexer.expect_identifier();
    int number = 0;
    while (number < kNumKinds && kKindNames[number] != kind) ++number;
    if (number == kNumKinds) lexer.fail("`" + kind + "` is not a kind of unit");
    unit.kind = static_cast<UnitKind>(number);
    unit.label = lexer.expect_string();
    if (lexer.accept("anchor")) unit.anchor = names.node();
    lexer.expect("{");
    while (!lexer.accept("}")) {
      if (!unit.nodes.empty()) lexer.expect(",");
      unit.nodes.push_back(names.node());
    }
    unit.inputs = names.list();
    lexer.expect("->");
    unit.outputs = names.list();
    if (lexer.accept("maxima")) unit.maxima = names.list();
    groups.units.push_back(std::move(unit));
  }
  spread_row_paddings(groups);
  spread_layouts(groups);
  return groups;
}

bool equal(const Groups& a, const Groups& b, std::string* why) {
  auto differ = [&](std::string message) {
    if (why) *why = std::move(message);
    return false;
  };
  auto same_names = [](const std::vector<Value*>& x, const std::vector<Value*>& y) { return list_of(x) == list_of(y); };
  if (a.units.size() != b.units.size()) return differ(std::to_string(a.units.size()) + " units and " + std::to_string(b.units.size()));
  for (size_t i = 0; i < a.units.size(); ++i) {
    const Unit &x = a.units[i], &y = b.units[i];
    const std::string where = "unit " + std::to_string(i) + " \"" + x.label + "\": ";
    if (x.kind != y.kind) return differ(where + "the kinds differ");
    if (x.label != y.label) return differ(where + "the labels differ");
    if ((x.anchor == nullptr) != (y.anchor == nullptr) || (x.anchor && x.anchor->result()->name != y.anchor->result()->name)) {
      return differ(where + "the anchors differ");
    }
    bool same_nodes = x.nodes.size() == y.nodes.size();
    for (size_t k = 0; same_nodes && k < x.nodes.size(); ++k) same_nodes = x.nodes[k]->result()->name == y.nodes[k]->result()->name;
    if (!same_nodes) return differ(where + "the nodes differ");
    if (!same_names(x.inputs, y.inputs)) return differ(where + "the inputs differ");
    if (!same_names(x.outputs, y.outputs)) return differ(where + "the outputs differ");
    if (!same_names(x.maxima, y.maxima)) return differ(where + "the maxima differ");
  }
  if (a.aliases.size() != b.aliases.size())
    return differ(std::to_string(a.aliases.size()) + " aliases and " + std::to_string(b.aliases.size()));
  for (size_t i = 0; i < a.aliases.size(); ++i) {
    const Alias &x = a.aliases[i], &y = b.aliases[i];
    if (name_of(x.value) != name_of(y.value) || name_of(x.base) != name_of(y.base) || x.byte_offset != y.byte_offset) {
      return differ("alias " + std::to_string(i) + " differs");
    }
  }
  if (a.paddings.size() != b.paddings.size())
    return differ(std::to_string(a.paddings.size()) + " paddings and " + std::to_string(b.paddings.size()));
  for (size_t i = 0; i < a.paddings.size(); ++i) {
    const Padding &x = a.paddings[i], &y = b.paddings[i];
    if (name_of(x.base) != name_of(y.base) || x.byte_offset != y.byte_offset || x.size_bytes != y.size_bytes)
      return differ("padding " + std::to_string(i) + " differs");
  }
  if (a.layouts.size() != b.layouts.size())
    return differ(std::to_string(a.layouts.size()) + " layouts and " + std::to_string(b.layouts.size()));
  for (size_t i = 0; i < a.layouts.size(); ++i) {
    if (name_of(a.layouts[i].value) != name_of(b.layouts[i].value) || a.layouts[i].order != b.layouts[i].order)
      return differ("layout " + std::to_string(i) + " differs");
  }
  if (a.row_paddings.size() != b.row_paddings.size())
    return differ(std::to_string(a.row_paddings.size()) + " row paddings and " + std::to_string(b.row_paddings.size()));
  for (size_t i = 0; i < a.row_paddings.size(); ++i) {
    if (name_of(a.row_paddings[i].value) != name_of(b.row_paddings[i].value) || a.row_paddings[i].elements != b.row_paddings[i].elements)
      return differ("row padding " + std::to_string(i) + " differs");
  }
  return true;
}

}  // namespace tcc::group
