// The kernel that zeroes the gaps between the pieces of a concat.
#pragma once

#include <vector>

#include "tcc/group/group.h"
#include "tcc/schedule/schedule.h"

namespace tcc::plan {

/// Its one parameter is the base of the gaps, of rank 1.
loop::Kernel gap_kernel(const std::vector<group::Gap>& gaps, const schedule::Target& target);

}  // namespace tcc::plan
