// A kernel is named by its number in the plans, as all that is printed names it. Numbers change when a unit gets more kernels or fewer. So those of
// --schedule are the numbers of what is printed without that flag, and those of --kernel of what is printed without --kernel.

#include "driver/replace_stages.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "driver/stage_results.h"
#include "tcc/driver/read_ir.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::driver {

namespace {

[[noreturn]] void refuse(const std::string& where, const std::string& message, const std::string& help) {
  throw Error(ExitCode::usage, "invalid-argument", where, message, help);
}

/// "k12" -> 12.
std::optional<size_t> kernel_number(std::string_view name) {
  size_t number = 0;
  if (!name.starts_with('k') || name.size() < 2) return std::nullopt;
  const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() ? std::optional(number) : std::nullopt;
}

size_t require_kernel(std::string_view name, const TargetBuild& build, const std::string& where) {
  const size_t count = build.plans.front().kernels.size();
  const std::optional<size_t> number = kernel_number(name);
  if (number && *number < count) return *number;
  refuse(where, "there is no kernel `" + std::string(name) + "` for " + build.choice.name,
         count == 0 ? "the model has no kernels" : "--emit=kernel prints them: k0 to " + kernel_name(count - 1));
}

// ------------------------------------------------------------------------------------------------------------ schedules

struct Line {
  size_t kernel = 0;
  schedule::Schedule schedule;
  std::string where;  ///< "file:line"
};

std::vector<Line> read_lines(const std::string& path, const TargetBuild& build) {
  const std::string text = read_text_file(path);
  std::vector<Line> lines;
  int number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = trimmed(std::string_view(text).substr(at, end - at));
    const std::string where = path + ":" + std::to_string(++number);
    at = end + 1;
    if (line.empty() || line.starts_with("//")) continue;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !kernel_number(line.substr(0, colon)))
      refuse(where, "a kernel and its schedule were expected, found `" + std::string(line) + "`",
             "lines are as --emit=schedule prints them: `k3: split(i, 4)`");
    try {
      lines.push_back(
          {require_kernel(line.substr(0, colon), build, where), schedule::parse_schedule(line.substr(colon + 1), where), where});
    } catch (const Error& error) {
      if (error.code() == ExitCode::usage) throw;
      throw Error(ExitCode::usage, "invalid-schedule", where, error.diagnostics()[0].message, "a primitive is written like `split(i, 4)`");
    }
  }
  return lines;
}

/// The schedules that are new, by the key of their unit.
std::map<std::string, const Line*> changed_units(const std::vector<Line>& lines, const TargetBuild& build) {
  const std::vector<std::vector<UnitPtr>> units = units_of_kernels(build);
  std::map<std::string, const Line*> changed;
  for (const Line& line : lines) {
    const std::vector<UnitPtr>& of_kernel = units[line.kernel];
    if (of_kernel.empty() && !line.schedule.empty())
      refuse(line.where, "`" + kernel_name(line.kernel) + "` was cut from no unit: it fills the padding of a concat", "leave its line out");
    for (const UnitPtr& unit : of_kernel) {
      // Of units that share the kernel the line is of the first, and of those with the same schedule.
      if (line.schedule == unit->schedule || unit->schedule != of_kernel.front()->schedule) continue;
      const auto [at, is_new] = changed.emplace(unit->form.key, &line);
      if (!is_new && at->second->schedule != line.schedule)
        refuse(line.where,
               "`" + kernel_name(line.kernel) + "` is cut from one unit with `" + kernel_name(at->second->kernel) + "` of " +
                   at->second->where + ", which has another schedule",
               "change one of the lines, or both alike");
    }
  }
  return changed;
}

UnitPtr schedule_anew(const schedule::ScheduledUnit& unit, const Line& line, const schedule::Target& target) {
  try {
    auto scheduled = std::make_shared<const schedule::ScheduledUnit>(schedule::schedule_unit(unit.form, line.schedule, target));
    require_runnable(scheduled->kernels, line.where);
    return scheduled;
  } catch (const Error& error) {
    if (error.code() != ExitCode::usage) throw;
    std::vector<Diagnostic> said = error.diagnostics();
    for (Diagnostic& diagnostic : said) diagnostic.where = line.where;
    throw Error(error.code(), std::move(said));
  }
}

// -------------------------------------------------------------------------------------------------------------- kernels

std::string text_of(const loop::Param& param) {
  return std::string(param.written ? "result `%" : "`%") + param.buffer->name + ": " + std::string(name_of(param.buffer->dtype)) +
         to_string(std::span<const int64_t>(param.buffer->extents)) + "`";
}

