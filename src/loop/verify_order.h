#pragma once

#include <string>
#include <vector>

#include "tcc/loop/loop.h"

namespace tcc::loop {

/// Barriers between writes and reads of shared buffers, and the order of the operations of each pipe.
std::vector<std::string> verify_order(const Kernel& kernel);

}  // namespace tcc::loop
