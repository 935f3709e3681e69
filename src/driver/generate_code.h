// Code for all kernels of a plan, in parallel: one LLVM module per kernel, so that no kernel waits for another and equal plans give equal bytes
// whatever -j says.
#pragma once

#include <optional>
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
  std::vector<std::vector<uint32_t>> images_of_kernel;  ///< cuda: by the number of the kernel; none where another target has it
  /// cuda: by the number of the kernel, that of the same one of the target that is the base of this one; empty where there is none of them.
  std::vector<std::optional<size_t>> in_base;
};

/// The name of kernel `number` in printed code, profiles and the manifest.
std::string kernel_name(size_t number);
/// The same of CUDA code, where two targets may have kernels of one number.
std::string entry_name(const TargetChoice& choice, size_t number);

/// `base`: the plan of the target that is the base of this one, whose code for equal kernels is used; null when there is none.
GeneratedCode generate_kernels(const plan::Plan& plan, const TargetChoice& choice, const plan::Plan* base, int optimization,
                               Progress& progress, TimeReport& times);

/// All kernels in one module, for --emit. `level`: the CPU level or the PTX architecture.
codegen::CompiledModule emit_all_kernels(const plan::Plan& plan, const TargetChoice& choice, const std::string& level, int optimization,
                                         bool want_llvm, bool want_asm);

}  // namespace tcc::driver
