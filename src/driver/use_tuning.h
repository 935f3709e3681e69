// --tune-db: schedules that `tcc tune` found to be the fastest take the place of those that the model of the chip chose.
#pragma once

#include <map>
#include <string>

#include "driver/run_stage.h"
#include "driver/target_build.h"
#include "driver/tuning_database.h"

namespace tcc::driver {

/// The file of --tune-db. Errors: as parse_tuning; unreadable-file.
TuningDatabase read_tuning(const Options& options);

/// What the units compute, for messages: by the keys of their first forms.
using UnitLabels = std::map<std::string, std::string>;

/// Gives the units that the database has its schedules, verified; it is for a build that is not planned yet. A schedule that does not fit any more is a
/// warning, and the choice stays. With --tune-frozen that, and each unit with several candidates that has no entry, is an Error (usage).
void use_tuning(Session& session, TargetBuild& build, const UnitLabels& labels);

/// The unit by the schedule of the entry. Error (usage) at its line when it does not fit.
schedule::ScheduledUnit schedule_tuned(const loop::FirstForm& form, const TuningEntry& entry, const Target& target,
                                       const std::string& file);

}  // namespace tcc::driver
