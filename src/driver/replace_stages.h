// --schedule and --kernel: stages of a model that were printed, changed, and go back in.
#pragma once

#include <string>
#include <vector>

#include "driver/run_stage.h"
#include "driver/target_build.h"

namespace tcc::driver {

/// A file that --schedule or --kernel names.
struct GivenFile {
  std::string name;  ///< --schedule: the target, or empty; --kernel: the kernel, `k3`
  std::string path;
};
/// `[TARGET=]FILE`, and `kN=FILE`: Error (usage) when it is not.
GivenFile given_schedules(const std::string& text);
GivenFile given_kernel(const std::string& text);

/// Schedules the units anew for which a file of --schedule has a line that is not their own: `k3: split(i, 4) ...` is about the unit that kernel k3 of the
/// plans was cut from. Says whether there were any: the plans are then to be made anew. Errors (usage): a line that names no kernel, or a schedule that
/// does not fit.
bool replace_schedules(Session& session, TargetBuild& build);

/// Puts the kernels of --kernel in the place of those that the plans have. Errors: a kernel that is not well formed (model); one that is not there, or whose
/// parameters differ (usage).
void replace_kernels(Session& session, std::vector<TargetBuild>& builds);

/// Kernels that come of a schedule made by hand are always verified, and their faults are the user's: Error (usage).
void require_runnable(const std::vector<loop::Kernel>& kernels, const std::string& where);

}  // namespace tcc::driver
