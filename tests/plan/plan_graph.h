// From a graph of prims to its plan, through the stages between.
#pragma once

#include "tcc/plan/plan.h"

namespace tcc::plan {

inline Plan plan_groups(const group::Groups& groups, const schedule::Target& target, const PlanOptions& options = {},
                        schedule::ScheduleCache* cache = nullptr) {
  const group::LoweredUnits lowered = group::lower_units(groups);
  return make_plan(groups, lowered, schedule::schedule_units(lowered.forms, target, cache), options);
}

inline Plan plan_graph(const Graph& graph, const schedule::Target& target, const PlanOptions& options = {},
                       schedule::ScheduleCache* cache = nullptr) {
  return plan_groups(group::form_groups(graph), target, options, cache);
}

}  // namespace tcc::plan
