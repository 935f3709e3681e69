// Parses the text of a graph (docs/ir.md); the inverse of print.cpp.

#include <unordered_map>

#include "tcc/graph/graph.h"
#include "tcc/ops/attributes.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/text.h"

namespace tcc {
namespace {

/// Regions in each other: passes go through them by recursion.
constexpr int kMaxRegionDepth = 200;

class Parser {
 public:
  Parser(std::string_view text, const std::string& file, const std::map<std::string, Tensor>& weights, bool types_only)
      : lexer_(text, file), weights_(weights), types_only_(types_only), graph_(std::make_unique<Graph>()) {
    graph_->file = file;
  }

  std::unique_ptr<Graph> parse() {
    if (lexer_.accept("weights")) lexer_.expect_string();
    lexer_.expect("graph");
    graph_->name = lexer_.expect_global();
    lexer_.expect("(");
    list(")", [&] {
      const std::string name = lexer_.expect_value();
      lexer_.expect(":");
      define(name, graph_->add_input(name, type()));
    });
    lexer_.expect("->");
    lexer_.expect("(");
    std::vector<Type> output_types;
    list(")", [&] {
      graph_->output_names.push_back(lexer_.expect_value());
      lexer_.expect(":");
      output_types.push_back(type());
    });
    lexer_.expect("{");
    while (lexer_.accept("weight")) declare_weight();
    nodes(graph_->body);
    std::vector<Value*>& outputs = graph_->body.results;
    if (lexer_.accept("return")) {
      return_line();
    } else {
      for (const std::string& name : graph_->output_names) outputs.push_back(value_named(name, lexer_.peek()));
    }
    lexer_.expect("}");
    if (outputs.size() != output_types.size()) {
      lexer_.fail("found " + std::to_string(outputs.size()) + " returned values, expected " + std::to_string(output_types.size()));
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i]->type != output_types[i]) {
        lexer_.fail("output `" + graph_->output_names[i] + "` is declared " + to_string(output_types[i]) + ", its value is " +
                    to_string(outputs[i]->type));
      }
    }
    if (lexer_.peek().kind != TokenKind::end) lexer_.fail("found text after the graph");
    return std::move(graph_);
  }

 private:
  /// `item` separated by commas up to `close`, which is consumed.
  template <class F> void list(std::string_view close, const F& item) {
    if (lexer_.accept(close)) return;
    do item();
    while (lexer_.accept(","));
    lexer_.expect(close);
  }

  DType dtype() {
    const std::string name = lexer_.peek().text;
    const std::optional<DType> found = lexer_.peek().kind == TokenKind::identifier ? parse_dtype(name) : std::nullopt;
    if (!found) lexer_.fail("found `" + name + "`, expected a dtype such as `f32`");
    lexer_.next();
    return *found;
  }

  Dim dim() {
    const Token token = lexer_.peek();
    if (token.kind == TokenKind::integer) {
      if (token.integer < 0) lexer_.fail("found a negative extent");
      lexer_.next();
      return Dim(token.integer);
    }
    if (token.kind != TokenKind::identifier && token.kind != TokenKind::string)
      lexer_.fail("found `" + token.text + "`, expected an extent");
    lexer_.next();
    return Dim(token.text, lexer_.accept("<=") ? lexer_.expect_integer() : -1);
  }

  Type type() {
    Type result;
    result.dtype = dtype();
    lexer_.expect("[");
    if (lexer_.accept("*")) {
      result.ranked = false;
      lexer_.expect("]");
      return result;
    }
    list("]", [&] { result.dims.push_back(dim()); });
    if (lexer_.accept("layout")) result.layout = layout();
    return result;
  }

  std::shared_ptr<const Layout> layout() {
    auto result = std::make_shared<Layout>();
    lexer_.expect("(");
    list(")", [&] {
      if (lexer_.accept("order")) {
        lexer_.expect("[");
        list("]", [&] { result->order.push_back(static_cast<int>(lexer_.expect_integer())); });
      } else if (lexer_.accept("tiles")) {
        lexer_.expect("[");
        list("]", [&] {
          const int axis = static_cast<int>(lexer_.expect_integer());
          lexer_.expect("x");
          result->tiles.push_back({axis, lexer_.expect_integer()});
        });
      } else {
        lexer_.expect("padded");
        lexer_.expect("[");
        list("]", [&] { result->padded.push_back(lexer_.expect_integer()); });
      }
    });
    return result;
  }

  void define(const std::string& name, Value* value) {
    if (!values_.emplace(name, value).second) lexer_.fail("`" + print_value_name(name) + "` is defined twice");
  }

