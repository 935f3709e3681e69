// The steps of apply(), for `choose`, which looks at the unit between primitives.
#pragma once

#include "tcc/schedule/schedule.h"

namespace tcc::schedule {

/// One primitive. Error (usage, "invalid-schedule") when there is none of that name or it does not fit.
loop::Unit apply_one(const loop::Unit& unit, const Primitive& primitive);

/// Gives what no primitive named its place: loops run serially (a top-level statement outside any item is one item), local buffers live with the thread.
loop::Unit place(loop::Unit unit, const Target& target);

/// Marks the math for which the target's approximation is good enough. For CUDA.
loop::Unit approximate_math(loop::Unit unit, const Target& target);

}  // namespace tcc::schedule
