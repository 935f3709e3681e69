#include "frontend/fx/size_expr.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "frontend/fx/checked.h"
#include "tcc/graph/graph.h"
#include "tcc/graph/rule_error.h"

namespace tcc::fx {

namespace {

using Op = SizeExpr::Op;

// No size that a tracer writes nests deeper, and a parser that recurses must stop somewhere.
constexpr int kDeepest = 200;

struct Function {
  std::string_view name;
  Op op;
};
constexpr auto kFunctions = std::to_array<Function>({{"Add", Op::add},
                                                     {"Mul", Op::mul},
                                                     {"FloorDiv", Op::floor_div},
                                                     {"CleanDiv", Op::floor_div},
                                                     {"IntTrueDiv", Op::floor_div},
                                                     {"Mod", Op::mod},
                                                     {"PythonMod", Op::mod},
                                                     {"Pow", Op::pow},
                                                     {"PowByNatural", Op::pow},
                                                     {"Min", Op::min},
                                                     {"Max", Op::max}});

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  SizeExpr parse() {
    SizeExpr expr = expression(0);
    blanks();
    if (at_ != text_.size()) fail();
    return expr;
  }

 private:
  [[noreturn]] void fail() const {
    throw RuleError{"malformed-file", "`" + std::string(text_.substr(0, 200)) + "` is not an expression of sizes"};
  }
  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail();
  }

  std::string_view word() {
    blanks();
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    if (begin == at_) fail();
    return text_.substr(begin, at_ - begin);
  }

  int64_t integer() {
    blanks();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail();
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  std::string quoted() {
    blanks();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail();
    const size_t end = text_.find(quote, ++at_);
    if (end == std::string_view::npos) fail();
    const std::string name(text_.substr(at_, end - at_));
    at_ = end + 1;
    return name;
  }

  SizeExpr expression(int depth) {
    if (depth > kDeepest) throw RuleError{"malformed-file", "an expression of sizes nests more than " + std::to_string(kDeepest) + " deep"};
    blanks();
    if (at_ < text_.size() && (text_[at_] == '-' || std::isdigit(static_cast<unsigned char>(text_[at_])))) return integer();
    const std::string_view name = word();
    if (at_ == text_.size() || text_[at_] != '(') {  // a symbol by its bare name
      SizeExpr expr;
      expr.op = Op::symbol;
      expr.symbol = std::string(name);
      return expr;
    }
    expect('(');
    if (name == "Integer") {
      const SizeExpr expr = integer();
      expect(')');
      return expr;
    }
    if (name == "Symbol") return symbol();
    const auto* function = std::find_if(kFunctions.begin(), kFunctions.end(), [&](const Function& f) { return f.name == name; });
    if (function == kFunctions.end()) throw RuleError{"unsupported-op", "a size is computed by `" + std::string(name) + "`"};
    SizeExpr expr;
    expr.op = function->op;
    do { expr.args.push_back(expression(depth + 1)); } while (take(','));
    expect(')');
    const bool is_binary = expr.op == Op::floor_div || expr.op == Op::mod || expr.op == Op::pow;
    if (is_binary && expr.args.size() != 2) fail();
    return expr;
  }

  /// After `Symbol(`: the name, then assumptions like `positive=True`.
  SizeExpr symbol() {
    SizeExpr expr;
    expr.op = Op::symbol;
    expr.symbol = quoted();
    while (take(',')) {
      word();
      expect('=');
      word();
    }
    expect(')');
    return expr;
  }

  std::string_view text_;
  size_t at_ = 0;
};

int64_t combine(Op op, int64_t a, int64_t b) {
  switch (op) {
    case Op::add: return plus(a, b);
    case Op::mul: return times(a, b);
    case Op::floor_div: return floor_div(a, b);
    case Op::mod: return modulo(a, b);
    case Op::pow: return power(a, b);
    case Op::min: return std::min(a, b);
    case Op::max: return std::max(a, b);
    case Op::constant:
    case Op::symbol: break;
  }
  return 0;
}

void collect(const SizeExpr& expr, std::set<std::string>& names) {
  if (expr.op == Op::symbol) names.insert(expr.symbol);
  for (const SizeExpr& arg : expr.args) collect(arg, names);
}

}  // namespace

SizeExpr parse_size_expr(std::string_view text) { return Parser(text).parse(); }

std::optional<int64_t> evaluate(const SizeExpr& expr, const std::map<std::string, int64_t>& symbols) {
  if (expr.op == Op::constant) return expr.value;
  if (expr.op == Op::symbol) {
    const auto found = symbols.find(expr.symbol);
    return found == symbols.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<int64_t> result;
  for (const SizeExpr& arg : expr.args) {
    const std::optional<int64_t> value = evaluate(arg, symbols);
    if (!value) return std::nullopt;
    result = result ? combine(expr.op, *result, *value) : *value;
  }
  return result;
}

std::set<std::string> symbols_of(const SizeExpr& expr) {
  std::set<std::string> names;
  collect(expr, names);
  return names;
}

std::string to_string(const SizeExpr& expr) {
  if (expr.op == Op::constant) return std::to_string(expr.value);
  if (expr.op == Op::symbol) return expr.symbol;
  const bool is_call = expr.op == Op::min || expr.op == Op::max;
  const char* between = expr.op == Op::add         ? " + "
                        : expr.op == Op::mul       ? "*"
                        : expr.op == Op::floor_div ? "//"
                        : expr.op == Op::mod       ? "%"
                        : expr.op == Op::pow       ? "**"
                                                   : ", ";
  std::string text = expr.op == Op::min ? "min(" : expr.op == Op::max ? "max(" : "";
  for (size_t i = 0; i < expr.args.size(); ++i) {
    const bool nested = !is_call && !expr.args[i].args.empty();
    text += (i == 0 ? "" : between) + (nested ? "(" + to_string(expr.args[i]) + ")" : to_string(expr.args[i]));
  }
  return is_call ? text + ")" : text;
}

}  // namespace tcc::fx
