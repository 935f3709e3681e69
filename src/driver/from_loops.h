// --from=loop and --from=kernel: units and kernels that no graph stands behind.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "driver/run_stage.h"
#include "driver/target_build.h"
#include "tcc/graph/graph.h"
#include "tcc/loop/loop.h"

namespace tcc::driver {

/// Parameters are inputs and outputs in their order, those of `constants` weights with these values. The caller has the padding of rows in his tensors.
std::unique_ptr<Graph> interface_of(const std::vector<loop::Param>& params, const std::map<std::string, Tensor>& constants = {});

/// Their plans hold the kernels. One unit (or kernel) is also a program: its parameters are the inputs and outputs of `interface`, which is null
/// otherwise.
struct UnitBuilds {
  std::vector<TargetBuild> builds;
  std::unique_ptr<Graph> interface;
};

/// Units: they enter where those of a model are scheduled. --pass gives a schedule for all of them.
UnitBuilds plan_loops(Session& session, const std::vector<TargetChoice>& choices);
/// The units alone, as the primitives of --pass leave them: half of a schedule will do.
std::string print_loops(const Session& session, const TargetChoice& choice);
/// Kernels, all for `choice`.
UnitBuilds plan_kernels(const std::vector<loop::Kernel>& kernels, const TargetChoice& choice);
/// The one of the targets that the kernels name; Error (usage) when it is not among them.
TargetChoice target_of(const std::vector<loop::Kernel>& kernels, const std::vector<TargetChoice>& choices, const std::string& where);

}  // namespace tcc::driver
