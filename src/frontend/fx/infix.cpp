#include "frontend/fx/infix.h"

#include <array>
#include <cctype>
#include <charconv>

#include "tcc/graph/graph.h"
#include "tcc/graph/rule_error.h"

namespace tcc::fx {

namespace {

using Op = SizeExpr::Op;
using Order = Condition::Order;

// No size or guard that a tracer writes nests deeper, and a parser that recurses must stop somewhere.
constexpr int kDeepest = 100;
// Operations in one text: a chain of them is as deep a tree.
constexpr int kMostOperations = 2000;

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_word_character(char c) { return is_letter(c) || std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// Recursive descent; the lowest precedence first: or, and, not, comparison, + -, * // %, sign.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  SizeExpr size() {
    SizeExpr expr = sum();
    end("an expression of sizes");
    return expr;
  }
  Condition condition() {
    Condition result = any();
    end("a condition on sizes");
    return result;
  }

 private:
  struct Depth {
    explicit Depth(Parser& parser) : parser(parser) {
      if (++parser.depth_ > kDeepest)
        throw RuleError{"malformed-file", "an expression of sizes nests more than " + std::to_string(kDeepest) + " deep"};
    }
    ~Depth() { --parser.depth_; }
    Parser& parser;
  };

  SizeExpr make(Op op, SizeExpr a, SizeExpr b) {
    if (++num_operations_ > kMostOperations)
      throw RuleError{"malformed-file", "an expression of sizes has more than " + std::to_string(kMostOperations) + " operations"};
    SizeExpr expr;
    expr.op = op;
    expr.args.push_back(std::move(a));
    expr.args.push_back(std::move(b));
    return expr;
  }

  [[noreturn]] void fail(const char* what = "an expression of sizes") const {
    throw RuleError{"malformed-file",
                    "`" + std::string(text_.substr(0, 200)) + "` is not " + what + ", from position " + std::to_string(at_ + 1) + " on"};
  }
  void end(const char* what) {
    blanks();
    if (at_ != text_.size()) fail(what);
  }
  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }
  bool take(std::string_view token) {
    blanks();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  /// A word of letters, not the beginning of a longer one.
  bool take_word(std::string_view word) {
    blanks();
    const std::string_view rest = text_.substr(at_);
    if (!rest.starts_with(word) || (rest.size() > word.size() && is_word_character(rest[word.size()]))) return false;
    at_ += word.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail();
  }

  Condition joined(Condition::Kind kind, std::string_view word, Condition (Parser::*part)()) {
    Condition first = (this->*part)();
    if (!take_word(word)) return first;
    Condition result;
    result.kind = kind;
    result.parts.push_back(std::move(first));
    do { result.parts.push_back((this->*part)()); } while (take_word(word));
    return result;
  }
  Condition any() { return joined(Condition::Kind::any, "or", &Parser::all); }
  Condition all() { return joined(Condition::Kind::all, "and", &Parser::negation); }
  Condition negation() {
    const Depth depth(*this);
    if (!take_word("not")) return comparison();
    Condition result;
    result.kind = Condition::Kind::negate;
    result.parts.push_back(negation());
    return result;
  }

  std::optional<Order> order() {
    constexpr std::array<std::pair<std::string_view, Order>, 6> orders{
        {{"==", Order::eq}, {"!=", Order::ne}, {"<=", Order::le}, {">=", Order::ge}, {"<", Order::lt}, {">", Order::gt}}};
    for (const auto& [token, found] : orders) {
      if (take(token)) return found;
    }
    return std::nullopt;
  }

  /// `a < b`, or a chain `a < b <= c`. A parenthesis may begin a size or a condition: what stands behind it decides.
  Condition comparison() {
    blanks();
    if (at_ < text_.size() && text_[at_] == '(' && !begins_size()) {
      ++at_;
      Condition inner = any();
      expect(")");
      return inner;
    }
    SizeExpr left = sum();
    Condition chain;
    while (const std::optional<Order> found = order()) {
      Condition compare;
      compare.kind = Condition::Kind::compare;
      compare.order = *found;
      compare.left = std::move(left);
      compare.right = left = sum();
      chain.parts.push_back(std::move(compare));
    }
    if (chain.parts.empty()) fail("a condition on sizes");
    if (chain.parts.size() > 1) return chain;
    Condition only = std::move(chain.parts[0]);
    return only;
  }

  /// Whether the parenthesis here holds a size: no comparison and no word of logic is in it.
  bool begins_size() const {
    int depth = 0;
    for (size_t i = at_; i < text_.size(); ++i) {
      const char c = text_[i];
      if (c == '\'') {
        i = text_.find('\'', i + 1);
        if (i == std::string_view::npos) return true;
      } else if (c == '(') {
        ++depth;
      } else if (c == ')') {
        if (--depth == 0) return true;
      } else if (c == '<' || c == '>' || c == '=' || c == '!') {
        return false;
      }
    }
    return true;
  }

  SizeExpr sum() {
    const Depth depth(*this);
    SizeExpr left = product();
    while (true) {
      if (take("+")) left = make(Op::add, std::move(left), product());
      else if (take("-")) left = make(Op::add, std::move(left), make(Op::mul, -1, product()));
      else return left;
    }
  }
  SizeExpr product() {
    SizeExpr left = factor();
    while (true) {
      if (take("//")) left = make(Op::floor_div, std::move(left), factor());
      else if (take("*")) left = make(Op::mul, std::move(left), factor());
      else if (take("%")) left = make(Op::mod, std::move(left), factor());
      else return left;
    }
  }

  SizeExpr factor() {
    const Depth depth(*this);
    blanks();
    if (at_ == text_.size()) fail();
    const char c = text_[at_];
    if (c == '-') {
      if (at_ + 1 < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_ + 1]))) return integer();
      ++at_;
      return make(Op::mul, -1, factor());
    }
    if (std::isdigit(static_cast<unsigned char>(c))) return integer();
    if (c == '\'') return symbol(quoted());
    if (take("(")) {
      SizeExpr inner = sum();
      expect(")");
      return inner;
    }
    const std::string name = word();
    if (!take("(")) return symbol(name);
    if (name != "min" && name != "max") throw RuleError{"malformed-file", "`" + name + "` is not a function of sizes, min and max are"};
    SizeExpr call;
    call.op = name == "min" ? Op::min : Op::max;
    do { call.args.push_back(sum()); } while (take(","));
    expect(")");
    if (call.args.size() < 2) fail();
    return call;
  }

  int64_t integer() {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail();
    at_ = static_cast<size_t>(end - text_.data());
    if (at_ < text_.size() && (is_word_character(text_[at_]) || text_[at_] == '.')) fail();  // 2x, 1.5
    return value;
  }
  std::string word() {
    const size_t begin = at_;
    if (!is_letter(text_[at_])) fail();
    while (at_ < text_.size() && is_word_character(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string quoted() {
    std::string name;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\'') {
        if (at_ + 1 == text_.size() || text_[at_ + 1] != '\'') break;
        ++at_;
      }
      name += text_[at_];
    }
    if (at_ == text_.size() || name.empty()) fail();
    ++at_;
    return name;
  }
  static SizeExpr symbol(std::string name) {
    SizeExpr expr;
    expr.op = Op::symbol;
    expr.symbol = std::move(name);
    return expr;
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0, num_operations_ = 0;
};

bool holds(Order order, int64_t a, int64_t b) {
  switch (order) {
    case Order::eq: return a == b;
    case Order::ne: return a != b;
    case Order::lt: return a < b;
    case Order::le: return a <= b;
    case Order::gt: return a > b;
    case Order::ge: return a >= b;
  }
  return false;
}

}  // namespace

