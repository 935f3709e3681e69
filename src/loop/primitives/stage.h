// What both forms of `stage` share: by the axes of the buffer (stage.cpp), by the loops inside (stage_by_loops.cpp).
#pragma once

#include <functional>
#include <set>
#include <string>

#include "tcc/loop/edit.h"

namespace tcc::loop {

/// Calls f for each map or `for` with the dim `at`: its body, which then is what is inside of that dim alone, and the variables of the dims bound to threads
/// that stand around or with it. False when there is no such dim.
bool edit_inside(Block& block, const std::string& at, const std::function<void(Block& body, const std::set<const Var*>& threads)>& f);

/// The widest access that the copy can have (a power of two of bytes), given its box and indices.
int widest_access(Copy copy);

}  // namespace tcc::loop
