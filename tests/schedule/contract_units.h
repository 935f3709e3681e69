// Contraction units as text, for tests: matmuls with any order of operands, batch dims and epilogue.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

namespace tcc::schedule::examples {

inline std::string replaced(std::string text, std::initializer_list<std::pair<std::string, std::string>> changes) {
  for (const auto& [from, to] : changes) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
  }
  return text;
}

/// A contraction of bf16 with factors of other dtypes: of integers the sum is in i32, unless one is a float.
inline std::string with_factors(const std::string& text, const std::string& a, const std::string& b) {
  const auto is_integer = [](const std::string& dtype) { return dtype[0] == 'i' || dtype[0] == 'u'; };
  const std::string zero = is_integer(a) ? "(0)" : "(0.0)";
  const std::string changed = replaced(text, {{"%a0: bf16", "%a0: " + a},
                                              {"%v1: bf16", "%v1: " + a},
                                              {"%a1: bf16", "%a1: " + b},
                                              {"%v2: bf16", "%v2: " + b},
                                              {"else bf16(0.0)", "else " + a + zero}});
  if (!is_integer(a) || !is_integer(b)) return changed;
  return replaced(changed, {{"%v0: f32", "%v0: i32"},
                            {"cast<f32>(%v1)", "cast<i32>(%v1)"},
                            {"cast<f32>(%v2)", "cast<i32>(%v2)"},
                            {"%r0: f32", "%r0: i32"},
                            {"%r0: bf16", "%r0: i32"},
                            {"%a2: f32", "%a2: i32"},
                            {"%a2: bf16", "%a2: i32"},
                            {"cast<f32>(load %a2", "cast<i32>(load %a2"},
                            {"store cast<bf16>(", "store cast<i32>("},
                            {"store cast<f32>(", "store cast<i32>("}});
}

/// r[m, n] = sum over k of a * b. `turned_a`: a is stored [k, m]; `turned_b`: b is stored [n, k].
inline std::string matmul(const std::string& dtype, int m, int n, int k, bool turned_a, bool turned_b) {
  const auto shape = [](int x, int y) { return "[" + std::to_string(x) + ", " + std::to_string(y) + "]"; };
  const bool half = dtype != "f32";
  const auto widened = [&](const std::string& value) { return half ? "cast<f32>(" + value + ")" : value; };
  return "unit (%a0: " + dtype + (turned_a ? shape(k, m) : shape(m, k)) + ", %a1: " + dtype + (turned_b ? shape(n, k) : shape(k, n)) +
         ") -> (%r0: " + dtype + shape(m, n) + ") {\n  map %i in " + std::to_string(m) + ", %j in " + std::to_string(n) +
         " {\n    %v0: f32 = reduce sum %k in " + std::to_string(k) + " {\n      %v1: " + dtype + " = load %a0" +
         (turned_a ? "[%k, %i]" : "[%i, %k]") + "\n      %v2: " + dtype + " = load %a1" + (turned_b ? "[%j, %k]" : "[%k, %j]") +
         "\n      yield mul(" + widened("%v1") + ", " + widened("%v2") + ")\n    }\n    store " +
         (half ? "cast<" + dtype + ">(%v0)" : "%v0") + ", %r0[%i, %j]\n  }\n}\n";
}

/// Gradient of the weights of a convolution of 32 images: sums over images, rows and columns.
inline std::string conv_weight_gradient(int inputs, int outputs, int size, int window) {
  const std::string i = std::to_string(inputs), o = std::to_string(outputs), n = std::to_string(size), w = std::to_string(window),
                    image = ", " + n + ", " + n + "]", before = window == 1 ? "" : " - " + std::to_string(window / 2),
                    outside = window == 1 ? "" : " else 0.0";
  return "unit (%a0: f32[32, " + i + image + ", %a1: f32[32, " + o + image + ") -> (%r0: f32[" + o + ", " + i + ", " + w + ", " + w +
         "]) {\n  map %i in " + i + ", %j in " + o + ", %k in " + w + ", %l in " + w + " {\n    %v0: f32 = reduce sum %m in 32, %n in " +
         n + ", %p in " + n + " {\n      %v1: f32 = load %a0[%m, %i, %k + %n" + before + ", %l + %p" + before + "]" + outside +
         "\n      %v2: f32 = load %a1[%m, %j, %n, %p]\n      yield mul(%v1, %v2)\n    }\n    store %v0, %r0[%j, %i, %k, %l]\n  }\n}\n";
}

