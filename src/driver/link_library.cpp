#include "driver/link_library.h"

#include <algorithm>
#include <filesystem>

#include "driver/evaluate_constants.h"
#include "driver/generate_code.h"
#include "tcc/link/link.h"

namespace tcc::driver {

namespace {

/// Of each build.
std::vector<CodeSharing> share_code(const std::vector<TargetBuild>& builds) {
  std::vector<CodeSharing> sharing;
  for (const TargetBuild& build : builds) {
    const plan::Plan& plan = build.plans.front();
    const TargetBuild* base = base_of(build, builds);
    sharing.push_back({base ? find_in_base(plan, base->plans.front()) : std::vector<std::optional<size_t>>(plan.kernels.size()),
                       std::vector<std::vector<std::string>>(plan.kernels.size(), build.choice.cubins)});
  }
  for (size_t i = 0; i < builds.size(); ++i) {
    const TargetBuild* base = base_of(builds[i], builds);
    for (const std::optional<size_t>& kernel : sharing[i].in_base) {
      if (!kernel) continue;
      std::vector<std::string>& cubins = sharing[static_cast<size_t>(base - builds.data())].cubins[*kernel];
      for (const std::string& chip : builds[i].choice.cubins) {
        if (std::find(cubins.begin(), cubins.end(), chip) == cubins.end()) cubins.push_back(chip);
      }
    }
  }
  return sharing;
}

}  // namespace

void link_library(Session& session, const LibraryInterface& interface, std::vector<TargetBuild>& builds, OutputFiles& outputs,
                  const std::string& output) {
  std::vector<CodeSharing> sharing = share_code(builds);
  for (size_t i = 0; i < builds.size(); ++i) {
    TargetBuild& build = builds[i];
    guard_stage(session, "generate-code", kernels_input(build), [&] {
      build.code = generate_kernels(build.plans.front(), build.choice, std::move(sharing[i]), session.options.optimization,
                                    session.progress, session.times);
    });
  }
  evaluate_constants(session, builds);
  session.progress.step("linking");
  const Timed timed(session.times, "link");
  link::LinkInput input = make_link_input(interface, builds, session.options);
  const std::string& soname = session.options.soname;
  if (soname != "none") input.soname = soname.empty() ? std::filesystem::path(output).filename().string() : soname;
  if (!input.embed_weights) link::write_weights_file(input, outputs, weights_path_of(output));
  link::link_shared_object(input, outputs, output);
}

std::string weights_path_of(const std::string& output) { return output + ".weights"; }

}  // namespace tcc::driver