void require_same_parameters(const loop::Kernel& given, const loop::Kernel& old, const std::string& name, const std::string& where) {
  const std::string help = "the plan hands over the parameters that `" + name + "` has, in their order";
  if (given.params.size() != old.params.size())
    refuse(where,
           "the kernel has " + std::to_string(given.params.size()) + " parameters, `" + name + "` has " + std::to_string(old.params.size()),
           help);
  for (size_t i = 0; i < old.params.size(); ++i) {
    const loop::Buffer &a = *given.params[i].buffer, &b = *old.params[i].buffer;
    const bool same = a.name == b.name && a.dtype == b.dtype && a.extents == b.extents && a.element_strides() == b.element_strides() &&
                      given.params[i].written == old.params[i].written;
    if (!same)
      refuse(where, "parameter " + std::to_string(i) + " is " + text_of(given.params[i]) + ", `" + name + "` has " + text_of(old.params[i]),
             help);
  }
  const int checks = loop::num_index_checks(given.body), expected = loop::num_index_checks(old.body);
  if (checks != expected)
    refuse(where, "the kernel checks " + std::to_string(checks) + " indices, `" + name + "` checks " + std::to_string(expected),
           "keep each `check_index` with its number");
}

void put_in(const loop::Kernel& kernel, size_t number, TargetBuild& build) {
  for (plan::Plan& plan : build.plans) {
    plan.kernels[number] = kernel;
    for (std::vector<plan::Launch>* launches : plan::launch_lists(plan)) {
      for (plan::Launch& launch : *launches) {
        if (launch.kind != plan::Launch::Kind::kernel || launch.kernel != static_cast<int>(number)) continue;
        launch.grid = kernel.grid;
        launch.cost_ns = schedule::estimate_ns(kernel, build.choice.target);
      }
    }
  }
}

void replace_kernel(const GivenFile& file, std::vector<TargetBuild>& builds) {
  const std::vector<loop::Kernel> kernels = read_kernels(read_text_file(file.path), file.path);
  if (kernels.size() != 1)
    refuse(file.path, "the text has " + std::to_string(kernels.size()) + " kernels, one was expected", "cut the text");
  const loop::Kernel& kernel = kernels.front();
  const auto build =
      std::find_if(builds.begin(), builds.end(), [&](const TargetBuild& b) { return b.choice.target.name == kernel.target; });
  if (build == builds.end()) {
    std::string targets;
    for (const TargetBuild& b : builds) targets += (targets.empty() ? "`" : "` and `") + b.choice.target.name;
    refuse(file.path, "the kernel is for `" + kernel.target + "`, the code is for " + targets + "`", "");
  }
  const size_t number = require_kernel(file.name, *build, "--kernel=" + file.name + "=" + file.path);
  require_same_parameters(kernel, build->plans.front().kernels[number], file.name, file.path);
  if (const int64_t most = build->choice.target.grid_blocks; build->choice.target.is_cuda() && kernel.grid > most)
    refuse(file.path,
           "the kernel takes " + std::to_string(kernel.grid) + " blocks, the most that can be launched is " + std::to_string(most), "");
  put_in(kernel, number, *build);
  for (const plan::Plan& plan : build->plans) {
    if (const std::vector<std::string> faults = plan::verify(plan); !faults.empty())
      refuse(file.path, "the kernel does not fit the plan: " + faults.front(), "it has to read and write what `" + file.name + "` does");
  }
}

}  // namespace

GivenFile given_schedules(const std::string& text) {
  for (const char* target : {"cpu", "cuda"}) {
    if (text.starts_with(target + std::string("="))) return {target, text.substr(std::string_view(target).size() + 1)};
  }
  return {"", text};
}

GivenFile given_kernel(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || !kernel_number(std::string_view(text).substr(0, equals)))
    refuse("", "--kernel=" + text + ": a kernel and a file were expected", "it is written --kernel=k3=FILE");
  return {text.substr(0, equals), text.substr(equals + 1)};
}

bool replace_schedules(Session& session, TargetBuild& build) {
  std::vector<Line> lines;
  for (const std::string& text : session.options.schedules) {
    const GivenFile file = given_schedules(text);
    if (!file.name.empty() && file.name != build.choice.name) continue;
    for (Line& line : read_lines(file.path, build)) lines.push_back(std::move(line));
  }
  const std::map<std::string, const Line*> changed = changed_units(lines, build);
  if (changed.empty()) return false;
  run_stage(session, "schedule-units", {}, [&] {
    std::map<std::string, UnitPtr> scheduled;  // several functions may have the unit
    for (schedule::ScheduledUnits& function : build.scheduled) {
      for (UnitPtr& unit : function.units) {
        const auto line = changed.find(unit->form.key);
        if (line == changed.end()) continue;
        UnitPtr& known = scheduled[unit->form.key];
        if (!known) known = schedule_anew(*unit, *line->second, build.choice.target);
        unit = known;
      }
    }
  });
  return true;
}

void replace_kernels(Session& session, std::vector<TargetBuild>& builds) {
  for (const std::string& text : session.options.kernels) replace_kernel(given_kernel(text), builds);
}

void require_runnable(const std::vector<loop::Kernel>& kernels, const std::string& where) {
  Diagnostics diagnostics;
  for (const loop::Kernel& kernel : kernels) {
    for (const std::string& fault : loop::verify_kernel(kernel)) {
      const auto [message, statement] = parts_of(fault);
      diagnostics.error("invalid-schedule", where, "what the schedule makes can't run on " + kernel.target + ": " + message, statement);
    }
  }
  diagnostics.checkpoint(ExitCode::usage);
}

}  // namespace tcc::driver
