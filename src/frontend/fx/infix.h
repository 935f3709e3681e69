// Sizes and conditions of tcc.fx JSON, as text.
//
//   s0*2 + 1        min(s0, 8) // 2        'batch size' % 4
//   s0 >= 1 and (s1 == 2*s0 or not s1 < 4)          1 <= s0 <= 64
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/fx/size_expr.h"

namespace tcc::fx {

/// A size: + - * // % min max, parentheses, integers, symbols (words, or quoted texts). RuleError "malformed-file" for a text that is none.
SizeExpr parse_infix(std::string_view text);

/// What a guard says of sizes.
struct Condition {
  enum class Kind { compare, all, any, negate };
  enum class Order { eq, ne, lt, le, gt, ge };
  Kind kind = Kind::all;
  Order order = Order::eq;  ///< compare: left <order> right
  SizeExpr left, right;
  std::vector<Condition> parts;  ///< all, any: two or more; negate: one
};

/// RuleError "malformed-file" for a text that is none.
Condition parse_condition(std::string_view text);
/// Nothing when it depends on a symbol that isn't known. RuleError as evaluate() of a size.
std::optional<bool> evaluate(const Condition& condition, const std::map<std::string, int64_t>& symbols);
std::set<std::string> symbols_of(const Condition& condition);

/// A symbol as the grammar above has it: as it is when it is a word, else quoted.
std::string symbol_text(std::string_view name);

}  // namespace tcc::fx
