// The kernel that zeroes the paddings between the pieces of a concat.
#pragma once

#include <vector>

#include "tcc/group/group.h"
#include "tcc/schedule/schedule.h"

namespace tcc::plan {

/// Its one parameter is the base of the paddings, of rank 1.
loop::Kernel padding_kernel(const std::vector<group::Padding>& paddings, const schedule::Target& target);

}  // namespace tcc::plan
