// Sizes that exporters write as arithmetic of other sizes: `2*n + 1`, `floor(h/2)`, `Max(1, s0)`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tcc {

/// The value of an expression; nothing when it names an unknown size or is not of the grammar: + - * / // % ( ) floor ceil Min Max, integers, names.
std::optional<int64_t> evaluate_size(std::string_view expression, const std::map<std::string, int64_t>& symbols);
/// Whether the expression is or mentions that name.
bool size_expression_uses(std::string_view expression, std::string_view symbol);

}  // namespace tcc
