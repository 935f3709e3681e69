// Units of chained products as text, for tests: the gradients of attention, in sizes, masks and layouts.
#pragma once

#include <string>

namespace tcc::schedule::examples {

struct Chain {
  int batch = 1, rows = 64, columns = 64, depth = 64, width = 64;
  int products = 2;           ///< 1: the weights alone, as for the gradient of values
  bool of_columns = false;    ///< what is of queries lies along the columns: the gradient of keys
  std::string mask{};         ///< a condition on %j (row) and %m (column); where it does not hold the weight is zero
  bool guarded = false;       ///< weights that are NaN are 0
  bool heads_inside = false;  ///< factors are [row, batch, depth]
  bool both = false;          ///< a second result
  bool shares_value = false;  ///< the value is the factor of the first product's columns
  std::string dtype = "bf16";
};

/// r[i, j, d] = sum over m of w[i, j, m] * x[i, m, d], where w = p * (t - delta), p = exp(s / 8 - maximum) * r; s and t are products. Parameters: factors of rows,
/// then of columns, the value, then maximum, r and delta (f32). With `both` a second result is the sum of p times the second product's factor of columns.
inline std::string chain(const Chain& c) {
  const auto n = [](int number) { return std::to_string(number); };
  const auto shape = [&](int rows, int columns) {
    return c.heads_inside ? "[" + n(rows) + ", " + n(c.batch) + ", " + n(columns) + "]"
                          : "[" + n(c.batch) + ", " + n(rows) + ", " + n(columns) + "]";
  };
  const auto at = [&](const std::string& row, const std::string& column) {
    return c.heads_inside ? "[" + row + ", %i, " + column + "]" : "[%i, " + row + ", " + column + "]";
  };
  const std::string statistics = "f32[" + n(c.batch) + ", " + n(c.of_columns ? c.columns : c.rows) + "]";
  std::string text = "unit (%a0: " + c.dtype + shape(c.rows, c.depth) + ", %a1: " + c.dtype + shape(c.columns, c.depth) +
                     ", %a2: " + c.dtype + shape(c.rows, c.depth) + ", %a3: " + c.dtype + shape(c.columns, c.depth) + ", %a4: " + c.dtype +
                     shape(c.columns, c.width) + ", %a5: " + statistics + ", %a6: " + statistics + ", %a7: " + statistics +
                     ") -> (%r0: " + c.dtype + shape(c.rows, c.width) + (c.both ? ", %r1: " + c.dtype + shape(c.rows, c.width) : "") +
                     ") {\n  map %i in " + n(c.batch) + ", %j in " + n(c.rows) + ", %d in " + n(c.width) + " {\n";
  // The names of a sum end in `end`.
  const auto sum = [&](const std::string& end, int products, const std::string& value, const std::string& result) {
    const std::string column = "%m" + end, one = c.of_columns ? "[%i, " + column + "]" : "[%i, %j]";
    text += "    %o" + end + ": f32 = reduce sum " + column + " in " + n(c.columns) + " {\n";
    for (int product = 0; product < products; product++) {
      const std::string p = n(product) + end;
      text += "      %s" + p + ": f32 = reduce sum %k" + p + " in " + n(c.depth) + " {\n        %x" + p + ": " + c.dtype + " = load %a" +
              n(2 * product) + at("%j", "%k" + p) + "\n        %y" + p + ": " + c.dtype + " = load %a" + n(2 * product + 1) +
              at(column, "%k" + p) + "\n        yield mul(cast<f32>(%x" + p + "), cast<f32>(%y" + p + "))\n      }\n";
    }
    text += "      %maximum" + end + ": f32 = load %a5" + one + "\n      %inverse" + end + ": f32 = load %a6" + one + "\n      %delta" +
            end + ": f32 = load %a7" + one + "\n";
    text += "      %e" + end + ": f32 = exp(sub(cast<f32>(cast<" + c.dtype + ">(mul(%s0" + end + ", 0.125))), %maximum" + end + "))\n";
    std::string mask = c.mask;
    for (size_t p = mask.find("%m"); p != std::string::npos; p = mask.find("%m", p + column.size())) mask.replace(p, 2, column);
    const std::string e = mask.empty() ? "%e" + end : "select(" + mask + ", %e" + end + ", 0.0)";
    text += "      %p" + end + ": " + c.dtype + " = cast<" + c.dtype + ">(mul(" + e + ", %inverse" + end + "))\n";
    const std::string wide = "cast<f32>(%p" + end + ")", p = c.guarded ? "select(isnan(" + wide + "), 0.0, " + wide + ")" : wide;
    text += "      %w" + end + ": " + c.dtype + " = cast<" + c.dtype + ">(" +
            (products == 1 ? p : "mul(" + p + ", sub(%s1" + end + ", %delta" + end + "))") + ")\n      %v" + end + ": " + c.dtype +
            " = load " + value + at(column, "%d") + "\n      yield mul(cast<f32>(%w" + end + "), cast<f32>(%v" + end +
            "))\n    }\n    store cast<" + c.dtype + ">(mul(%o" + end + ", 0.5)), " + result + at("%j", "%d") + "\n";
  };
  sum("", c.products, c.shares_value ? "%a1" : "%a4", "%r0");
  if (c.both) sum("b", 1, "%a3", "%r1");
  return text + "  }\n}\n";
}

}  // namespace tcc::schedule::examples
