#include "frontend/fx/symbolic_numbers.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "frontend/fx/arguments.h"
#include "frontend/fx/checked.h"
#include "tcc/graph/rule_error.h"

namespace tcc::fx {

namespace {

int64_t as_integer(const Number& number) {
  if (const auto* value = std::get_if<bool>(&number)) return *value ? 1 : 0;
  return std::get<int64_t>(number);
}

bool is_float(const Number& number) { return std::holds_alternative<double>(number); }

Number from_double(double value) {
  if (!(std::abs(value) < 9.2e18)) too_large();
  return static_cast<int64_t>(value);
}

using Binary = Number (*)(const Number& a, const Number& b);

/// `integers` may refuse; floats where either is one.
template <auto integers, auto floats> Number arithmetic(const Number& a, const Number& b) {
  if (is_float(a) || is_float(b)) return floats(to_double(a), to_double(b));
  return integers(as_integer(a), as_integer(b));
}

struct BinaryRow {
  std::string_view op;
  Binary function;
};
constexpr auto kBinary = std::to_array<BinaryRow>({
    {"sym.add", arithmetic<plus, [](double a, double b) { return a + b; }>},
    {"sym.sub", arithmetic<minus, [](double a, double b) { return a - b; }>},
    {"sym.mul", arithmetic<times, [](double a, double b) { return a * b; }>},
    {"sym.floordiv", arithmetic<floor_div, [](double a, double b) { return std::floor(a / b); }>},
    {"sym.mod", arithmetic<modulo, [](double a, double b) { return a - std::floor(a / b) * b; }>},
    {"sym.pow", arithmetic<power, [](double a, double b) { return std::pow(a, b); }>},
    {"sym.truediv", [](const Number& a, const Number& b) -> Number { return to_double(a) / to_double(b); }},
    {"sym.max", [](const Number& a, const Number& b) { return to_double(a) < to_double(b) ? b : a; }},
    {"sym.min", [](const Number& a, const Number& b) { return to_double(b) < to_double(a) ? b : a; }},
    {"sym.eq", [](const Number& a, const Number& b) -> Number { return to_double(a) == to_double(b); }},
    {"sym.ne", [](const Number& a, const Number& b) -> Number { return to_double(a) != to_double(b); }},
    {"sym.lt", [](const Number& a, const Number& b) -> Number { return to_double(a) < to_double(b); }},
    {"sym.le", [](const Number& a, const Number& b) -> Number { return to_double(a) <= to_double(b); }},
    {"sym.gt", [](const Number& a, const Number& b) -> Number { return to_double(a) > to_double(b); }},
    {"sym.ge", [](const Number& a, const Number& b) -> Number { return to_double(a) >= to_double(b); }},
    {"sym.and_", [](const Number& a, const Number& b) -> Number { return to_double(a) != 0 && to_double(b) != 0; }},
    {"sym.or_", [](const Number& a, const Number& b) -> Number { return to_double(a) != 0 || to_double(b) != 0; }},
});

struct UnaryRow {
  std::string_view op;
  Number (*function)(const Number& a);
};
constexpr auto kUnary = std::to_array<UnaryRow>({
    {"sym.neg", [](const Number& a) -> Number { return is_float(a) ? Number(-to_double(a)) : Number(minus(0, as_integer(a))); }},
    {"sym.not", [](const Number& a) -> Number { return to_double(a) == 0; }},
    {"sym.not_", [](const Number& a) -> Number { return to_double(a) == 0; }},
    {"sym.int", [](const Number& a) { return is_float(a) ? from_double(std::trunc(to_double(a))) : Number(as_integer(a)); }},
    {"sym.float", [](const Number& a) -> Number { return to_double(a); }},
    {"sym.trunc", [](const Number& a) { return from_double(std::trunc(to_double(a))); }},
    {"sym.math_trunc", [](const Number& a) { return from_double(std::trunc(to_double(a))); }},
    {"sym.math_floor", [](const Number& a) { return from_double(std::floor(to_double(a))); }},
    {"sym.math_ceil", [](const Number& a) { return from_double(std::ceil(to_double(a))); }},
    {"sym.sqrt", [](const Number& a) -> Number { return std::sqrt(to_double(a)); }},
    {"sym.math_sqrt", [](const Number& a) -> Number { return std::sqrt(to_double(a)); }},
});

template <class Table> auto row_of(const Table& table, const std::string& op) {
  return std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.op == op; });
}

}  // namespace

bool is_symbolic_number(const std::string& op) { return row_of(kBinary, op) != kBinary.end() || row_of(kUnary, op) != kUnary.end(); }

Number evaluate_number(const ProgramNode& node, const std::function<const Slot*(const std::string& name)>& find,
                       const std::function<std::optional<int64_t>(const SizeExpr& expr)>& evaluate) {
  std::vector<Number> operands;
  for (const NamedArgument& given : node.arguments) {
    std::optional<Number> number = number_in(given.argument);
    if (const auto* name = given.argument.as<ValueName>()) {
      const Slot* slot = find(name->name);
      if (slot != nullptr) number = slot->number;
    }
    if (const auto* expr = given.argument.as<SizeExpr>()) {
      if (const auto value = evaluate(*expr)) number = *value;
    }
    if (!number) throw RuleError{"unknown-value", "an operand of `" + node.op + "` is not known at compile time"};
    operands.push_back(*number);
  }
  if (const auto row = row_of(kBinary, node.op); row != kBinary.end() && operands.size() == 2)
    return row->function(operands[0], operands[1]);
  if (const auto row = row_of(kUnary, node.op); row != kUnary.end() && operands.size() == 1) return row->function(operands[0]);
  throw RuleError{"malformed-file", "`" + node.op + "` has " + std::to_string(operands.size()) + " operands"};
}

}  // namespace tcc::fx
