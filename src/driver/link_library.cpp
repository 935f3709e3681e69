#include "driver/link_library.h"

#include <filesystem>

#include "driver/evaluate_constants.h"
#include "driver/generate_code.h"
#include "tcc/link/link.h"

namespace tcc::driver {

void link_library(Session& session, const LibraryInterface& interface, std::vector<TargetBuild>& builds, OutputFiles& outputs,
                  const std::string& output) {
  for (TargetBuild& build : builds) {
    const TargetBuild* base = base_of(build, builds);
    guard_stage(session, "generate-code", kernels_input(build), [&] {
      build.code = generate_kernels(build.plans.front(), build.choice, base ? &base->plans.front() : nullptr, session.options.optimization,
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
