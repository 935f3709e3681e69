// What the command line's --target, --cpu and -march mean.
#pragma once

#include <string>
#include <vector>

#include "tcc/driver/options.h"
#include "tcc/runtime/program.h"
#include "tcc/target/target.h"

namespace tcc::driver {

/// One kind of device that the library gets code for. All code of one kind comes from one schedule and one plan.
struct TargetChoice {
  std::string name;  ///< "cpu", "cuda": in the names of emitted files
  Target target;
  std::vector<std::string> levels;  ///< cpu: instruction set levels to generate code for
  std::string ptx_arch;             ///< cuda: what the PTX is for
  bool ptx = false;                 ///< cuda: PTX goes into the library
  std::vector<std::string> cubins;  ///< cuda: chips that ptxas assembles its kernels for, those of its base among them
};

/// Errors (usage): an unknown chip or level, no target at all; (environment): a cubin is asked for and ptxas is not found.
std::vector<TargetChoice> choose_targets(const Options& options);

program::CpuLevel cpu_level(const std::string& name);
/// Error (usage) for what is no architecture or one that tcc has no code for.
CudaArch parse_chip(const std::string& name);

}  // namespace tcc::driver
