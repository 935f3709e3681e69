#include "driver/build.h"

#include <filesystem>
#include <set>

#include "driver/kernels.h"
#include "tcc/codegen/codegen.h"
#include "tcc/loop/loop.h"
#include "tcc/support/diagnostics.h"

namespace tcc::driver {

namespace {

std::string reproducer_arguments(const TargetChoice& choice, const std::string& products) {
  return "--from=prims --target=" + choice.name + " " + products;
}

std::string kernels_text(const plan::Plan& plan) {
  std::string text;
  for (size_t k = 0; k < plan.kernels.size(); ++k) text += loop::print(plan.kernels[k], kernel_name(k));
  return text;
}

// One line per kernel; kernels of one unit repeat its line, so that a reader finds each by its name. Those that the plan itself made have an empty one.
std::string schedules_text(const TargetBuild& build) {
  std::vector<const schedule::ScheduledUnit*> unit_of_kernel(build.plans.front().kernels.size());
  for (size_t i = 0; i < build.plans.size(); ++i) {
    for (const plan::Launch& launch : build.plans[i].launches) {
      if (launch.unit < 0) continue;
      const schedule::ScheduledUnit*& unit = unit_of_kernel[static_cast<size_t>(launch.kernel)];
      if (unit == nullptr) unit = build.scheduled[i].units[static_cast<size_t>(launch.unit)].get();
    }
  }
  std::string text;
  for (size_t k = 0; k < unit_of_kernel.size(); ++k) {
    text += kernel_name(k) + ": " + (unit_of_kernel[k] != nullptr ? schedule::print(unit_of_kernel[k]->schedule) : "") + "\n";
  }
  return text;
}

/// The distinct units of all functions.
std::string units_text(const TargetBuild& build) {
  std::set<std::string_view> seen;
  std::string text;
  for (const schedule::ScheduledUnits& function : build.scheduled) {
    for (const auto& unit : function.units) {
      if (!seen.insert(unit->form.key).second) continue;
      const std::string form = loop::print(*unit->form.unit);
      text += form.ends_with('\n') ? form : form + "\n";
    }
  }
  return text;
}

bool is_cpu(const TargetChoice& choice) { return choice.target.kind == schedule::Target::Kind::cpu; }

}  // namespace

void emit_target(Session& session, const Graph* prims, const TargetBuild& build, Emitter& emitter) {
  const TargetChoice& choice = build.choice;
  const plan::Plan& plan = build.plans.front();  // all have the same kernels
  const auto write = [&](std::string_view kind, const auto& make) {
    if (emitter.wants(kind, choice)) emitter.write(kind, choice.name, make());
  };
  write("loop", [&] { return units_text(build); });
  write("schedule", [&] { return schedules_text(build); });
  write("kernel", [&] { return kernels_text(plan); });
  write("plan", [&] {
    std::string text;
    for (const plan::Plan& one : build.plans) text += plan::print(one);
    return text;
  });
  const bool llvm = emitter.wants("llvm", choice), assembly = emitter.wants("asm", choice) || emitter.wants("ptx", choice),
             object = emitter.wants("obj", choice);
  if (!llvm && !assembly && !object) return;
  session.progress.step("generating code to print");
  const Timed timed(session.times, "emit-code");
  const std::string level = is_cpu(choice) ? choice.levels.front() : choice.ptx_arch;
  codegen::Products products;
  guard_stage(session, "generate-code", prims, reproducer_arguments(choice, "--emit=obj"),
              [&] { products = emit_all_kernels(plan, choice, level, session.options.optimization, llvm, assembly); });
  write("llvm", [&] { return products.llvm_ir; });
  write("ptx", [&] { return products.assembly; });
  write("asm", [&] { return products.assembly; });
  write("obj", [&] {
    if (is_cpu(choice)) return products.object;
    if (codegen::find_ptxas().empty()) {
      throw Error(ExitCode::environment, "missing-tool", "", "--emit=obj for cuda needs ptxas, which is not found",
                  "set TCC_PTXAS to its path, or ask for --emit=ptx");
    }
    return codegen::assemble_ptx(products.assembly, choice.cubins.empty() ? choice.ptx_arch : choice.cubins.front());
  });
}

LibraryInterface interface_of(const Graph& graph) {
  LibraryInterface interface;
  interface.model_name = graph.name;
  interface.functions = {{"infer", &graph}};
  return interface;
}

void emit_interface(const LibraryInterface& interface, std::vector<TargetBuild>& builds, const Options& options, Emitter& emitter) {
  if (!emitter.wants("header") && !emitter.wants("manifest")) return;
  const link::LinkInput input = make_link_input(interface, builds, options);
  if (emitter.wants("header")) emitter.write("header", link::write_header(input.program, options.symbol_prefix));
  if (emitter.wants("manifest")) emitter.write("manifest", link::write_manifest(input));
}

void build_library(Session& session, const Graph* prims, const LibraryInterface& interface, std::vector<TargetBuild>& builds,
                   OutputFiles& outputs, const std::string& output) {
  for (TargetBuild& build : builds) {
    guard_stage(session, "generate-code", prims, reproducer_arguments(build.choice, "-o /dev/null"), [&] {
      build.code = generate_kernels(build.plans.front(), build.choice, session.options.optimization, session.progress, session.times);
    });
  }
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
