// Where values are in memory, as steps behind fusion ask for it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tcc/group/group.h"

namespace tcc::group {

/// Other names of values resolved. What it says stays as it was when it was made.
class Storage {
 public:
  explicit Storage(const Groups& groups) {
    for (const Alias& alias : groups.aliases) base_of_[alias.value] = alias.base;
  }

  bool is_alias(const Value* value) const { return base_of_.contains(value); }
  /// The value that has the memory; itself when it is no alias.
  const Value* of(const Value* value) const {
    for (auto at = base_of_.find(value); at != base_of_.end(); at = base_of_.find(value)) value = at->second;
    return value;
  }

 private:
  std::unordered_map<const Value*, const Value*> base_of_;
};

/// The inputs of which a unit of kind contract makes the factors of its product; what its epilogue alone reads is none of them.
inline std::unordered_set<const Value*> factor_inputs(const Unit& unit) {
  const std::unordered_set<const Value*> inputs(unit.inputs.begin(), unit.inputs.end());
  std::unordered_set<const Value*> found;
  std::vector<const Value*> factors(unit.anchor->operands.begin(), unit.anchor->operands.end());
  for (size_t i = 0; i < factors.size(); ++i) {
    if (inputs.contains(factors[i])) found.insert(factors[i]);
    else if (factors[i]->producer)
      factors.insert(factors.end(), factors[i]->producer->operands.begin(), factors[i]->producer->operands.end());
  }
  return found;
}

/// The order of axes with the last two exchanged; of less than two axes, as they are.
inline std::vector<int64_t> turned_order(size_t rank) {
  std::vector<int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  if (rank >= 2) std::swap(order[rank - 2], order[rank - 1]);
  return order;
}

}  // namespace tcc::group