  /// The token before is the name.
  Value* value_named(const std::string& name, const Token& token) {
    const auto found = values_.find(name);
    if (found == values_.end()) lexer_.fail_at(token, "`" + print_value_name(name) + "` is not defined above");
    return found->second;
  }

  Value* weight_named(const std::string& name, const Token& token) {
    if (Value* value = graph_->find_weight(name)) return value;
    const auto found = weights_.find(name);
    if (found == weights_.end()) lexer_.fail_at(token, "`" + print_global_name(name) + "` is neither declared nor among the weights given");
    return graph_->add_weight(name, found->second);
  }

  void declare_weight() {
    const Token token = lexer_.peek();
    const std::string name = lexer_.expect_global();
    if (graph_->find_weight(name) != nullptr) lexer_.fail_at(token, "`" + print_global_name(name) + "` is declared twice");
    lexer_.expect(":");
    const Type declared = type();
    if (!declared.is_static())
      lexer_.fail_at(token, "`" + print_global_name(name) + "` is " + to_string(declared) + ", expected constant extents");
    const bool is_buffer = lexer_.accept("buffer"), made = !is_buffer && lexer_.accept("made"), is_state = lexer_.accept("state");
    Tensor tensor;
    if (lexer_.accept("=")) {
      tensor = literal(declared);
    } else if (const auto found = weights_.find(name); found != weights_.end()) {
      tensor = found->second;
      if (const Type given(tensor.dtype(), tensor.shape()); given != declared) {
        lexer_.fail_at(
            token, "`" + print_global_name(name) + "` is declared " + to_string(declared) + ", the weight given is " + to_string(given));
      }
    } else if (types_only_) {
      tensor = Tensor(declared.dtype, declared.shape());
    } else {
      lexer_.fail_at(token, "`" + print_global_name(name) + "` is not among the weights given");
    }
    Weight& weight = *graph_->add_weight(name, std::move(tensor), !made && !is_buffer)->weight;
    weight.is_buffer = is_buffer;
    weight.is_state = is_state;
  }

  Tensor literal(const Type& declared) {
    Tensor tensor(declared.dtype, declared.shape());
    int64_t i = 0;
    lexer_.expect("[");
    list("]", [&] {
      if (i == tensor.count()) lexer_.fail("found more values than " + to_string(declared) + " has elements");
      if (is_float(declared.dtype)) tensor.set_double(i++, lexer_.expect_number());
      else tensor.set_int64(i++, lexer_.expect_integer());
    });
    if (i != tensor.count())
      lexer_.fail("found " + std::to_string(i) + " values, " + to_string(declared) + " has " + std::to_string(tensor.count()) +
                  " elements");
    return tensor;
  }

  Value* operand() {
    if (lexer_.accept("none")) return nullptr;
    const Token token = lexer_.peek();
    return token.kind == TokenKind::global ? weight_named(lexer_.expect_global(), token) : value_named(lexer_.expect_value(), token);
  }

  Value* present_operand() {
    Value* value = operand();
    if (value == nullptr) lexer_.fail("found `none`, expected a value");
    return value;
  }

  void return_line() {
    // The values end at the end of the line, which is `}`, or at `state(`.
    while (!lexer_.at("}")) {
      if (lexer_.accept("state")) {
        lexer_.expect("(");
        list(")", [&] {
          const Token token = lexer_.peek();
          Weight* weight = weight_named(lexer_.expect_global(), token)->weight;
          lexer_.expect("=");
          graph_->state_updates.push_back({weight, present_operand()});
        });
      } else {
        graph_->body.results.push_back(present_operand());
      }
      if (!lexer_.accept(",")) break;
    }
  }

  void nodes(Region& region) {
    while (lexer_.peek().kind == TokenKind::value) {
      node(region);
      lexer_.accept(";");
    }
  }

  void node(Region& region) {
    std::vector<std::pair<std::string, Type>> results;
    do {
      std::string name = lexer_.expect_value();
      lexer_.expect(":");
      results.emplace_back(std::move(name), type());
    } while (lexer_.accept(","));
    lexer_.expect("=");
    const std::optional<Op> op = parse_op(lexer_.peek().text);
    if (lexer_.peek().kind != TokenKind::identifier || !op) lexer_.fail("found `" + lexer_.peek().text + "`, expected an operation");
    lexer_.next();
    std::vector<Value*> operands;
    lexer_.expect("(");
    list(")", [&] { operands.push_back(operand()); });
    Attrs attrs = attributes(*op);
    Node* node = graph_->make_node(*op, std::move(operands), std::move(attrs), {}, {});
    while (lexer_.accept("region")) nested_region(*node);
    node->loc = location();
    for (auto& [name, result_type] : results) {
      Value* value = graph_->make_value(Value::Kind::result, std::move(result_type), name);
      value->producer = node;
      value->index = static_cast<int>(node->results.size());
      node->results.push_back(value);
      define(name, value);
    }
    region.nodes.push_back(node);
  }

