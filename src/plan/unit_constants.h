// What a unit computes of constants alone, and so once, when the library is made.
#pragma once

#include <set>
#include <string>

#include "tcc/schedule/schedule_units.h"

namespace tcc::plan {

/// The temporaries of a unit that are constants: kernels make them of the unit's constant inputs, and of one another, alone. Each is made by one kernel.
std::set<std::string> unit_constants(const schedule::ScheduledUnit& unit, const schedule::Target& target);
/// Whether the kernel of the unit makes one of them.
bool makes_constant(const loop::Kernel& kernel, const std::set<std::string>& constants);

}  // namespace tcc::plan
