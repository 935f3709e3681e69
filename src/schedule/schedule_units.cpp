#include "tcc/schedule/schedule_units.h"

#include <mutex>
#include <unordered_map>

#include "tcc/support/diagnostics.h"
#include "tcc/support/parallel.h"

namespace tcc::schedule {

struct ScheduleCache::Impl {
  using Units = std::unordered_map<std::string, std::shared_ptr<const ScheduledUnit>>;  ///< by the keys of their first forms
  std::mutex mutex;
  std::vector<std::pair<Target, Units>> of_target;

  /// Under the lock.
  Units& of(const Target& target) {
    for (auto& [known, units] : of_target) {
      if (known == target) return units;
    }
    return of_target.emplace_back(target, Units()).second;
  }
};

ScheduleCache::ScheduleCache() : impl_(std::make_unique<Impl>()) {}
ScheduleCache::~ScheduleCache() = default;

namespace {

ScheduledUnit choose_and_schedule(const loop::FirstForm& form, const Target& target) {
  const Schedule chosen = form.unit->body.empty() ? Schedule() : choose(*form.unit, target);
  try {
    return schedule_unit(form, chosen, target);
  } catch (const Error& error) {
    if (error.code() != ExitCode::usage) throw;  // a hand-made schedule that does not fit is the user's fault, a chosen one is ours
    internal_error(error.diagnostics()[0].message + " (chosen schedule: " + print(chosen) + ")");
  }
}

}  // namespace

ScheduledUnit schedule_unit(const loop::FirstForm& form, const Schedule& schedule, const Target& target) {
  ScheduledUnit result;
  result.form = form;
  result.schedule = schedule;
  result.kernels = split_kernels(apply(*form.unit, schedule, target), target, &result.temporaries);
  for (const loop::Kernel& kernel : result.kernels) result.costs_ns.push_back(estimate_ns(kernel, target));
  return result;
}

ScheduledUnits schedule_units(std::span<const loop::FirstForm> forms, const Target& target, ScheduleCache* cache) {
  ScheduledUnits result;
  result.target = target;
  result.units.resize(forms.size());
  if (cache) {
    const std::lock_guard lock(cache->impl().mutex);
    const ScheduleCache::Impl::Units& known = cache->impl().of(target);
    for (size_t i = 0; i < forms.size(); ++i) {
      if (const auto at = known.find(forms[i].key); at != known.end()) result.units[i] = at->second;
    }
  }
  parallel_each(forms.size(), [&](size_t i) {
    auto& unit = result.units[i];
    if (!unit) unit = std::make_shared<const ScheduledUnit>(choose_and_schedule(forms[i], target));
  });
  if (cache) {
    const std::lock_guard lock(cache->impl().mutex);
    ScheduleCache::Impl::Units& known = cache->impl().of(target);
    for (size_t i = 0; i < forms.size(); ++i) result.units[i] = known.emplace(forms[i].key, result.units[i]).first->second;
  }
  return result;
}

}  // namespace tcc::schedule
