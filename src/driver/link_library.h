// Code for all kernels of a library, and the linker.
#pragma once

#include <string>
#include <vector>

#include "driver/describe_library.h"
#include "driver/run_stage.h"
#include "tcc/support/output_files.h"

namespace tcc::driver {

/// Generates all code and links it. The library, and its weights file with --weights=file, are staged among `outputs`.
void link_library(Session& session, const LibraryInterface& interface, std::vector<TargetBuild>& builds, OutputFiles& outputs,
                  const std::string& output);
/// Where --weights=file puts the weights of that library.
std::string weights_path_of(const std::string& output);

}  // namespace tcc::driver
