// Sizes of a captured program: integer expressions over symbols.
//
//   Add(Mul(Symbol('s0', positive=True, integer=True), Integer(2)), Integer(1))      as torch.export writes them
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::fx {

struct SizeExpr {
  enum class Op { constant, symbol, add, mul, floor_div, mod, pow, min, max };
  Op op = Op::constant;
  int64_t value = 0;   ///< constant
  std::string symbol;  ///< symbol
  std::vector<SizeExpr> args;

  SizeExpr() = default;
  SizeExpr(int64_t constant) : value(constant) {}  // NOLINT: a constant is a size
};

/// Parses the text above. RuleError "malformed-file" when it isn't one, "unsupported-op" for a function that no size has.
SizeExpr parse_size_expr(std::string_view text);

/// The value where all symbols are known; nothing when one isn't. RuleError "type-error" when it doesn't fit an i64 or divides by zero.
std::optional<int64_t> evaluate(const SizeExpr& expr, const std::map<std::string, int64_t>& symbols);

std::set<std::string> symbols_of(const SizeExpr& expr);
std::string to_string(const SizeExpr& expr);  ///< infix: "2*s0 + 1"

}  // namespace tcc::fx
