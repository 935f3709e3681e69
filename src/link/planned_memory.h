// The memory of an instance, with the layout of the weights at hand.
#pragma once

#include "link/weights_layout.h"
#include "tcc/link/link.h"

namespace tcc::link {

/// `weights`: of at least the program's weights, in its order.
PlannedMemory planned_memory(const ProgramDesc& program, const WeightsLayout& weights, const TargetDesc& target, size_t function);

}  // namespace tcc::link
