// From a graph of prims to its plan, through the stages between.
#pragma once

#include <gtest/gtest.h>

#include "tcc/plan/plan.h"

namespace tcc::plan {

inline Plan plan_groups(const group::Groups& groups, const schedule::Target& target, const PlanOptions& options = {},
                        schedule::ScheduleCache* cache = nullptr) {
  const group::LoweredUnits lowered = group::lower_units(groups);
  const schedule::ScheduledUnits scheduled = schedule::schedule_units(lowered.forms, target, cache);
  Plan plan = make_plan(groups, lowered, scheduled, options);
  const Estimate of_plan = estimate(plan), alone = estimate_plan(groups, lowered, scheduled, options);
  EXPECT_EQ(alone.arena_bytes, of_plan.arena_bytes) << print(plan);
  EXPECT_EQ(alone.cost_ns, of_plan.cost_ns) << print(plan);
  return plan;
}

inline Plan plan_graph(const Graph& graph, const schedule::Target& target, const PlanOptions& options = {},
                       schedule::ScheduleCache* cache = nullptr) {
  return plan_groups(group::form_groups(graph), target, options, cache);
}

}  // namespace tcc::plan