/// A convolution of square kernels with bias and relu; `turned`: with respect to the input, whose kernels are turned around.
struct ConvShape {
  int images, inputs, outputs, height, width, window;
  int stride = 1, dilation = 1;
  bool turned = false;
  std::string dtype = "f32";
};
inline std::string convolution(const ConvShape& s) {
  const auto text = [](int number) { return std::to_string(number); };
  const int pad = s.window / 2 * s.dilation, reach = s.dilation * (s.window - 1);
  const std::string rows = text((s.height + 2 * pad - reach - 1) / s.stride + 1),
                    columns = text((s.width + 2 * pad - reach - 1) / s.stride + 1);
  const auto at = [&](const std::string& pixel, const std::string& position) {
    std::string index = pixel + (s.stride > 1 ? " * " + text(s.stride) : "");
    if (s.window > 1) index += " + " + position + (s.dilation > 1 ? " * " + text(s.dilation) : "") + " - " + text(pad);
    return index;
  };
  const auto position = [&](const std::string& name) {
    return s.window == 1 ? "0" : s.turned ? "-" + name + " + " + text(s.window - 1) : name;
  };
  const std::string window = text(s.window), o = text(s.outputs), c = text(s.inputs), n = text(s.images);
  const bool half = s.dtype != "f32";
  const auto widened = [&](const std::string& value) { return half ? "cast<f32>(" + value + ")" : value; };
  return "unit (%a0: " + s.dtype + "[" + n + ", " + c + ", " + text(s.height) + ", " + text(s.width) + "], %a1: " + s.dtype + "[" +
         (s.turned ? c : o) + ", " + (s.turned ? o : c) + ", " + window + ", " + window + "], %a2: f32[" + o + "]) -> (%r0: " + s.dtype +
         "[" + n + ", " + o + ", " + rows + ", " + columns + "]) {\n  map %i in " + n + ", %j in " + o + ", %k in " + rows + ", %l in " +
         columns + " {\n    %v0: f32 = reduce sum %m in " + c + (s.window > 1 ? ", %n in " + window + ", %p in " + window : "") +
         " {\n      %v1: " + s.dtype + " = load %a0[%i, %m, " + at("%k", "%n") + ", " + at("%l", "%p") + "]" +
         (s.window > 1 ? half ? " else " + s.dtype + "(0.0)" : " else 0.0" : "") + "\n      %v2: " + s.dtype + " = load %a1[" +
         (s.turned ? "%m, %j" : "%j, %m") + ", " + position("%n") + ", " + position("%p") + "]\n      yield mul(" + widened("%v1") + ", " +
         widened("%v2") + ")\n    }\n    %v3: f32 = load %a2[%j]\n    store " +
         (half ? "cast<" + s.dtype + ">(max(add(%v0, %v3), 0.0))" : "max(add(%v0, %v3), 0.0)") +
         ", %r0[%i, %j, %k, %l]\n  "
         "}\n}\n";
}

