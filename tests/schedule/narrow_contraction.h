// Random products with weights of 4 and 8 bits that are dequantised as they are read: by rows or by blocks of the sum, with and without zero points.
#pragma once

#include <random>
#include <string>

namespace tcc::schedule::examples {

struct NarrowContraction {
  int rows = 1, columns = 8, length = 64, block = 0;  ///< block: neighbours along the sum that share a scale; 0: no scale in the sum
  std::string activations = "bf16", weights = "i4";
  bool zero_points = false, sum_outside = false;  ///< sum_outside: weights are [sum, columns]
  std::string before;                             ///< what stands before the parameter of the weights: `constant `
};

inline std::string narrow_contraction(const NarrowContraction& c) {
  const auto text = [](int number) { return std::to_string(number); };
  const bool is_float = c.weights[0] == 'f';
  const std::string& act = c.activations;
  const auto of_columns = [&](const std::string& column, const std::string& inner) {
    return c.sum_outside ? "[" + inner + ", " + column + "]" : "[" + column + ", " + inner + "]";
  };
  const int blocks = c.block ? (c.length + c.block - 1) / c.block : 1;
  const std::string shape = of_columns(text(c.columns), text(c.length)), at = of_columns("%j", "%k");
  const std::string point_shape = c.block ? of_columns(text(c.columns), text(blocks)) : "[" + text(c.columns) + "]";
  const std::string point_at = c.block ? of_columns("%j", "%k / " + text(c.block)) : "[%j]";
  std::string params = "%a0: " + act + "[" + text(c.rows) + ", " + text(c.length) + "], " + c.before + "%a1: " + c.weights + shape;
  std::string before, inside = "      %v1: " + act + " = load %a0[%i, %k]\n      %v2: " + c.weights + " = load %a1" + at + "\n";
  std::string value = is_float ? "%v2" : "cast<i32>(%v2)";
  if (c.zero_points) {
    params += ", " + c.before + "%a2: " + c.weights + point_shape;
    (c.block ? inside : before) += "      %v3: " + c.weights + " = load %a2" + point_at + "\n";
    value = is_float ? "sub(cast<f32>(%v2), cast<f32>(%v3))" : "sub(cast<i32>(%v2), cast<i32>(%v3))";
  }
  if (c.block) {
    params += ", " + c.before + "%a3: f32" + point_shape;
    inside += "      %v4: f32 = load %a3" + point_at + "\n";
    value = "mul(cast<f32>(" + value + "), %v4)";
  }
  const bool half = act != "f32";
  if (half || !c.block) value = "cast<" + act + ">(" + value + ")";
  const auto widened = [&](const std::string& v) { return half ? "cast<f32>(" + v + ")" : v; };
  return "unit (" + params + ") -> (%r0: " + act + "[" + text(c.rows) + ", " + text(c.columns) + "]) {\n  map %i in " + text(c.rows) +
         ", %j in " + text(c.columns) + " {\n" + before + "    %v0: f32 = reduce sum %k in " + text(c.length) + " {\n" + inside +
         "      yield mul(" + widened("%v1") + ", " + widened(value) + ")\n    }\n    store " + (half ? "cast<" + act + ">(%v0)" : "%v0") +
         ", %r0[%i, %j]\n  }\n}\n";
}

inline NarrowContraction random_narrow(std::mt19937& random) {
  const auto pick = [&]<class T>(std::initializer_list<T> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
  };
  NarrowContraction c;
  c.rows = pick({1, 1, 2, 4, 7, 24, 40});
  c.columns = pick({5, 8, 24, 40, 67});
  c.block = pick({0, 16, 32, 32});
  c.length = c.block ? c.block * pick({2, 3, 5}) - pick({0, 0, 0, 8, 5}) : pick({64, 96, 152, 77});
  c.activations = std::string(pick({"bf16", "bf16", "f16", "f32"}));
  c.weights = std::string(pick({"i4", "u4", "u4", "i8", "u8", "f8e4m3fn"}));
  c.zero_points = random() % 2 == 0;
  c.sum_outside = random() % 4 == 0;
  return c;
}

}  // namespace tcc::schedule::examples
