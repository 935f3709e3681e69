// A factor of a contraction in which the sum is not inside, copied so that it is: for instructions that take no transposed factor.
#pragma once

#include <vector>

#include "schedule/chooser.h"
#include "schedule/contraction.h"

namespace tcc::schedule::cuda {

/// Whether the factor can be copied by its axes with those of the sum inside: a parameter that nothing else of the unit reads, indexed by the sum alone along
/// the axes of the sum. `dim`: one of its nest; `k`: the dims of the sum, outermost first.
bool can_turn(const Chooser& chooser, const std::string& dim, const Factor& factor, const std::vector<loop::VarRef>& k);

/// Time that the copy takes in each run.
double turn_ns(const Chooser& chooser, const Factor& factor);

/// Makes the copy in a nest of its own, and schedules that.
void turn(Chooser& chooser, const Factor& factor, const std::vector<loop::VarRef>& k);

}  // namespace tcc::schedule::cuda
