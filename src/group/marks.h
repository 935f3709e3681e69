// Sets of small numbers, such as ids of values, for searches that begin often and look at little.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tcc::group {

class Marks {
 public:
  /// Empties the set, at no cost.
  void clear() { ++now_; }
  bool has(size_t number) const { return number < marked_.size() && marked_[number] == now_; }
  /// Whether it is new.
  bool insert(size_t number) {
    if (number >= marked_.size()) marked_.resize(number + 1);
    const bool is_new = marked_[number] != now_;
    marked_[number] = now_;
    return is_new;
  }

 private:
  std::vector<uint64_t> marked_;  ///< when a number was last inserted
  uint64_t now_ = 1;
};

}  // namespace tcc::group
