// The stage between groups and schedules: the first forms of all units of a graph.
#pragma once

#include <vector>

#include "tcc/group/group.h"
#include "tcc/loop/first_form.h"

namespace tcc::group {

struct LoweredUnits {
  std::vector<loop::FirstForm> forms;           ///< the distinct ones, in the order of their first units
  std::vector<int> form_of_unit;                ///< of each unit, its number in `forms`
  std::vector<std::vector<IndexCheck>> checks;  ///< of each unit
};

/// Lowers all units, on all threads. The layers of a transformer become a handful of forms: scheduling and code generation run once for each.
LoweredUnits lower_units(const Groups& groups);

}  // namespace tcc::group
