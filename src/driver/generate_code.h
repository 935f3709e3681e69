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

/// What a target and its base share.
struct CodeSharing {
  /// By the number of the kernel, that of the same one of the base of this target; empty where there is none of them.
  std::vector<std::optional<size_t>> in_base;
  /// By the number of the kernel, the chips that ptxas assembles it for, each once: those of all targets that launch it.
  std::vector<std::vector<std::string>> cubins;
};

struct GeneratedCode {
  std::vector<link::CpuObject> objects;
  std::vector<link::CudaImage> images;
  std::vector<std::vector<uint32_t>> images_of_kernel;  ///< cuda: by the number of the kernel; none where another target has it
  CodeSharing sharing;                                  ///< cuda
};

/// The name of kernel `number` in printed code, profiles and the manifest.
std::string kernel_name(size_t number);
/// The same of CUDA code, where two targets may have kernels of one number.
std::string entry_name(const TargetChoice& choice, size_t number);

/// For each kernel of `plan` the number of an equal one of `base`.
std::vector<std::optional<size_t>> find_in_base(const plan::Plan& plan, const plan::Plan& base);

/// Code of the kernels that aren't in the target's base.
GeneratedCode generate_kernels(const plan::Plan& plan, const TargetChoice& choice, CodeSharing sharing, int optimization,
                               Progress& progress, TimeReport& times);

/// All kernels in one module, for --emit. `level`: the CPU level or the PTX architecture.
codegen::CompiledModule emit_all_kernels(const plan::Plan& plan, const TargetChoice& choice, const std::string& level, int optimization,
                                         bool want_llvm, bool want_asm);

}  // namespace tcc::driver
