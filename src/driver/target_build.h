// What a compilation has made for one target.
#pragma once

#include <memory>
#include <vector>

#include "driver/generate_code.h"
#include "driver/run_stage.h"
#include "driver/targets.h"
#include "tcc/plan/plan.h"
#include "tcc/schedule/schedule_units.h"

namespace tcc::driver {

struct TargetBuild {
  TargetChoice choice;
  std::vector<plan::Plan> plans;  ///< one per function of the library, in order; all with the same kernels (plan::merge_kernels)
  std::vector<schedule::ScheduledUnits> scheduled;  ///< of each plan: the units that its launches run
  GeneratedCode code;  ///< of those kernels; empty until they are generated, the description is complete all the same
};

/// The build for the base of this one's target; null when there is none.
const TargetBuild* base_of(const TargetBuild& build, const std::vector<TargetBuild>& builds);

using UnitPtr = std::shared_ptr<const schedule::ScheduledUnit>;
/// Of each kernel, the distinct units that it was cut from, the one that is launched first in front: none for a kernel that the plan itself made, several
/// where kernels of different units are equal.
std::vector<std::vector<UnitPtr>> units_of_kernels(const TargetBuild& build);

/// Of each kernel a comment line, `// <what it computes, in the model's names>`: the labels of the launches that run it, the first few where there are
/// many. Empty for kernels that are not of a model. The labels are printable.
std::vector<std::string> comments_of_kernels(const TargetBuild& build);

/// What goes into code generation.
StageInput kernels_input(const TargetBuild& build);

}  // namespace tcc::driver
