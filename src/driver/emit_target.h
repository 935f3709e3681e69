// What is printed of a library's plans, kernels and code.
#pragma once

#include "driver/describe_library.h"
#include "driver/emit.h"
#include "driver/run_stage.h"

namespace tcc::driver {

/// Everything that plans print, and the code of all their kernels together.
void emit_target(Session& session, const TargetBuild& build, ProductWriter& writer);
/// The header and the manifest.
void emit_interface(Session& session, const LibraryInterface& interface, std::vector<TargetBuild>& builds, ProductWriter& writer);

}  // namespace tcc::driver
