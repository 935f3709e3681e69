// Scatters whose result depends on the order in which updates arrive.
#pragma once

#include "tcc/loop/loop.h"

namespace tcc::schedule {

/// Whether another order of updates may give another result: floats that are added or multiplied, and assignments, of which the last one stays.
bool order_matters(const loop::Scatter& scatter);
/// Whether two iterations of the dim surely update different elements.
bool keeps_apart(const loop::Var* var, const loop::Scatter& scatter);
/// Whether updates that meet in one element may arrive in another order in each run, and the order matters. Conservative: updates of an element come from one
/// thread where the indices, or a condition as own_updates makes it, say so plainly.
bool depends_on_order(const loop::Kernel& kernel);

}  // namespace tcc::schedule
