#include "driver/targets.h"

#include "tcc/codegen/codegen.h"
#include "tcc/support/diagnostics.h"

namespace tcc::driver {

namespace {

// No kernel has a statement that only one chip knows, so PTX of this level serves every chip from here on.
constexpr const char* kPtxArch = "sm_80";
constexpr uint32_t kOldestArch = 80;
// The chip that gets a cubin without being asked for.
constexpr const char* kUsualChip = "sm_90";

[[noreturn]] void usage(const std::string& message, const std::string& help = "") {
  throw Error(ExitCode::usage, "invalid-argument", "", message, help);
}

TargetChoice choose_cpu(const Options& options) {
  TargetChoice choice;
  choice.name = "cpu";
  choice.target = schedule::Target::cpu_v3();
  if (options.cpu_levels.empty()) usage("--cpu names no level", "levels are x86-64-v3 and x86-64-v4");
  for (const std::string& level : options.cpu_levels) cpu_level(level);
  choice.levels = options.cpu_levels;
  return choice;
}

TargetChoice choose_cuda(const Options& options) {
  TargetChoice choice;
  choice.name = "cuda";
  choice.target = schedule::Target::cuda_sm80();
  choice.ptx_arch = kPtxArch;
  const bool have_ptxas = !codegen::find_ptxas().empty();
  if (options.march.empty()) {
    choice.ptx = true;
    if (have_ptxas) choice.cubins = {kUsualChip};
    return choice;
  }
  for (const std::string& word : options.march) {
    if (word == "ptx") {
      choice.ptx = true;
      continue;
    }
    parse_chip(word);
    if (!have_ptxas) {
      throw Error(ExitCode::environment, "missing-tool", "", "-march=" + word + " needs ptxas, which is not found",
                  "set TCC_PTXAS to its path, or ask for -march=ptx alone: the driver then compiles for the chip it finds");
    }
    choice.cubins.push_back(word);
  }
  return choice;
}

}  // namespace

program::CpuLevel cpu_level(const std::string& name) {
  if (name == "x86-64-v3") return program::CpuLevel::v3;
  if (name == "x86-64-v4") return program::CpuLevel::v4;
  usage("--cpu: `" + name + "` is no level that tcc generates code for", "levels are x86-64-v3 and x86-64-v4");
}

Chip parse_chip(const std::string& name) {
  Chip chip;
  std::string digits = name.starts_with("sm_") ? name.substr(3) : "";
  if (!digits.empty() && digits.back() == 'a') {
    chip.specific = true;
    digits.pop_back();
  }
  const bool number = !digits.empty() && digits.size() <= 3 && digits.find_first_not_of("0123456789") == std::string::npos;
  if (number) chip.arch = static_cast<uint32_t>(std::stoul(digits));
  if (!number || chip.arch < kOldestArch) {
    usage("-march: `" + name + "` is no chip that tcc generates code for",
          "chips are sm_80 and newer, such as sm_80, sm_90a; `ptx` leaves the choice to the driver");
  }
  return chip;
}

std::vector<TargetChoice> choose_targets(const Options& options) {
  std::vector<TargetChoice> choices;
  if (options.cuda) choices.push_back(choose_cuda(options));
  if (options.cpu) choices.push_back(choose_cpu(options));
  if (choices.empty()) usage("--target names no device", "devices are cuda and cpu");
  return choices;
}

}  // namespace tcc::driver