/// Gradient of a convolution with stride 2 for its input of height x width: zeros between the elements of the results' gradient.
inline std::string strided_input_gradient(int images, int outputs, int inputs, int height, int width, int window) {
  const auto text = [](int number) { return std::to_string(number); };
  const int pad = window / 2;
  const auto rows = [&](int size) { return text((size + 2 * pad - window) / 2 + 1); };
  const auto at = [&](const std::string& pixel, const std::string& position) {
    return window == 1 ? pixel : "(" + pixel + " + " + position + " - " + text(window - 1 - pad) + ")";
  };
  const std::string k = at("%k", "%n"), l = at("%l", "%p"), o = text(outputs), c = text(inputs), n = text(images), w = text(window),
                    turned = window == 1 ? "0, 0" : "-%n + " + text(window - 1) + ", -%p + " + text(window - 1),
                    image = ", " + text(height) + ", " + text(width) + "]";
  return "unit (%a0: f32[" + n + ", " + o + ", " + rows(height) + ", " + rows(width) + "], %a1: f32[" + o + ", " + c + ", " + w + ", " + w +
         "]) -> (%r0: f32[" + n + ", " + c + image + ") {\n  map %i in " + n + ", %j in " + c + ", %k in " + text(height) + ", %l in " +
         text(width) + " {\n    %v0: f32 = reduce sum %m in " + o + (window == 1 ? "" : ", %n in " + w + ", %p in " + w) +
         " {\n      %v1: f32 = load %a0[%i, %m, " + k + " / 2, " + l + " / 2]" + (window == 1 ? "" : " else 0.0") +
         "\n      %v2: f32 = load %a1[%m, %j, " + turned + "]\n      yield mul(select(and(lt(index(" + k + " mod 2), 1), lt(index(" + l +
         " mod 2), 1)), %v1, 0.0), %v2)\n    }\n    store %v0, %r0[%i, %j, %k, %l]\n  }\n}\n";
}

/// Scores of attention: heads are no outer dim of the operands; scale and mask as epilogue.
inline constexpr const char* kAttentionScores = R"(
unit (%a0: f32[2, 40, 3, 32], %a1: f32[2, 36, 3, 32], %a2: f32[2, 1, 1, 36]) -> (%r0: f32[2, 3, 40, 36]) {
  map %i in 2, %j in 3, %k in 40, %l in 36 {
    %v0: f32 = reduce sum %m in 32 {
      %v1: f32 = load %a0[%i, %k, %j, %m]
      %v2: f32 = load %a1[%i, %l, %j, %m]
      yield mul(%v1, %v2)
    }
    %v3: f32 = load %a2[%i, 0, 0, %l]
    store add(mul(%v0, 0.25), %v3), %r0[%i, %j, %k, %l]
  }
})";

/// A linear layer on a batch of sequences with bias, residual and relu; 16-bit operands.
inline constexpr const char* kLinear = R"(
unit (%a0: f16[2, 50, 48], %a1: f16[72, 48], %a2: f16[72], %a3: f16[2, 50, 72]) -> (%r0: f16[2, 50, 72]) {
  map %i in 2, %j in 50, %k in 72 {
    %v0: f32 = reduce sum %l in 48 {
      %v1: f16 = load %a0[%i, %j, %l]
      %v2: f16 = load %a1[%k, %l]
      yield mul(cast<f32>(%v1), cast<f32>(%v2))
    }
    %v3: f16 = load %a2[%k]
    %v4: f16 = load %a3[%i, %j, %k]
    %v5: f32 = add(add(%v0, cast<f32>(%v3)), cast<f32>(%v4))
    store cast<f16>(max(%v5, 0.0)), %r0[%i, %j, %k]
  }
})";

/// The sum runs over a part of the operands: what follows the part is not zero.
inline constexpr const char* kPart = R"(
unit (%a0: f16[32, 96], %a1: f16[32, 96]) -> (%r0: f16[32, 32]) {
  map %i in 32, %j in 32 {
    %v0: f32 = reduce sum %k in 40 {
      %v1: f16 = load %a0[%i, %k + 8]
      %v2: f16 = load %a1[%j, %k]
      yield mul(cast<f32>(%v1), cast<f32>(%v2))
    }
    store cast<f16>(%v0), %r0[%i, %j]
  }
})";

