// Code for all kernels of a plan, in parallel: one LLVM module per kernel, so that no kernel waits for another and equal plans give equal bytes
// whatever -j says.
#pragma once

#include <string>
#include <vector>

#include "driver/progress.h"
#include "driver/targets.h"
#include "driver/time_report.h"
#include "tcc/codegen/codegen.h"
#include "tcc/link/link.h"
#include "tcc/plan/plan.h"

namespace tcc::driver {

struct GeneratedCode {
  std::vector<link::CpuObject> objects;
  std::vector<link::CudaImage> images;
  std::vector<std::vector<uint32_t>> images_of_kernel;  ///< cuda: by the number of the kernel
};

/// The name of kernel `number` in printed code, profiles and the manifest.
std::string kernel_name(size_t number);

GeneratedCode generate_kernels(const plan::Plan& plan, const TargetChoice& choice, int optimization, Progress& progress, TimeReport& times);

/// All kernels in one module, for --emit. `level`: the CPU level or the PTX architecture.
codegen::CompiledModule emit_all_kernels(const plan::Plan& plan, const TargetChoice& choice, const std::string& level, int optimization,
                                         bool want_llvm, bool want_asm);

}  // namespace tcc::driver
