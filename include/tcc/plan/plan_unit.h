// The program of one unit, as a model's plan would run it: for those who time it.
#pragma once

#include <span>
#include <string>

#include "tcc/plan/plan.h"

namespace tcc::plan {

/// Inputs and outputs are the unit's parameters but for its constants, whose values `weights` has, in their order. What is made of constants alone is made
/// once, as in the plan of a model.
Plan plan_unit(const schedule::ScheduledUnit& unit, const schedule::Target& target, std::string name, std::span<Weight* const> weights);

}  // namespace tcc::plan