  void nested_region(Node& node) {
    if (++depth_ > kMaxRegionDepth) lexer_.fail("regions are nested more than " + std::to_string(kMaxRegionDepth) + " deep");
    node.regions.push_back(std::make_unique<Region>());
    Region& region = *node.regions.back();
    lexer_.expect("(");
    list(")", [&] {
      const std::string name = lexer_.expect_value();
      lexer_.expect(":");
      Value* value = graph_->make_value(Value::Kind::region_arg, type(), name);
      value->index = static_cast<int>(region.args.size());
      region.args.push_back(value);
      define(name, value);
    });
    lexer_.expect("{");
    nodes(region);
    lexer_.expect("yield");
    if (!lexer_.at("}")) {
      do region.results.push_back(present_operand());
      while (lexer_.accept(","));
    }
    lexer_.expect("}");
    --depth_;
  }

  Attrs attributes(Op op) {
    Attrs attrs;
    std::vector<std::pair<std::string, Token>>
        numbers;  // of kind `number`: what they are depends on the dtype attribute, which may come later
    if (!lexer_.accept("{")) return attrs;
    list("}", [&] {
      const std::string name = lexer_.peek().text;
      const AttrSpec* spec = lexer_.peek().kind == TokenKind::identifier ? find_attribute(op, name) : nullptr;
      if (spec == nullptr) lexer_.fail("`" + std::string(name_of(op)) + "` has no attribute `" + name + "`");
      if (attrs.has(name)) lexer_.fail("attribute `" + name + "` is given twice");
      lexer_.next();
      lexer_.expect("=");
      if (spec->kind == AttrKind::number) {
        Token token = lexer_.peek();
        if (token.kind == TokenKind::integer && !token.text.starts_with("0x")) {
          lexer_.next();
        } else {
          token.kind = TokenKind::floating;
          token.floating = lexer_.expect_number();
        }
        numbers.emplace_back(name, std::move(token));
      } else {
        attrs.set(name, attribute(spec->kind));
      }
    });
    const AttrValue* dtype = attrs.find("dtype");
    const bool floating = dtype != nullptr && is_float(std::get<DType>(*dtype));
    for (const auto& [name, token] : numbers) {
      if (!floating && token.kind != TokenKind::integer)
        lexer_.fail("attribute `" + name + "` is a float, expected an integer for this dtype");
      attrs.set(name, floating ? AttrValue(token.floating) : AttrValue(token.integer));
    }
    return attrs;
  }

  AttrValue attribute(AttrKind kind) {
    switch (kind) {
      case AttrKind::boolean:
        if (lexer_.accept("true")) return true;
        lexer_.expect("false");
        return false;
      case AttrKind::integer: return lexer_.expect_integer();
      case AttrKind::floating: return lexer_.expect_number();
      case AttrKind::string: return lexer_.expect_string();
      case AttrKind::dtype: return dtype();
      case AttrKind::ints: {
        std::vector<int64_t> values;
        lexer_.expect("[");
        list("]", [&] { values.push_back(lexer_.expect_integer()); });
        return values;
      }
      case AttrKind::floats: {
        std::vector<double> values;
        lexer_.expect("[");
        list("]", [&] { values.push_back(lexer_.expect_number()); });
        return values;
      }
      case AttrKind::number: break;  // read by the caller
    }
    internal_error("an attribute of unknown kind");
  }

  Location location() {
    Location loc;
    loc.file = graph_->file;
    if (!lexer_.accept("loc")) return loc;
    lexer_.expect("(");
    loc.node = lexer_.expect_string();
    if (lexer_.accept(",")) loc.file = lexer_.expect_string();
    lexer_.expect(")");
    for (const char* phase : {"grad", "update"}) {
      if (lexer_.accept(phase)) loc.phase = phase;
    }
    return loc;
  }

  Lexer lexer_;
  const std::map<std::string, Tensor>& weights_;
  bool types_only_;
  int depth_ = 0;  // regions around the node being read
  std::unique_ptr<Graph> graph_;
  std::unordered_map<std::string, Value*> values_;
};

}  // namespace

std::unique_ptr<Graph> parse_graph(std::string_view text, const std::string& file, const std::map<std::string, Tensor>& weights,
                                   bool types_only) {
  return Parser(text, file, weights, types_only).parse();
}

}  // namespace tcc
