#include "tcc/schedule/schedule_units.h"

#include <mutex>
#include <unordered_map>

#include "tcc/support/diagnostics.h"
#include "tcc/support/parallel.h"
#include "tcc/support/text.h"

namespace tcc::schedule {

struct ScheduleCache::Impl {
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<const ScheduledUnit>> units;  ///< by key_of
};

ScheduleCache::ScheduleCache() : impl_(std::make_unique<Impl>()) {}
ScheduleCache::~ScheduleCache() = default;

namespace {

/// All that choosing a schedule looks at: the target and the first form.
std::string key_of(const Target& target, const loop::FirstForm& form) {
  std::string key = target.name;
  for (const int64_t number : {int64_t{target.vector_bytes}, int64_t{target.vector_registers}, int64_t{target.cores}, target.l1_bytes,
                               target.l2_bytes, target.shared_bytes, int64_t{target.allow_tf32}}) {
    key += " " + std::to_string(number);
  }
  return key + " " + print_float(target.bytes_per_ns) + " " + print_float(target.flops_per_ns) + "\n" + form.key;
}

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
  std::vector<std::string> keys;
  if (cache) {
    for (const loop::FirstForm& form : forms) keys.push_back(key_of(target, form));
    const std::lock_guard lock(cache->impl().mutex);
    const auto& known = cache->impl().units;
    for (size_t i = 0; i < forms.size(); ++i) {
      if (const auto at = known.find(keys[i]); at != known.end()) result.units[i] = at->second;
    }
  }
  parallel_for(static_cast<int64_t>(forms.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      auto& unit = result.units[static_cast<size_t>(i)];
      if (!unit) unit = std::make_shared<const ScheduledUnit>(choose_and_schedule(forms[static_cast<size_t>(i)], target));
    }
  });
  if (cache) {
    const std::lock_guard lock(cache->impl().mutex);
    for (size_t i = 0; i < forms.size(); ++i) result.units[i] = cache->impl().units.emplace(keys[i], result.units[i]).first->second;
  }
  return result;
}

}  // namespace tcc::schedule
