#include "driver/stages.h"

#include "driver/kernels.h"
#include "tcc/loop/loop.h"

namespace tcc::driver {

namespace {

std::vector<std::string> faults_of(const group::LoweredUnits& lowered) {
  std::vector<std::string> faults;
  for (const loop::FirstForm& form : lowered.forms) {
    for (const std::string& fault : loop::verify_first_form(*form.unit)) faults.push_back(fault);
  }
  return faults;
}

std::vector<std::string> faults_of(const schedule::ScheduledUnits& scheduled) {
  std::vector<std::string> faults;
  for (const auto& unit : scheduled.units) {
    for (const loop::Kernel& kernel : unit->kernels) {
      for (const std::string& fault : loop::verify_kernel(kernel)) faults.push_back(fault + "\n(" + schedule::print(unit->schedule) + ")");
    }
  }
  return faults;
}

std::vector<std::string> faults_of(const plan::Plan& plan) {
  std::vector<std::string> faults = plan::verify(plan);
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    for (const std::string& fault : loop::verify_kernel(plan.kernels[k])) faults.push_back("kernel " + kernel_name(k) + ": " + fault);
  }
  return faults;
}

std::string arguments_of(const TargetChoice& choice, const char* product) {
  return "--from=prims --target=" + choice.name + " --emit=" + product;
}

}  // namespace

group::Groups form_groups(Session& session, const Graph& prims) {
  group::Groups groups;
  run_stage(session, "form-groups", &prims, "--from=prims --target=cpu --emit=groups", [&] {
    groups = group::form_groups(prims);
    if (session.verify) require_well_formed("form-groups", group::verify(groups));
  });
  return groups;
}

group::LoweredUnits lower_units(Session& session, const group::Groups& groups) {
  group::LoweredUnits lowered;
  run_stage(session, "lower-units", groups.graph, "--from=prims --target=cpu --emit=loop", [&] {
    lowered = group::lower_units(groups);
    if (session.verify) require_well_formed("lower-units", faults_of(lowered));
  });
  return lowered;
}

schedule::ScheduledUnits schedule_units(Session& session, const group::Groups& groups, const group::LoweredUnits& lowered,
                                        const TargetChoice& choice, schedule::ScheduleCache& cache) {
  schedule::ScheduledUnits scheduled;
  run_stage(session, "schedule-units", groups.graph, arguments_of(choice, "kernel"), [&] {
    scheduled = schedule::schedule_units(lowered.forms, choice.target, &cache);
    if (session.verify) require_well_formed("schedule-units", faults_of(scheduled));
  });
  return scheduled;
}

plan::Plan make_plan(Session& session, const group::Groups& groups, const group::LoweredUnits& lowered,
                     const schedule::ScheduledUnits& scheduled, const TargetChoice& choice, const plan::PlanOptions& options) {
  plan::Plan plan;
  run_stage(session, "make-plan", groups.graph, arguments_of(choice, "plan"), [&] {
    plan = plan::make_plan(groups, lowered, scheduled, options);
    if (session.verify) require_well_formed("make-plan", faults_of(plan));
  });
  return plan;
}

}  // namespace tcc::driver
