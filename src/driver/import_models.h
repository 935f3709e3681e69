// The first step: what the command names becomes graphs.
#pragma once

#include <vector>

#include "driver/passes.h"
#include "driver/run_stage.h"

namespace tcc::driver {

/// One state for each function of the model, the entry first; of --from=graph and --from=prims the graph that the text holds.
std::vector<PassState> import_models(Session& session);

}  // namespace tcc::driver
