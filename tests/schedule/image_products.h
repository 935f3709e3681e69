// Convolutions of images whose channels are last, and their gradients, as first forms.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>

namespace tcc::schedule::examples {

struct ImageProduct {
  int64_t images = 2, height = 8, width = 8, inputs = 32, outputs = 32, window = 3, step = 1, dilation = 1, pad = 1;
  std::string dtype = "bf16";

  int64_t size(int64_t extent) const { return (extent + 2 * pad - dilation * (window - 1) - 1) / step + 1; }
  std::string extents(int64_t rows, int64_t columns, int64_t channels) const {
    return dtype + "[" + std::to_string(images) + ", " + std::to_string(rows) + ", " + std::to_string(columns) + ", " +
           std::to_string(channels) + "]";
  }
  std::string image() const { return extents(height, width, inputs); }
  std::string result() const { return extents(size(height), size(width), outputs); }
  std::string weights() const {
    const std::string window_text = std::to_string(window);
    return dtype + "[" + std::to_string(outputs) + ", " + std::to_string(inputs) + ", " + window_text + ", " + window_text + "]";
  }
  /// The row or column of the image that position `at` of the result reads at a place of the window.
  std::string place(const std::string& at, const std::string& tap) const {
    return at + " * " + std::to_string(step) + " + " + tap + " * " + std::to_string(dilation) + " - " + std::to_string(pad);
  }
  std::string otherwise() const {
    if (pad == 0 && window == 1) return "";
    return dtype == "f32" ? " else 0.0" : " else " + dtype + "(0.0)";
  }
  std::string sum(const std::string& dims, const std::string& a, const std::string& b) const {
    const std::string wide = dtype == "f32" ? "mul(%v1, %v2)" : "mul(cast<f32>(%v1), cast<f32>(%v2))";
    return "    %v0: f32 = reduce sum " + dims + " {\n      %v1: " + dtype + " = " + a + "\n      %v2: " + dtype + " = " + b +
           "\n      yield " + wide + "\n    }\n";
  }
  std::string store(const std::string& value, const std::string& at) const {
    return "    store " + (dtype == "f32" ? value : "cast<" + dtype + ">(" + value + ")") + ", %r0" + at + "\n  }\n}\n";
  }

  std::string forward() const {
    const std::string taps = "%m in " + std::to_string(inputs) + ", %n in " + std::to_string(window) + ", %p in " + std::to_string(window);
    return "unit (%a0: " + image() + ", %a1: " + weights() + ") -> (%r0: " + result() + ") {\n  map %i in " + std::to_string(images) +
           ", %j in " + std::to_string(size(height)) + ", %k in " + std::to_string(size(width)) + ", %l in " + std::to_string(outputs) +
           " {\n" +
           sum(taps, "load %a0[%i, " + place("%j", "%n") + ", " + place("%k", "%p") + ", %m]" + otherwise(), "load %a1[%l, %m, %n, %p]") +
           store("max(%v0, 0.0)", "[%i, %j, %k, %l]");
  }
  /// Of steps of one: the gradient is read through a window, too.
  std::string gradient_of_image() const {
    const std::string taps = "%m in " + std::to_string(outputs) + ", %n in " + std::to_string(window) + ", %p in " + std::to_string(window);
    const std::string shift = " - " + std::to_string(dilation * (window - 1) - pad), last = std::to_string(window - 1);
    const auto at = [&](const std::string& var, const std::string& tap) {
      return var + " + " + tap + " * " + std::to_string(dilation) + shift;
    };
    return "unit (%a0: " + result() + ", %a1: " + weights() + ") -> (%r0: " + image() + ") {\n  map %i in " + std::to_string(images) +
           ", %j in " + std::to_string(height) + ", %k in " + std::to_string(width) + ", %l in " + std::to_string(inputs) + " {\n" +
           sum(taps, "load %a0[%i, " + at("%j", "%n") + ", " + at("%k", "%p") + ", %m]" + otherwise(),
               "load %a1[%m, %l, -%n + " + last + ", -%p + " + last + "]") +
           store("%v0", "[%i, %j, %k, %l]");
  }
  std::string gradient_of_weights() const {
    const std::string dims =
        "%m in " + std::to_string(images) + ", %n in " + std::to_string(size(height)) + ", %p in " + std::to_string(size(width));
    return "unit (%a0: " + image() + ", %a1: " + result() + ") -> (%r0: " + weights() + ") {\n  map %i in " + std::to_string(inputs) +
           ", %j in " + std::to_string(outputs) + ", %k in " + std::to_string(window) + ", %l in " + std::to_string(window) + " {\n" +
           sum(dims, "load %a0[%m, " + place("%n", "%k") + ", " + place("%p", "%l") + ", %i]" + otherwise(), "load %a1[%m, %n, %p, %j]") +
           store("%v0", "[%j, %i, %k, %l]");
  }
};

inline ImageProduct random_image_product(uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  ImageProduct product;
  product.images = pick(1, 4);
  product.window = std::array{1, 2, 3, 3, 3, 5}[static_cast<size_t>(pick(0, 5))];
  product.step = pick(1, 3) == 1 ? pick(2, 3) : 1;
  product.dilation = product.window > 1 && pick(0, 3) == 0 ? 2 : 1;
  product.pad = pick(0, product.dilation * (product.window - 1));
  const int64_t least = product.dilation * (product.window - 1) + 1;
  product.height = std::max(pick(4, 9), least);
  product.width = std::max(pick(4, 9), least);
  product.inputs = 8 * pick(4, 9);
  product.outputs = 8 * pick(5, 9);
  product.dtype = pick(0, 1) == 0 ? "bf16" : "f16";
  return product;
}

}  // namespace tcc::schedule::examples
