// Attention units as text, for tests: sizes, masks, layouts.
#pragma once

#include <string>
#include <utility>

namespace tcc::schedule::examples {

struct Attention {
  int batch = 1, rows = 64, columns = 64, depth = 64, width = 64;
  std::string mask{};         ///< an expression of $x, the scaled product, and of %i (batch), %j (row), $k (column); empty: none
  bool guarded = false;       ///< weights that are NaN are 0
  bool heads_inside = false;  ///< factors are [row, batch, depth]
  bool statistics = false;    ///< the maximum of each row and 1 / its sum of exponentials are stored, too
  std::string dtype = "bf16";
};

/// r[i, j, d] = sum over k of softmax(x)[i, j, k] * a2[i, k, d], x = mask(sum of a0[i, j, l] * a1[i, k, l] / 8).
inline std::string attention(const Attention& a) {
  const auto n = [](int number) { return std::to_string(number); };
  const auto shape = [&](int rows, int columns) {
    return a.heads_inside ? "[" + n(rows) + ", " + n(a.batch) + ", " + n(columns) + "]"
                          : "[" + n(a.batch) + ", " + n(rows) + ", " + n(columns) + "]";
  };
  const auto at = [&](const std::string& row, const std::string& column) {
    return a.heads_inside ? "[" + row + ", %i, " + column + "]" : "[%i, " + row + ", " + column + "]";
  };
  int number = 0;
  // An element of a row: the product, and the expression of it.
  const auto element = [&](const std::string& column, const std::string& indent) {
    const std::string s = "s" + n(number), l = "l" + n(number), x = "x" + n(number), m = "m" + n(number);
    number++;
    std::string text = indent + "%" + s + ": f32 = reduce sum %" + l + " in " + n(a.depth) + " {\n" + indent + "  %q" + s + ": " + a.dtype +
                       " = load %a0" + at("%j", "%" + l) + "\n" + indent + "  %k" + s + ": " + a.dtype + " = load %a1" +
                       at(column, "%" + l) + "\n" + indent + "  yield mul(cast<f32>(%q" + s + "), cast<f32>(%k" + s + "))\n" + indent +
                       "}\n";
    std::string masked = "mul(%" + s + ", 0.125)";
    if (!a.mask.empty()) {
      std::string expression = a.mask;
      for (const auto& [from, to] : {std::pair<std::string, std::string>{"$x", masked}, {"$k", column}}) {
        for (size_t p = expression.find(from); p != std::string::npos; p = expression.find(from, p + to.size()))
          expression.replace(p, 2, to);
      }
      masked = expression;
    }
    text += indent + "%" + x + ": f32 = " + masked + "\n";
    return std::pair(text, "%" + x);
  };
  const auto [first, x] = element("%k", "      ");
  const auto [second, y] = element("%kb", "      ");
  const auto [third, z] = element("%kc", "        ");
  const std::string weight = "cast<" + a.dtype + ">(mul(exp(sub(" + z + ", %m)), %r))";
  const std::string guarded = a.guarded ? "        %p: " + a.dtype + " = " + weight + "\n        %w: " + a.dtype + " = cast<" + a.dtype +
                                              ">(select(isnan(cast<f32>(%p)), 0.0, cast<f32>(%p)))\n"
                                        : "        %w: " + a.dtype + " = " + weight + "\n";
  return "unit (%a0: " + a.dtype + shape(a.rows, a.depth) + ", %a1: " + a.dtype + shape(a.columns, a.depth) + ", %a2: " + a.dtype +
         shape(a.columns, a.width) + ", %a3: " + a.dtype + "[" + n(a.rows) + ", " + n(a.columns) + "]) -> (%r0: " + a.dtype +
         shape(a.rows, a.width) +
         (a.statistics ? ", %r1: f32[" + n(a.batch) + ", " + n(a.rows) + "], %r2: f32[" + n(a.batch) + ", " + n(a.rows) + "]" : "") +
         ") {\n  map %i in " + n(a.batch) + ", %j in " + n(a.rows) + " {\n    %m: f32 = reduce max %k in " + n(a.columns) + " {\n" + first +
         "      yield " + x + "\n    }\n    %t: f32 = reduce sum %kb in " + n(a.columns) + " {\n" + second + "      yield exp(sub(" + y +
         ", %m))\n    }\n    %r: f32 = recip(%t)\n" + (a.statistics ? "    store %m, %r1[%i, %j]\n    store %r, %r2[%i, %j]\n" : "") +
         "    map %d in " + n(a.width) + " {\n      %o: f32 = reduce sum %kc in " + n(a.columns) + " {\n" + third + guarded +
         "        %v: " + a.dtype + " = load %a2" + at("%kc", "%d") +
         "\n        yield mul(cast<f32>(%w), cast<f32>(%v))\n      }\n      store cast<" + a.dtype + ">(%o), %r0" + at("%j", "%d") +
         "\n    }\n  }\n}\n";
}

}  // namespace tcc::schedule::examples
