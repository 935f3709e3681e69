// The constants of a plan, as bytes: what is made of weights alone, such as a weight packed into panels, is made once, when the library is.
//
//   constant k9 "fc1" (@fc1.weight, @fc1.weight.packed)        ->   constant_values[0]: f32[48, 768, 16]
#pragma once

#include <vector>

#include "driver/run_stage.h"
#include "driver/target_build.h"

namespace tcc::driver {

/// Runs what makes the constants of all plans that are not there yet, in this process. Equal bytes whatever machine compiles.
void evaluate_constants(Session& session, std::vector<TargetBuild>& builds);

}  // namespace tcc::driver
