#include "driver/target_build.h"

#include <algorithm>

#include "driver/stage_results.h"
#include "tcc/support/printable.h"

namespace tcc::driver {

const TargetBuild* base_of(const TargetBuild& build, const std::vector<TargetBuild>& builds) {
  if (build.choice.target.base.empty()) return nullptr;
  const auto base = std::find_if(builds.begin(), builds.end(),
                                 [&](const TargetBuild& other) { return other.choice.target.name == build.choice.target.base; });
  return base == builds.end() ? nullptr : &*base;
}

std::vector<std::vector<UnitPtr>> units_of_kernels(const TargetBuild& build) {
  std::vector<std::vector<UnitPtr>> units(build.plans.front().kernels.size());
  for (size_t i = 0; i < build.plans.size(); ++i) {
    for (const std::vector<plan::Launch>* launches : plan::launch_lists(build.plans[i])) {
      for (const plan::Launch& launch : *launches) {
        if (launch.unit < 0) continue;
        const UnitPtr& unit = build.scheduled[i].units[static_cast<size_t>(launch.unit)];
        std::vector<UnitPtr>& known = units[static_cast<size_t>(launch.kernel)];
        const bool is_new =
            std::none_of(known.begin(), known.end(), [&](const UnitPtr& other) { return other->form.key == unit->form.key; });
        if (is_new) known.push_back(unit);
      }
    }
  }
  return units;
}

std::vector<std::string> comments_of_kernels(const TargetBuild& build) {
  constexpr size_t kMostLabels = 3;
  std::vector<std::vector<std::string>> labels(build.plans.front().kernels.size());
  for (const plan::Plan& plan : build.plans) {
    for (const std::vector<plan::Launch>* launches : plan::launch_lists(plan)) {
      for (const plan::Launch& launch : *launches) {
        if (launch.kind != plan::Launch::Kind::kernel || launch.label == plan::kUnitLabel) continue;
        const std::string what = launches == &plan.constants ? "constants of " : launches == &plan.preparations ? "preparation of " : "";
        const std::string label = what + launch.label;
        std::vector<std::string>& known = labels[static_cast<size_t>(launch.kernel)];
        if (std::find(known.begin(), known.end(), label) == known.end()) known.push_back(label);
      }
    }
  }
  std::vector<std::string> comments;
  for (const std::vector<std::string>& known : labels) {
    std::string& comment = comments.emplace_back();
    for (size_t i = 0; i < std::min(known.size(), kMostLabels); ++i) comment += (i > 0 ? ", " : "// ") + printable(known[i]);
    if (known.size() > kMostLabels) comment += " and " + std::to_string(known.size() - kMostLabels) + " more";
    if (!comment.empty()) comment += "\n";
  }
  return comments;
}

StageInput kernels_input(const TargetBuild& build) {
  const bool cpu = build.choice.target.is_cpu();
  return {.arguments = "--from=kernel --target=" + build.choice.name + (cpu ? " --emit=asm" : " --emit=ptx"),
          .form = "kernel",
          .text = [&build] { return print_kernels(build.plans.front().kernels); }};
}

}  // namespace tcc::driver
