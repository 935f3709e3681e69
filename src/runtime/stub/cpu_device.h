// Running the program on the CPU.
#pragma once

#include "runtime/stub/instance.h"

namespace tcc::stub {

int cpu_create(tcc_instance* instance, const tcc_create_options& options);
void cpu_destroy(tcc_instance* instance);
/// `launch_us`: null, or receives the time of each launch.
int cpu_run(tcc_instance* instance, const RunCall& call, double* launch_us);

/// Monotonic clock.
double now_us();

}  // namespace tcc::stub