/// A step of an optimizer with the gradient of a weight: two results, a long sum.
inline constexpr const char* kGradientStep = R"(
unit (%a0: f32[1056, 36], %a1: f32[1056, 40], %a2: f32[36, 40], %a3: f32[36, 40]) -> (%r0: f32[36, 40], %r1: f32[36, 40]) {
  map %j in 40, %i in 36 {
    %v0: f32 = reduce sum %k in 1056 {
      %v1: f32 = load %a0[%k, %i]
      %v2: f32 = load %a1[%k, %j]
      yield mul(%v1, %v2)
    }
    %v3: f32 = load %a2[%i, %j]
    %v4: f32 = load %a3[%i, %j]
    %v5: f32 = add(mul(%v3, 0.5), %v0)
    store %v5, %r0[%i, %j]
    store sub(%v4, mul(%v5, 0.25)), %r1[%i, %j]
  }
})";

/// A long sum over a part of the operands that no number of parts divides.
inline constexpr const char* kLongPart = R"(
unit (%a0: f32[40, 1100], %a1: f32[36, 1100]) -> (%r0: f32[40, 36]) {
  map %i in 40, %j in 36 {
    %v0: f32 = reduce sum %k in 1097 {
      %v1: f32 = load %a0[%i, %k]
      %v2: f32 = load %a1[%j, %k]
      yield mul(%v1, %v2)
    }
    store %v0, %r0[%i, %j]
  }
})";

/// Few results of long sums.
inline constexpr const char* kVector = R"(
unit (%a0: f32[1, 300], %a1: f32[20, 300], %a2: f32[20]) -> (%r0: f32[1, 20]) {
  map %i in 20 {
    %v0: f32 = reduce sum %j in 300 {
      %v1: f32 = load %a0[0, %j]
      %v2: f32 = load %a1[%i, %j]
      yield mul(%v1, %v2)
    }
    store add(%v0, load %a2[%i]), %r0[0, %i]
  }
})";

inline constexpr const char* kNarrow = R"(
unit (%a0: f32[5, 7], %a1: f32[7, 3]) -> (%r0: f32[5, 3]) {
  map %i in 5, %j in 3 {
    %v0: f32 = reduce sum %k in 7 { yield mul(load %a0[%i, %k], load %a1[%k, %j]) }
    store %v0, %r0[%i, %j]
  }
})";

inline constexpr const char* kConv = R"(
unit (%a0: f32[2, 5, 14, 13], %a1: f32[16, 5, 3, 3], %a2: f32[16]) -> (%r0: f32[2, 16, 14, 13]) {
  map %b in 2, %i in 16, %j in 14, %k in 13 {
    %v0: f32 = reduce sum %l in 5, %m in 3, %n in 3 {
      %v1: f32 = load %a0[%b, %l, %j + %m - 1, %k + %n - 1] else 0.0
      %v2: f32 = load %a1[%i, %l, %m, %n]
      yield mul(%v1, %v2)
    }
    %v3: f32 = load %a2[%i]
    store max(add(%v0, %v3), 0.0), %r0[%b, %i, %j, %k]
  }
})";

inline constexpr const char* kDepthwiseConv = R"(
unit (%a0: f32[2, 6, 15, 15], %a1: f32[6, 1, 3, 3]) -> (%r0: f32[2, 6, 8, 8]) {
  map %i in 2, %j in 6, %k in 8, %l in 8 {
    %v0: f32 = reduce sum %m in 3, %n in 3 {
      %v1: f32 = load %a0[%i, %j, %k * 2 + %m - 1, %l * 2 + %n - 1] else 0.0
      %v2: f32 = load %a1[%j, 0, %m, %n]
      yield mul(%v1, %v2)
    }
    store %v0, %r0[%i, %j, %k, %l]
  }
})";

}  // namespace tcc::schedule::examples
