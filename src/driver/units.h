// --from=loop and --from=kernel: units and kernels that no graph stands behind.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "driver/program.h"
#include "driver/session.h"
#include "tcc/graph/graph.h"
#include "tcc/loop/loop.h"

namespace tcc::driver {

/// Their plans hold the kernels. One unit (or kernel) is also a program: its parameters are the inputs and outputs of `interface`, which is null
/// otherwise.
struct UnitBuilds {
  std::vector<TargetBuild> builds;
  std::unique_ptr<Graph> interface;
};

/// Units: scheduled by the cost model, or by the primitives of --pass. `with_kernels` false: the units are only printed, half of a schedule will do.
UnitBuilds plan_units(Session& session, const std::vector<TargetChoice>& choices, bool with_kernels);
/// Kernels, all for `choice`.
UnitBuilds plan_kernels(const std::vector<loop::Kernel>& kernels, const TargetChoice& choice);
/// The one of the targets that the kernels name; Error (usage) when it is not among them.
TargetChoice target_of(const std::vector<loop::Kernel>& kernels, const std::vector<TargetChoice>& choices, const std::string& where);

}  // namespace tcc::driver
