// The stage between lowering and planning: each distinct first form gets a schedule, is run through its primitives and cut into kernels, once.
//
//   unit (%a0: f32[8, 784], ...) -> (%r0: f32[8, 64]) { ... }        first form
//   split(k, 32) reduce_across(k_1, lane) bind(i, block) ...          schedule
//   kernel #k0 target sm_80 grid 512 threads 32 ... { ... }           kernels
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tcc/loop/first_form.h"
#include "tcc/schedule/schedule.h"

namespace tcc::schedule {

struct ScheduledUnit {
  loop::FirstForm form;
  Schedule schedule;
  std::vector<loop::Kernel> kernels;         ///< none: all results of the unit are empty
  std::vector<double> costs_ns;              ///< of each kernel
  std::vector<loop::BufferRef> temporaries;  ///< pass between the kernels
};

struct ScheduledUnits {
  Target target;
  std::vector<std::shared_ptr<const ScheduledUnit>> units;  ///< of each first form, in their order
};

/// Units that have been scheduled already, each target apart: the functions of a library, and the plans that are tried with more or less saved, differ in
/// few of them. Several threads may use one cache at once.
class ScheduleCache {
 public:
  ScheduleCache();
  ~ScheduleCache();
  ScheduleCache(const ScheduleCache&) = delete;
  ScheduleCache& operator=(const ScheduleCache&) = delete;
  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// A unit by a given schedule. Error (usage, "invalid-schedule") when it does not fit.
ScheduledUnit schedule_unit(const loop::FirstForm& form, const Schedule& schedule, const Target& target);

/// All units by the schedules that `choose` finds, on all threads. What the cache (null: none) has is not scheduled again: equal forms share one unit.
ScheduledUnits schedule_units(std::span<const loop::FirstForm> forms, const Target& target, ScheduleCache* cache = nullptr);

}  // namespace tcc::schedule
