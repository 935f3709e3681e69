// From prims to a library: groups, then for each target a plan and its code, then the linker.
#pragma once

#include <string>
#include <vector>

#include "driver/emit.h"
#include "driver/program.h"
#include "driver/session.h"
#include "tcc/graph/graph.h"
#include "tcc/group/group.h"

namespace tcc::driver {

/// Groups the prims, plans every target; the verifiers run when the session asks. Emits `groups`.
std::vector<TargetBuild> plan_targets(Session& session, const Graph& prims, const std::vector<TargetChoice>& choices, Emitter& emitter);

/// Everything that a plan prints, and the code of all its kernels together. `prims` is for a reproducer; null when there is no graph.
void emit_target(Session& session, const Graph* prims, const TargetBuild& build, Emitter& emitter);
/// The header and the manifest.
void emit_interface(const Graph& interface, std::vector<TargetBuild>& builds, const Options& options, Emitter& emitter);

/// Generates all code and links it. The inputs and outputs of `interface` are the library's; `prims` as above.
void build_library(Session& session, const Graph* prims, const Graph& interface, std::vector<TargetBuild>& builds,
                   const std::string& output);

}  // namespace tcc::driver