SizeExpr parse_infix(std::string_view text) { return Parser(text).size(); }
Condition parse_condition(std::string_view text) { return Parser(text).condition(); }

std::optional<bool> evaluate(const Condition& condition, const std::map<std::string, int64_t>& symbols) {
  if (condition.kind == Condition::Kind::compare) {
    const auto left = evaluate(condition.left, symbols), right = evaluate(condition.right, symbols);
    return left && right ? std::optional(holds(condition.order, *left, *right)) : std::nullopt;
  }
  if (condition.kind == Condition::Kind::negate) {
    const auto inner = evaluate(condition.parts[0], symbols);
    return inner ? std::optional(!*inner) : std::nullopt;
  }
  const bool decides = condition.kind == Condition::Kind::any;  // what one part must be for the others not to matter
  bool is_known = true;
  for (const Condition& part : condition.parts) {
    const auto value = evaluate(part, symbols);
    if (value == decides) return decides;
    is_known = is_known && value.has_value();
  }
  return is_known ? std::optional(!decides) : std::nullopt;
}

std::set<std::string> symbols_of(const Condition& condition) {
  std::set<std::string> names = symbols_of(condition.left);
  names.merge(symbols_of(condition.right));
  for (const Condition& part : condition.parts) names.merge(symbols_of(part));
  return names;
}

std::string symbol_text(std::string_view name) {
  bool is_word = !name.empty() && is_letter(name[0]) && name != "min" && name != "max";
  for (const char c : name) is_word = is_word && is_word_character(c);
  if (is_word && name != "and" && name != "or" && name != "not") return std::string(name);
  std::string text = "'";
  for (const char c : name) text += c == '\'' ? std::string("''") : std::string(1, c);
  return text + "'";
}

}  // namespace tcc::fx
