// What the emitters ask of loops bound to vector and unroll, of reduces across threads, and of the size of the code that comes out.
#pragma once

#include <string>
#include <vector>

#include "tcc/loop/loop.h"

namespace tcc::loop {

/// A vector has at most this many lanes.
inline constexpr int64_t kMostLanes = 256;
/// Statements and operations of a kernel's code once `unroll` has written them out, a math function counted as a hundred: compilers take seconds for these.
inline constexpr int64_t kMostOperations = int64_t{1} << 16;

/// Every fault, with the first line of the statement it is in.
std::vector<std::string> verify_lanes(const Kernel& kernel);

}  // namespace tcc::loop
