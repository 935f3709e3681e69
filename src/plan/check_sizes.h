// What no device launches, and what no memory holds.
#pragma once

#include <string>
#include <vector>

#include "tcc/plan/plan.h"

namespace tcc::plan {

/// Of all buffers of a plan together: sums stay far from what 64 bits hold.
inline constexpr int64_t kMaxTotalBytes = int64_t{1} << 60;

/// Before anything is made of the units; afterwards sums over all buffers fit, too. Error (model) "too-large", naming the unit and what it makes.
void check_sizes(const group::Groups& groups, const std::vector<const schedule::ScheduledUnit*>& scheduled, const schedule::Target& target);

/// Once the arena is placed. Error (model) "too-large", naming the largest values.
void check_arena(const Plan& plan, const std::string& file);

}  // namespace tcc::plan
