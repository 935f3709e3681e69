#include "driver/targets.h"

#include "tcc/codegen/codegen.h"
#include "tcc/support/diagnostics.h"

namespace tcc::driver {

namespace {

[[noreturn]] void usage(const std::string& message, const std::string& help = "") {
  throw Error(ExitCode::usage, "invalid-argument", "", message, help);
}

TargetChoice choose_cpu(const Options& options) {
  TargetChoice choice;
  choice.name = "cpu";
  choice.target = Target::cpu_v3();
  if (options.cpu_levels.empty()) usage("--cpu names no level", "levels are x86-64-v3 and x86-64-v4");
  for (const std::string& level : options.cpu_levels) cpu_level(level);
  choice.levels = options.cpu_levels;
  return choice;
}

TargetChoice cuda_choice(const Target& target, const Options& options) {
  TargetChoice choice;
  choice.name = target.base.empty() ? "cuda" : "cuda-" + target.name;
  choice.target = target;
  choice.target.allow_tf32 = options.allow_tf32;
  choice.target.split_f32 = options.split_f32;
  choice.target.deterministic = options.deterministic;
  choice.ptx_arch = target.name;
  return choice;
}

/// Code with instructions of one chip alone, where that chip is asked for or nothing is; code for every chip from the base on, where others are.
std::vector<TargetChoice> choose_cuda(const Options& options) {
  TargetChoice portable = cuda_choice(Target::cuda_sm80(), options), specific = cuda_choice(Target::cuda_sm90a(), options);
  const bool have_ptxas = !codegen::find_ptxas().empty();
  if (options.march.empty()) {
    portable.ptx = specific.ptx = true;
    // The chip it is for never runs the other plan: a driver that can't take the code of `specific` can't take cubins of a ptxas that knows it either.
    if (have_ptxas) specific.cubins = {specific.target.name};
    return {specific, portable};
  }
  for (const std::string& word : options.march) {
    if (word == "ptx") {
      portable.ptx = true;
      continue;
    }
    parse_chip(word);
    if (!have_ptxas) {
      throw Error(ExitCode::environment, "missing-tool", "", "-march=" + word + " needs ptxas, which is not found",
                  "set TCC_PTXAS to its path, or ask for -march=ptx alone: the driver then compiles for the chip it finds");
    }
    (word == specific.target.name ? specific : portable).cubins.push_back(word);
  }
  std::vector<TargetChoice> choices;
  for (TargetChoice* choice : {&specific, &portable}) {
    if (choice->ptx || !choice->cubins.empty()) choices.push_back(std::move(*choice));
  }
  return choices;
}

}  // namespace

program::CpuLevel cpu_level(const std::string& name) {
  const Target* target = Target::named(name);
  if (target && target->is_cpu()) return static_cast<program::CpuLevel>(target->cpu_level);
  usage("--cpu: `" + name + "` is not a level that tcc generates code for", "levels are x86-64-v3 and x86-64-v4");
}

CudaArch parse_chip(const std::string& name) {
  const std::optional<CudaArch> chip = parse_cuda_arch(name);
  if (!chip || chip->number < parse_cuda_arch(Target::cuda_sm80().name)->number) {
    usage("-march: `" + name + "` is not a chip that tcc generates code for",
          "chips are sm_80 and newer, such as sm_80, sm_90a; `ptx` leaves the choice to the driver");
  }
  return *chip;
}

std::vector<TargetChoice> choose_targets(const Options& options) {
  std::vector<TargetChoice> choices;
  if (options.cuda) choices = choose_cuda(options);
  if (options.cpu) choices.push_back(choose_cpu(options));
  if (choices.empty()) usage("--target names no device", "devices are cuda and cpu");
  return choices;
}

}  // namespace tcc::driver
