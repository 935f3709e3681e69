// Numbers that a program computes from sizes: `%n = sym.mul(%sym_size_int, 2)`. Sizes are bound, so these are plain numbers.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "frontend/fx/importer.h"

namespace tcc::fx {

/// Whether the operator computes with numbers alone.
bool is_symbolic_number(const std::string& op);

/// The number that the node computes. RuleError when an operand is not known, or there is no such number (a division by zero).
Number evaluate_number(const ProgramNode& node, const std::function<const Slot*(const std::string& name)>& find,
                       const std::function<std::optional<int64_t>(const SizeExpr& expr)>& evaluate);

}  // namespace tcc::fx
