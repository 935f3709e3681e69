// Names, indices and expressions of the text.
#include "loop/parse_expr.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tcc/ops/scalar.h"
#include "tcc/support/diagnostics.h"

namespace tcc::loop {
namespace {

constexpr int kDeepest = 1000;
constexpr double kFarthest = 1LL << 60;

}  // namespace

ExprParser::Deeper::Deeper(ExprParser& parser) : parser_(parser) {
  if (++parser_.depth_ > kDeepest) parser_.lexer_.fail("nested more than " + std::to_string(kDeepest) + " deep");
}

int64_t ExprParser::integer(int64_t low, int64_t high) {
  const int64_t value = lexer_.expect_integer();
  if (value < low || value > high)
    lexer_.fail("found " + std::to_string(value) + ", expected a number from " + std::to_string(low) + " to " + std::to_string(high));
  return value;
}

int ExprParser::small_integer() { return static_cast<int>(integer(-(1 << 30), 1 << 30)); }

// ------------------------------------------------------------------------------------------------------------ names

void ExprParser::define(const std::string& written, Symbol symbol) {
  if (lookup(written)) lexer_.fail("`" + print_value_name(written) + "` is defined already");
  scopes_.back().emplace(written, std::move(symbol));
}

const ExprParser::Symbol* ExprParser::lookup(const std::string& name) const {
  for (size_t i = scopes_.size(); i-- > 0;) {
    const auto at = scopes_[i].find(name);
    if (at != scopes_[i].end()) return &at->second;
  }
  return nullptr;
}

const ExprParser::Symbol& ExprParser::find(const std::string& name) const {
  const Symbol* symbol = lookup(name);
  if (!symbol) lexer_.fail("`" + print_value_name(name) + "` is not defined here");
  return *symbol;
}

BufferRef ExprParser::buffer() {
  const std::string name = lexer_.expect_value();
  const BufferRef result = find(name).buffer;
  if (!result) lexer_.fail("`" + print_value_name(name) + "` is not a buffer");
  return result;
}

PipeRef ExprParser::pipe() {
  const std::string name = lexer_.expect_value();
  const PipeRef result = find(name).pipe;
  if (!result) lexer_.fail("`" + print_value_name(name) + "` is not a pipe");
  return result;
}

DType ExprParser::dtype() {
  const std::string word = lexer_.expect_identifier();
  const auto result = parse_dtype(word);
  if (!result) lexer_.fail("`" + word + "` is not a dtype");
  return *result;
}

std::vector<int64_t> ExprParser::integers(std::string_view close) {
  std::vector<int64_t> result;
  while (!lexer_.accept(close)) {
    if (!result.empty()) lexer_.expect(",");
    result.push_back(lexer_.expect_integer());
  }
  return result;
}

// ---------------------------------------------------------------------------------------------------------- indices

Index ExprParser::bounded(const Index& index) const {
  double reach = std::abs(static_cast<double>(index.constant()));
  for (const Term& term : index.terms()) {
    const double most = term.atom.var                       ? static_cast<double>(term.atom.var->extent)
                        : term.atom.kind == Atom::Kind::mod ? static_cast<double>(term.atom.divisor)
                                                            : 1;
    reach += std::abs(static_cast<double>(term.coefficient)) * std::max(most, 1.0);
  }
  if (reach > kFarthest) lexer_.fail("an index that 64 bits don't hold");
  return index;
}

Index ExprParser::times(const Index& index, int64_t by) const {
  double largest = std::abs(static_cast<double>(index.constant()));
  for (const Term& term : index.terms()) largest = std::max(largest, std::abs(static_cast<double>(term.coefficient)));
  if (largest * std::abs(static_cast<double>(by)) > kFarthest) lexer_.fail("an index that 64 bits don't hold");
  return bounded(index * by);
}

Index ExprParser::factor() {
  const Deeper deeper(*this);
  if (lexer_.accept("(")) {
    const Index result = index();
    lexer_.expect(")");
    return result;
  }
  if (lexer_.peek().kind == TokenKind::integer) return bounded(Index(lexer_.expect_integer()));
  const std::string name = lexer_.expect_value();
  const Symbol& symbol = find(name);
  if (symbol.var) return Index(symbol.var);
  if (symbol.scalar && !is_float(symbol.scalar->dtype)) return Index::of_scalar(symbol.scalar);
  lexer_.fail("`" + print_value_name(name) + "` is neither a loop variable nor an integer scalar");
}

Index ExprParser::term() {
  const bool negative = lexer_.accept("-");
  Index result = factor();
  while (true) {
    if (lexer_.accept("*")) {
      const Index other = factor();
      if (!result.is_constant() && !other.is_constant()) lexer_.fail("an index multiplies by constants only");
      result = other.is_constant() ? times(result, other.constant()) : times(other, result.constant());
    } else if (lexer_.at("/") || lexer_.at("mod")) {
      const bool divide = lexer_.next().text == "/";
      const int64_t divisor = lexer_.expect_integer();
      if (divisor <= 0) lexer_.fail("a divisor is " + std::to_string(divisor) + ", expected a positive one");
      result = divide ? floor_div(result, divisor) : mod(result, divisor);
    } else {
      return negative ? result * -1 : result;
    }
  }
}

Index ExprParser::index() {
  Index result = term();
  while (true) {
    if (lexer_.accept("+")) result = bounded(result + term());
    else if (lexer_.accept("-")) result = bounded(result - term());
    else return result;
  }
}

std::vector<Index> ExprParser::indices(const BufferRef& buffer) {
  std::vector<Index> result;
  lexer_.expect("[");
  while (!lexer_.accept("]")) {
    if (!result.empty()) lexer_.expect(",");
    result.push_back(index());
  }
  if (result.size() != buffer->extents.size()) {
    lexer_.fail("found " + std::to_string(result.size()) + " indices, `" + print_value_name(buffer->name) + "` has " +
                std::to_string(buffer->extents.size()) + " axes");
  }
  return result;
}

// ------------------------------------------------------------------------------------------------------ expressions

ExprPtr ExprParser::number(DType type) {
  if (is_float(type)) return constant_float(type, lexer_.expect_number());
  const Token token = lexer_.peek();
  if (type == DType::u64 && token.kind == TokenKind::floating) {  // beyond i64: the lexer gives it as a float, its text is exact
    lexer_.next();
    return constant_int(type, static_cast<int64_t>(std::stoull(token.text)));
  }
  return constant_int(type, lexer_.expect_integer());
}

ExprPtr ExprParser::expr() {
  const Deeper deeper(*this);
  const Token token = lexer_.peek();
  if (token.kind == TokenKind::value) {
    const std::string name = lexer_.expect_value();
    const Symbol& symbol = find(name);
    if (symbol.var)
      lexer_.fail("`" + print_value_name(name) + "` is a loop variable: its value is written `index(" + print_value_name(name) + ")`");
    if (!symbol.scalar) lexer_.fail("`" + print_value_name(name) + "` is not a scalar");
    return scalar_value(symbol.scalar);
  }
  if (token.kind == TokenKind::integer) return constant_int(DType::i64, lexer_.expect_integer());
  if (token.kind == TokenKind::floating || lexer_.at("-") || lexer_.at("inf") || lexer_.at("nan")) return number(DType::f32);
  const std::string word = lexer_.expect_identifier();
  if (word == "true" || word == "false") return constant_int(DType::boolean, word == "true");
  if (word == "load") {
    const BufferRef from = buffer();
    std::vector<Index> at = indices(from);
    ExprPtr otherwise = lexer_.accept("else") ? expr() : nullptr;
    if (otherwise && otherwise->dtype != from->dtype) {
      lexer_.fail("the value after `else` is " + std::string(name_of(otherwise->dtype)) + ", the buffer " +
                  std::string(name_of(from->dtype)));
    }
    return load(from, std::move(at), std::move(otherwise));
  }
  if (word == "index") {
    lexer_.expect("(");
    const Index value = index();
    lexer_.expect(")");
    return index_value(value);
  }
  if (const auto type = parse_dtype(word)) {
    lexer_.expect("(");
    ExprPtr value = number(*type);
    lexer_.expect(")");
    return value;
  }
  constexpr std::string_view kMark = "approx.";
  const bool marked = word.starts_with(kMark);
  const auto op = parse_op(marked ? word.substr(kMark.size()) : word);
  if (!op || (marked && !has_approximation(*op))) lexer_.fail("`" + word + "` is not a pointwise prim");
  if (*op == Op::cast_ || *op == Op::bitcast_) {
    lexer_.expect("<");
    const DType to = dtype();
    lexer_.expect(">");
    lexer_.expect("(");
    const ExprPtr value = expr();
    lexer_.expect(")");
    if (*op == Op::bitcast_ && size_bits(value->dtype) != size_bits(to)) lexer_.fail("`bitcast` between dtypes of different widths");
    return *op == Op::cast_ ? cast_to(value, to) : bitcast_to(value, to);
  }
  lexer_.expect("(");
  std::vector<ExprPtr> args;
  std::vector<DType> dtypes;
  while (!lexer_.accept(")")) {
    if (!args.empty()) lexer_.expect(",");
    args.push_back(expr());
    dtypes.push_back(args.back()->dtype);
  }
  if (!result_dtype(*op, dtypes)) {
    std::string given;
    for (DType d : dtypes) given += (given.empty() ? "" : ", ") + std::string(name_of(d));
    lexer_.fail("`" + word + "` does not take (" + given + ")");
  }
  const ExprPtr result = apply(*op, std::move(args));
  if (!marked) return result;
  const ExprPtr approximate = approximated(result);
  if (!approximate->approximate) lexer_.fail("`" + word + "` is computed in f32");
  return approximate;
}

}  // namespace tcc::loop
