// A plan per function and target becomes the one description that the linker takes.
#pragma once

#include <string>
#include <vector>

#include "driver/target_build.h"
#include "tcc/frontend/import.h"
#include "tcc/graph/graph.h"
#include "tcc/graph/state.h"
#include "tcc/link/link.h"
#include "tcc/plan/plan.h"

namespace tcc::driver {

/// One function of the library: a name, and the graph whose inputs (without those that are scalars) and outputs it has. Of what a plan packs,
/// the graph is not asked: that may differ between targets.
struct FunctionInterface {
  std::string name;
  const Graph* graph;
  std::vector<ImportedGuard> guards = {};
};

/// What else the library holds beside its functions.
struct LibraryInterface {
  std::string model_name;
  std::vector<FunctionInterface> functions;  ///< the first is what api->run runs; TargetBuild::plans has the same order
  const StateLayout* state = nullptr;
  std::vector<link::ScalarDesc> scalars;  ///< in the order of PlanOptions::scalars
  int accumulate = 1;
};

/// Weights are numbered over all targets and functions. Inputs and outputs from a plan's first_packed_input or first_packed_output on become
/// one tensor `saved`, as large as the largest that any target packs. The code of `builds` is moved from.
link::LinkInput make_link_input(const LibraryInterface& library, std::vector<TargetBuild>& builds, const Options& options);

}  // namespace tcc::driver
