// The stages between prims and code, as the driver runs them: each is a row of the time report, what it makes is verified when the session asks, and a
// fault in it comes with a file that shows it again.
#pragma once

#include "driver/session.h"
#include "driver/targets.h"
#include "tcc/group/lower_units.h"
#include "tcc/plan/plan.h"
#include "tcc/schedule/schedule_units.h"

namespace tcc::driver {

group::Groups form_groups(Session& session, const Graph& prims);
group::LoweredUnits lower_units(Session& session, const group::Groups& groups);
schedule::ScheduledUnits schedule_units(Session& session, const group::Groups& groups, const group::LoweredUnits& lowered,
                                        const TargetChoice& choice, schedule::ScheduleCache& cache);
plan::Plan make_plan(Session& session, const group::Groups& groups, const group::LoweredUnits& lowered,
                     const schedule::ScheduledUnits& scheduled, const TargetChoice& choice, const plan::PlanOptions& options);

}  // namespace tcc::driver
