// The stage between groups and schedules: the first forms of all units of a graph.
#pragma once

#include <memory>
#include <vector>

#include "tcc/group/group.h"
#include "tcc/loop/first_form.h"

namespace tcc::group {

struct LoweredUnits {
  std::vector<loop::FirstForm> forms;           ///< the distinct ones, in the order of their first units
  std::vector<int> form_of_unit;                ///< of each unit, its number in `forms`
  std::vector<std::vector<IndexCheck>> checks;  ///< of each unit
};

/// Units that have been lowered already, of whatever graphs. Several threads may use one cache at once.
class LoweringCache {
 public:
  LoweringCache();
  ~LoweringCache();
  LoweringCache(const LoweringCache&) = delete;
  LoweringCache& operator=(const LoweringCache&) = delete;
  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// Lowers all units, on all threads; units of the same structure, and those that the cache (null: none) has, once. The layers of a transformer become a
/// handful of forms: scheduling and code generation run once for each.
LoweredUnits lower_units(const Groups& groups, LoweringCache* cache = nullptr);

}  // namespace tcc::group
