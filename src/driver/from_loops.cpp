#include "driver/from_loops.h"

#include <cctype>

#include "driver/replace_stages.h"
#include "driver/stage_results.h"
#include "driver/stages.h"
#include "driver/use_tuning.h"
#include "tcc/driver/read_ir.h"
#include "tcc/loop/rewrite.h"
#include "tcc/schedule/schedule.h"
#include "tcc/support/diagnostics.h"

namespace tcc::driver {

namespace {

/// The primitives of --pass. Error (usage, "invalid-schedule") where a text is none.
schedule::Schedule given_schedule(const std::vector<std::string>& passes) {
  schedule::Schedule schedule;
  for (const std::string& pass : passes) {
    try {
      for (schedule::Primitive& primitive : schedule::parse_schedule(pass, "--pass")) schedule.push_back(std::move(primitive));
    } catch (const Error& error) {
      throw Error(ExitCode::usage, "invalid-schedule", "", "--pass='" + pass + "': " + error.diagnostics()[0].message,
                  "a primitive is written like `split(i, 4)`");
    }
  }
  return schedule;
}

/// Primitives make names like `i_1`. Choosing goes by them, so a unit whose text has such names gets others first.
loop::Unit with_plain_names(loop::Unit unit) {
  loop::NameTable names(unit);
  unit.body = loop::clone_fresh(unit.body, [&](const std::string& name) {
    size_t end = name.size();
    while (end > 0 && std::isdigit(static_cast<unsigned char>(name[end - 1]))) --end;
    return end == name.size() || end < 2 || name[end - 1] != '_' ? name : names.fresh(name.substr(0, end - 1) + "n");
  });
  return unit;
}

/// All units by the primitives of --pass.
schedule::ScheduledUnits schedule_by_hand(const Session& session, const std::vector<loop::FirstForm>& forms,
                                          const schedule::Target& target) {
  const schedule::Schedule schedule = given_schedule(session.options.passes);
  schedule::ScheduledUnits scheduled;
  scheduled.target = target;
  for (const loop::FirstForm& form : forms) {
    scheduled.units.push_back(std::make_shared<const schedule::ScheduledUnit>(schedule::schedule_unit(form, schedule, target)));
    require_runnable(scheduled.units.back()->kernels, session.options.model);
  }
  return scheduled;
}

}  // namespace

std::unique_ptr<Graph> interface_of(const std::vector<loop::Param>& params, const std::map<std::string, Tensor>& constants) {
  auto graph = std::make_unique<Graph>("unit");
  for (const loop::Param& param : params) {
    const std::string& name = param.buffer->name;
    const Type type(param.buffer->dtype, param.buffer->padded_extents());
    if (param.written) graph->add_output(graph->make_value(Value::Kind::result, type, name), name);
    else if (const auto constant = constants.find(name); constant != constants.end()) graph->add_weight(name, constant->second);
    else graph->add_input(name, type);
  }
  return graph;
}

UnitBuilds plan_loops(Session& session, const std::vector<TargetChoice>& choices) {
  const bool by_hand = !session.options.passes.empty();
  std::vector<loop::FirstForm> forms;
  for (loop::Unit& unit : read_units(session.options)) {
    forms.push_back(loop::first_form(by_hand ? std::move(unit) : with_plain_names(std::move(unit))));
  }
  UnitBuilds result;
  for (const TargetChoice& choice : choices) {
    TargetBuild& build = result.builds.emplace_back();
    build.choice = choice;
    schedule::ScheduleCache cache;
    build.scheduled.push_back(by_hand ? schedule_by_hand(session, forms, choice.target) : to_kernels(session, forms, choice, cache));
    if (!by_hand) use_tuning(session, build, {});
    build.plans.push_back(plan::plan_units(build.scheduled.front(), "unit"));
    if (replace_schedules(session, build)) build.plans.front() = plan::plan_units(build.scheduled.front(), "unit");
  }
  replace_kernels(session, result.builds);
  if (forms.size() == 1) result.interface = interface_of(forms.front().unit->params);
  return result;
}

std::string print_loops(const Session& session, const TargetChoice& choice) {
  const schedule::Schedule schedule = given_schedule(session.options.passes);
  std::vector<loop::FirstForm> forms;
  for (const loop::Unit& unit : read_units(session.options)) {
    forms.push_back(loop::first_form(schedule.empty() ? unit : schedule::apply(unit, schedule, choice.target)));
  }
  return print_forms(forms);
}

TargetChoice target_of(const std::vector<loop::Kernel>& kernels, const std::vector<TargetChoice>& choices, const std::string& where) {
  const std::string& name = kernels.front().target;
  const TargetChoice* found = nullptr;  // the target itself, or the last of its kind, whose code runs on every chip
  for (const TargetChoice& choice : choices) {
    if (choice.target.name == name) return choice;
    if (choice.target.kind == Target::of(name).kind) found = &choice;
  }
  if (found) return *found;
  throw Error(ExitCode::usage, "invalid-argument", where, "the kernels are for `" + name + "`, which --target leaves out");
}

UnitBuilds plan_kernels(const std::vector<loop::Kernel>& kernels, const TargetChoice& choice) {
  UnitBuilds result;
  TargetBuild& build = result.builds.emplace_back();
  build.choice = choice;
  schedule::ScheduledUnits& scheduled = build.scheduled.emplace_back();
  scheduled.target = choice.target;
  for (const loop::Kernel& kernel : kernels) {
    schedule::ScheduledUnit unit;
    unit.form = loop::first_form({kernel.params, {}});
    unit.kernels = {kernel};
    unit.costs_ns = {schedule::estimate_ns(kernel, choice.target)};
    scheduled.units.push_back(std::make_shared<const schedule::ScheduledUnit>(std::move(unit)));
  }
  build.plans.push_back(plan::plan_units(scheduled, "kernels"));
  if (kernels.size() == 1) result.interface = interface_of(kernels.front().params);
  return result;
}

}  // namespace tcc::driver
