// The order of a plan's steps: as given, except where a step must wait for another.
#pragma once

#include <cstddef>
#include <vector>

namespace tcc::plan {

/// Steps 0 .. size-1, with edges from those that must come first.
class Order {
 public:
  explicit Order(int size) : after_(static_cast<size_t>(size)) {}
  void add(int before, int after);
  /// Adds edges from all of `before` to `after`, or none and says no when that would make a cycle.
  bool try_add(const std::vector<int>& before, int after);
  /// Takes back what try_add added.
  void remove(const std::vector<int>& before, int after);
  /// Topological, the smallest number first among those that could come next.
  std::vector<int> sorted() const;

 private:
  std::vector<std::vector<int>> after_;
};

}  // namespace tcc::plan
