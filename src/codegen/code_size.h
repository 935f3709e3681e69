// How long code becomes, and where it is kept short.
#pragma once

#include "tcc/loop/loop.h"

namespace tcc::codegen {

/// The iterations of a loop over a register tile that are written once: the values of the slowest register digit, where the body is long, or masked, and leaves
/// the tile as it is. 1: the body is written for each register, as accumulators have to be named.
int64_t rolled_iterations(const loop::Loop& loop);

}  // namespace tcc::codegen
