// From the functions' prims to a plan of each for each target.
#pragma once

#include <memory>
#include <vector>

#include "driver/describe_library.h"
#include "driver/emit.h"
#include "driver/make_functions.h"
#include "driver/run_stage.h"
#include "driver/stages.h"
#include "tcc/graph/graph.h"

namespace tcc::driver {

/// All functions planned for all targets.
struct Library {
  LibraryInterface interface;
  std::vector<TargetBuild> builds;
  std::vector<std::unique_ptr<Graph>> graphs;  ///< those that the interface and the plans point into
  std::unique_ptr<StateLayout> state;          ///< at an address that stays, for the interface
};

/// Chooses what each function saves and recomputes, lowers, schedules and plans it; --schedule and --kernel then replace what they name. Emits `groups`,
/// `remat`, `forward` and `backward` of the main function.
Library plan_functions(Session& session, Functions functions, const std::vector<TargetChoice>& choices, ProductWriter& writer);

/// How choose-residuals goes about a graph for a target. All references are kept.
ResidualSearch residual_search(const Options& options, const TargetChoice& choice, const plan::PlanOptions& plan_options,
                               UnitCaches& caches, Trials& trials, bool in_halves);

}  // namespace tcc::driver
