// A small evaluator of size expressions by recursive descent.

#include "passes/size_expression.h"

#include <algorithm>
#include <limits>

namespace tcc {
namespace {

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Nesting of parentheses, signs and calls; sizes that exporters write have a few.
constexpr int kMaxDepth = 200;

/// Nothing for what doesn't fit.
std::optional<int64_t> floor_div(int64_t a, int64_t b) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min())) return std::nullopt;
  return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}

std::optional<int64_t> negated(std::optional<int64_t> a) {
  if (!a || *a == std::numeric_limits<int64_t>::min()) return std::nullopt;
  return -*a;
}

// Division is rounded where the expression says so, `floor(a/b)` or `a//b`; a bare `a/b` has to be exact.
class Evaluator {
 public:
  Evaluator(std::string_view text, const std::map<std::string, int64_t>& symbols) : text_(text), symbols_(symbols) {}

  std::optional<int64_t> run() {
    const std::optional<int64_t> value = sum(Rounding::exact);
    skip_spaces();
    return position_ == text_.size() ? value : std::nullopt;
  }

 private:
  enum class Rounding { exact, floor, ceil };
  using Result = std::optional<int64_t>;

  void skip_spaces() {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
  }
  bool accept(std::string_view token) {
    skip_spaces();
    if (!text_.substr(position_).starts_with(token)) return false;
    position_ += token.size();
    return true;
  }

  Result sum(Rounding rounding) {
    Result left = product(rounding);
    while (left) {
      const bool plus = accept("+");
      if (!plus && !accept("-")) break;
      const Result right = product(rounding);
      int64_t result;
      const bool fits = right && !(plus ? __builtin_add_overflow(*left, *right, &result) : __builtin_sub_overflow(*left, *right, &result));
      left = fits ? Result(result) : std::nullopt;
    }
    return left;
  }

  Result product(Rounding rounding) {
    Result left = factor(rounding);
    while (left) {
      enum { times, floor_divide, divide, modulo } op;
      if (accept("*")) op = times;
      else if (accept("//")) op = floor_divide;
      else if (accept("/")) op = divide;
      else if (accept("%")) op = modulo;
      else break;
      const Result right = factor(rounding);
      if (!right) return std::nullopt;
      if (op == times) {
        int64_t result;
        left = __builtin_mul_overflow(*left, *right, &result) ? std::nullopt : Result(result);
        continue;
      }
      const Result quotient = floor_div(*left, *right);
      if (!quotient) return std::nullopt;
      const int64_t remainder = *left - *quotient * *right;
      if (op == divide && rounding == Rounding::exact && remainder != 0) return std::nullopt;
      if (op == modulo) left = remainder;
      else left = *quotient + (op == divide && rounding == Rounding::ceil && remainder != 0);
    }
    return left;
  }

  Result factor(Rounding rounding) {
    if (depth_ == kMaxDepth) return std::nullopt;
    ++depth_;
    const Result value = nested_factor(rounding);
    --depth_;
    return value;
  }

  Result nested_factor(Rounding rounding) {
    if (accept("-")) return negated(factor(rounding));
    if (accept("(")) {
      const Result value = sum(rounding);
      return accept(")") ? value : std::nullopt;
    }
    skip_spaces();
    const size_t begin = position_;
    while (position_ < text_.size() && is_word(text_[position_])) ++position_;
    const std::string word(text_.substr(begin, position_ - begin));
    if (word.empty() || word.size() > 18) return symbol(word);
    if (std::all_of(word.begin(), word.end(), is_digit)) return std::stoll(word);
    if (accept("(")) return call(word);
    return symbol(word);
  }

  Result symbol(const std::string& name) {
    const auto found = symbols_.find(name);
    return found == symbols_.end() ? std::nullopt : Result(found->second);
  }

  Result call(const std::string& name) {
    const bool floors = name == "floor", ceils = name == "ceil" || name == "ceiling";
    const bool max = name == "Max" || name == "max", min = name == "Min" || name == "min";
    if (!floors && !ceils && !max && !min) return std::nullopt;
    Result value = sum(floors ? Rounding::floor : ceils ? Rounding::ceil : Rounding::exact);
    while (value && (max || min) && accept(",")) {
      const Result other = sum(Rounding::exact);
      if (!other) return std::nullopt;
      value = max ? std::max(*value, *other) : std::min(*value, *other);
    }
    return accept(")") ? value : std::nullopt;
  }

  std::string_view text_;
  const std::map<std::string, int64_t>& symbols_;
  size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<int64_t> evaluate_size(std::string_view expression, const std::map<std::string, int64_t>& symbols) {
  // A name may hold any character; the whole text is tried first.
  if (const auto found = symbols.find(std::string(expression)); found != symbols.end()) return found->second;
  return Evaluator(expression, symbols).run();
}

bool size_expression_uses(std::string_view expression, std::string_view symbol) {
  if (symbol.empty()) return false;
  for (size_t at = expression.find(symbol); at != std::string_view::npos; at = expression.find(symbol, at + 1)) {
    const size_t end = at + symbol.size();
    if ((at == 0 || !is_word(expression[at - 1])) && (end == expression.size() || !is_word(expression[end]))) return true;
  }
  return false;
}

}  // namespace tcc
