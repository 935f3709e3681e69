// Which temporaries of a unit need be made only once, since kernels make them of weights alone.
//
//   kernel 0 (a1) -> (a1.packed)   kernel 1 (a0, a1.packed) -> (r0)   a1 constant, owned     ->   a1.packed: constant
//                                                                     a1 constant            ->   a1.packed: prepared
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tcc/plan/plan.h"

namespace tcc::plan {

/// Temporaries by name, and whether they are constants or prepared.
using MadeOnce = std::map<std::string, Buffer::Kind>;

/// Those that kernels make of the unit's constant inputs, and of one another, alone; each is made by one kernel. The library has one itself where it then need
/// not have what it is made of, weights that this kernel alone reads, and the host can run the kernel. `owned`: of each parameter, see group::Unit.
MadeOnce made_once(const schedule::ScheduledUnit& scheduled, const Target& target, const std::vector<bool>& owned);
/// Of the kernel's result among them; nothing where each run launches it.
std::optional<Buffer::Kind> kind_made(const loop::Kernel& kernel, const MadeOnce& made);

}  // namespace tcc::plan
