// Random contractions of bf16 operands: several dims of rows, columns, sum and batch, axes in any order, axes of one element, windows of images; operands of the
// epilogue, some of them broadcast.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace tcc::schedule::examples {

struct RandomContraction {
  std::vector<std::string> batch, rows, columns, sum;  ///< dims by name
  int64_t length = 1;                                  ///< of the sum
  std::string text;
};

class ContractionGenerator {
 public:
  explicit ContractionGenerator(uint32_t seed) : random_(seed) {}

  /// `window`: rows are read through a window, whose positions belong to the sum. `narrowed`: the first operand is f32, cast to bf16.
  /// `ordered`: the axes of the operands are in one order, the sum last.
  RandomContraction draw(bool window, bool narrowed, bool ordered = false) {
    RandomContraction made;
    std::vector<Axis> a, b, r;
    const auto add = [&](const std::string& name, int extent, std::initializer_list<std::vector<Axis>*> buffers) {
      extents_.emplace_back(name, extent);
      for (std::vector<Axis>* axes : buffers) axes->push_back({"%" + name, extent});
      return name;
    };
    extents_.clear();
    if (chance(2)) made.batch.push_back(add("b", between(2, 3), {&a, &b, &r}));
    if (chance(2)) made.rows.push_back(add("p", between(2, 4), {&a, &r}));
    const int pixels = between(5, 20);
    made.rows.push_back(add("q", pixels, {&r}));
    if (chance(2)) made.columns.push_back(add("n", between(2, 4), {&b, &r}));
    made.columns.push_back(add("o", between(1, 3) * 8, {&b, &r}));
    if (window) {
      made.sum.push_back(add("w", 3, {&b}));
      a.push_back({"%q + %w - 1", pixels});
    } else {
      a.push_back({"%q", pixels});
    }
    if (chance(2)) made.sum.push_back(add("k", between(2, 3), {&a, &b}));
    made.sum.push_back(add("c", chance(3) ? between(5, 11) : between(1, 3) * 8, {&a, &b}));
    if (chance(3)) b.push_back({"0", 1});
    for (std::vector<Axis>* axes : {&a, &b, &r}) {
      if (ordered || chance(4)) continue;
      std::shuffle(axes->begin(), axes->end(), random_);
    }
    std::vector<std::string> map = made.batch;
    map.insert(map.end(), made.rows.begin(), made.rows.end());
    map.insert(map.end(), made.columns.begin(), made.columns.end());
    for (const auto& [name, extent] : extents_) made.length *= std::count(made.sum.begin(), made.sum.end(), name) > 0 ? extent : 1;
    const std::string first = narrowed ? "f32" : "bf16";
    const std::string result = chance(2) ? "f32" : "bf16";
    std::vector<Axis> added;
    if (chance(2)) {
      added = r;
      for (Axis& axis : added) {
        if (chance(4)) axis = {"0", 1};
      }
    }
    const std::string operand = added.empty() ? "" : ", %a2: " + result + extents(added);
    const std::string value = added.empty() ? "%v0" : "add(%v0, cast<f32>(load %a2" + indices(added) + "))";
    made.text = "unit (%a0: " + first + extents(a) + ", %a1: bf16" + extents(b) + operand + ") -> (%r0: " + result + extents(r) +
                ") {\n  map " + dims(map) + " {\n    %v0: f32 = reduce sum " + dims(made.sum) + " {\n      %v1: " + first + " = load %a0" +
                indices(a) + (window ? narrowed ? " else 0.0" : " else bf16(0.0)" : "") + "\n      %v2: bf16 = load %a1" + indices(b) +
                "\n      yield mul(cast<f32>(" + (narrowed ? "cast<bf16>(%v1)" : "%v1") + "), cast<f32>(%v2))\n    }\n    store cast<" +
                result + ">(" + value + "), %r0" + indices(r) + "\n  }\n}\n";
    return made;
  }

  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(int one_in) { return between(1, one_in) == 1; }

 private:
  struct Axis {
    std::string index;
    int extent;
  };

  template <class F> static std::string joined(size_t count, F part) {
    std::string text;
    for (size_t i = 0; i < count; i++) text += (i ? ", " : "") + part(i);
    return text;
  }
  static std::string extents(const std::vector<Axis>& axes) {
    return "[" + joined(axes.size(), [&](size_t i) { return std::to_string(axes[i].extent); }) + "]";
  }
  static std::string indices(const std::vector<Axis>& axes) {
    return "[" + joined(axes.size(), [&](size_t i) { return axes[i].index; }) + "]";
  }
  std::string dims(const std::vector<std::string>& names) const {
    return joined(names.size(), [&](size_t i) {
      const auto at = std::find_if(extents_.begin(), extents_.end(), [&](const auto& dim) { return dim.first == names[i]; });
      return "%" + names[i] + " in " + std::to_string(at->second);
    });
  }

  std::mt19937 random_;
  std::vector<std::pair<std::string, int>> extents_;
};

}  // namespace tcc::schedule::examples
