// The order of a plan's steps: as given, except where a step must wait for another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tcc::plan {

/// What steps keep in memory: blocks that live from the first step that uses them to the last.
struct Footprints {
  std::vector<int64_t> block_bytes;
  std::vector<std::vector<int>> blocks;  ///< of each step, each once
  std::vector<int64_t> own_bytes;        ///< of each step, while it runs
};

/// Steps 0 .. size-1, with edges from those that must come first.
class Order {
 public:
  explicit Order(int size) : after_(static_cast<size_t>(size)) {}
  void add(int before, int after);
  /// Adds edges from all of `before` to `after`, or none and says no when that would make a cycle.
  bool try_add(const std::vector<int>& before, int after);
  /// Takes back what try_add added.
  void remove(const std::vector<int>& before, int after);
  /// Topological orders to choose from, each once. First: the smallest number first among those that could come next. Then: the same, but steps that free
  /// more than they need come as soon as they can, as long as that is no new peak. Then: of the next few numbers, what makes memory grow least.
  std::vector<std::vector<int>> sorted(const Footprints& footprints) const;

 private:
  template <class Pick> std::vector<int> sort(Pick pick) const;

  std::vector<std::vector<int>> after_;
};

}  // namespace tcc::plan
