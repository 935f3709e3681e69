// A plan per target becomes the one description that the linker takes.
#pragma once

#include <vector>

#include "driver/kernels.h"
#include "driver/targets.h"
#include "tcc/graph/graph.h"
#include "tcc/link/link.h"
#include "tcc/plan/plan.h"

namespace tcc::driver {

struct TargetBuild {
  TargetChoice choice;
  plan::Plan plan;
  GeneratedCode code;  ///< empty until kernels are generated; the description is complete all the same
};

/// The interface is the graph's: its inputs, its outputs. Weights are numbered over all targets. The code of `builds` is moved from.
link::LinkInput make_link_input(const Graph& graph, std::vector<TargetBuild>& builds, const Options& options);

}  // namespace tcc::driver
