#include "driver/emit_target.h"

#include <map>
#include <set>

#include "driver/evaluate_constants.h"
#include "driver/generate_code.h"
#include "driver/stage_results.h"
#include "driver/tuning_database.h"
#include "tcc/codegen/codegen.h"
#include "tcc/schedule/candidates.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/parallel.h"

namespace tcc::driver {

namespace {

// One line per kernel, below comments that say what it computes and why it was chosen; kernels of one unit repeat it, so that a reader finds each by its name. Those that the
// plan itself made have an empty one.
std::string schedules_text(const TargetBuild& build) {
  std::string text;
  const std::vector<std::vector<UnitPtr>> units = units_of_kernels(build);
  const std::vector<std::string> comments = comments_of_kernels(build);
  for (size_t k = 0; k < units.size(); ++k) {
    const schedule::Schedule schedule = units[k].empty() ? schedule::Schedule() : units[k].front()->schedule;
    text += comments[k] + schedule::explain(schedule) + kernel_name(k) + ": " + schedule::print(schedule) + "\n";
  }
  return text;
}

/// The distinct units of all functions, each below the names of its kernels and what the first of them computes.
std::string units_text(const TargetBuild& build) {
  std::map<std::string_view, std::string> kernels_of, comment_of;
  const std::vector<std::vector<UnitPtr>> units = units_of_kernels(build);
  const std::vector<std::string> comments = comments_of_kernels(build);
  for (size_t k = 0; k < units.size(); ++k) {
    for (const UnitPtr& unit : units[k]) {
      std::string& names = kernels_of[unit->form.key];
      if (names.empty()) comment_of[unit->form.key] = comments[k];
      names += (names.empty() ? "" : ", ") + kernel_name(k);
    }
  }
  std::set<std::string_view> printed;
  std::string text;
  for (const schedule::ScheduledUnits& function : build.scheduled) {
    for (const UnitPtr& unit : function.units) {
      if (!printed.insert(unit->form.key).second) continue;
      if (const std::string& names = kernels_of[unit->form.key]; !names.empty()) text += "// " + names + "\n" + comment_of[unit->form.key];
      text += print_forms({unit->form});
    }
  }
  return text;
}

/// The candidates of one unit, a line each, below what the model says of it.
std::string candidates_text(const schedule::ScheduledUnit& unit, const Target& target) {
  std::string text;
  std::vector<std::string> faults;
  for (const schedule::Candidate& candidate : schedule::candidates(*unit.form.unit, target, schedule::kFewCandidates)) {
    text +=
        "// " + print_us(candidate.ns / 1000) + "\n" + schedule::explain(candidate.schedule) + schedule::print(candidate.schedule) + "\n";
    for (const loop::Kernel& kernel : schedule::schedule_unit(unit.form, candidate.schedule, target).kernels) {
      for (const std::string& fault : loop::verify_kernel(kernel)) faults.push_back(fault + "\n  " + schedule::print(candidate.schedule));
    }
  }
  require_well_formed("candidates", faults);
  return text;
}

std::string candidates_text(const TargetBuild& build) {
  std::map<std::string_view, std::string> names;
  std::vector<UnitPtr> distinct;
  const std::vector<std::vector<UnitPtr>> units = units_of_kernels(build);
  const std::vector<std::string> comments = comments_of_kernels(build);
  for (size_t k = 0; k < units.size(); ++k) {
    for (const UnitPtr& unit : units[k]) {
      const auto [at, is_new] = names.try_emplace(unit->form.key, "// " + kernel_name(k) + "\n" + comments[k]);
      if (is_new) distinct.push_back(unit);
    }
  }
  std::vector<std::string> texts(distinct.size());
  parallel_each(distinct.size(), [&](size_t i) { texts[i] = candidates_text(*distinct[i], build.choice.target); });
  std::string text;
  for (size_t i = 0; i < distinct.size(); ++i) text += (i > 0 ? "\n" : "") + names[distinct[i]->form.key] + texts[i];
  return text;
}

/// PTX with the comment of each kernel above its entry.
std::string commented_ptx(const std::string& ptx, const TargetChoice& choice, const std::vector<std::string>& comments) {
  std::string text;
  size_t done = 0;
  for (size_t k = 0; k < comments.size(); ++k) {
    const size_t entry = ptx.find(".visible .entry " + entry_name(choice, k) + "(", done);
    check(entry != std::string::npos, "a kernel has no entry in the PTX, or not in order");
    text += ptx.substr(done, entry - done) + comments[k];
    done = entry;
  }
  return text + ptx.substr(done);
}

}  // namespace

void emit_target(Session& session, const TargetBuild& build, ProductWriter& writer) {
  const TargetChoice& choice = build.choice;
  const plan::Plan& plan = build.plans.front();  // all have the same kernels
  const auto write = [&](std::string_view kind, const auto& make) {
    if (writer.wants(kind, choice)) writer.write(kind, choice.name, make());
  };
  write("loop", [&] { return units_text(build); });
  write("schedule", [&] { return schedules_text(build); });
  if (writer.wants("candidates", choice)) {
    session.progress.step("seeking candidates");
    std::string text;
    run_stage(session, "candidates", kernels_input(build), [&] { text = candidates_text(build); });
    writer.write("candidates", choice.name, text);
  }
  write("kernel", [&] { return print_kernels(plan.kernels, comments_of_kernels(build)); });
  write("plan", [&] {
    std::string text;
    for (const plan::Plan& one : build.plans) text += plan::print(one);
    return text;
  });
  const bool llvm = writer.wants("llvm", choice), assembly = writer.wants("asm", choice) || writer.wants("ptx", choice),
             object = writer.wants("obj", choice);
  if (!llvm && !assembly && !object) return;
  session.progress.step("generating code to print");
  const Timed timed(session.times, "emit-code");
  const std::string level = choice.target.is_cpu() ? choice.levels.front() : choice.ptx_arch;
  codegen::CompiledModule products;
  guard_stage(session, "generate-code", kernels_input(build),
              [&] { products = emit_all_kernels(plan, choice, level, session.options.optimization, llvm, assembly); });
  write("llvm", [&] { return products.llvm_ir; });
  write("ptx", [&] { return commented_ptx(products.assembly, choice, comments_of_kernels(build)); });
  write("asm", [&] { return products.assembly; });
  write("obj", [&] {
    if (choice.target.is_cpu()) return products.object;
    if (codegen::find_ptxas().empty()) {
      throw Error(ExitCode::environment, "missing-tool", "", "--emit=obj for cuda needs ptxas, which is not found",
                  "set TCC_PTXAS to its path, or ask for --emit=ptx");
    }
    return codegen::assemble_ptx(products.assembly, choice.cubins.empty() ? choice.ptx_arch : choice.cubins.front());
  });
}

void emit_interface(Session& session, const LibraryInterface& interface, std::vector<TargetBuild>& builds, ProductWriter& writer) {
  if (!writer.wants("header") && !writer.wants("manifest")) return;
  const Options& options = session.options;
  evaluate_constants(session, builds);
  const link::LinkInput input = make_link_input(interface, builds, options);
  if (writer.wants("header")) writer.write("header", link::write_header(input.program, options.symbol_prefix));
  if (writer.wants("manifest")) writer.write("manifest", link::write_manifest(input));
}

}  // namespace tcc::driver
