// Checks that the parts of a library fit together before they are linked.
#pragma once

#include "tcc/link/link.h"
#include "tcc/support/diagnostics.h"

namespace tcc::link {

/// Throws Error(internal) that names every fault: a launch with a buffer or kernel that is not there, a buffer outside its arena or base,
/// sizes that disagree, a kernel without code.
void check_program(const LinkInput& input);

}  // namespace tcc::link
