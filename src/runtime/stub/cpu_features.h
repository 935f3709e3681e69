// What this machine's CPU can do and how much of it this process may use.
#pragma once

#include "tcc/runtime/program.h"

namespace tcc::stub {

/// The highest x86-64 level that the CPU and the operating system support.
program::CpuLevel cpu_level();
/// CPUs in the affinity mask, fewer where a container's quota allows fewer; at least 1.
int usable_cpus();

}  // namespace tcc::stub
