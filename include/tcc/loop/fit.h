// How a primitive says that it can't do what a schedule asks of it: what was found and what would fit. A hand-made schedule is the user's to mend
// (exit 2); the choosers turn the same into an internal error.
#pragma once

#include <string>

#include "tcc/loop/loop.h"
#include "tcc/loop/rewrite.h"

namespace tcc::loop {

/// Error(usage, "invalid-schedule") with the message and, unless empty, a line of help.
[[noreturn]] void unfit(const std::string& message, const std::string& help = "");

/// A name that nothing in the unit has; the help lists those that there are. Where something has the name, but not in the place that a primitive looks at,
/// the message says that it is not `place` ("directly inside a map").
[[noreturn]] void no_such_loop(const Unit& unit, const std::string& name);
[[noreturn]] void no_such_reduce(const Unit& unit, const std::string& name, const std::string& place = "");
[[noreturn]] void no_such_value(const Unit& unit, const std::string& name, const std::string& place = "");  ///< of a let or a reduce
[[noreturn]] void no_such_buffer(const Unit& unit, const std::string& name);

/// A name that a primitive makes and later ones go by (`i_1` of a split `i`): nothing else may have it, or they would find that.
std::string free_name(NameTable& names, const std::string& name);

}  // namespace tcc::loop
