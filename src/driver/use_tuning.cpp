#include "driver/use_tuning.h"

#include <memory>

#include "driver/replace_stages.h"
#include "tcc/schedule/candidates.h"
#include "tcc/support/files.h"
#include "tcc/support/parallel.h"
#include "tcc/support/printable.h"

namespace tcc::driver {

namespace {

std::string where_of(const TuningEntry& entry, const std::string& file) { return file + ":" + std::to_string(entry.line); }

/// What `--emit=schedule` says of it.
std::string why(const TuningEntry& entry, const std::string& file) {
  return "tuned: " + print_us(entry.tuned_us) + " on " + printable(entry.chip) + ", " + print_us(entry.default_us) + " as chosen (" +
         printable(where_of(entry, file)) + ")";
}

/// Of each unit that the database lacks, whether there is something to be tuned.
std::vector<char> have_candidates(const std::vector<UnitPtr>& units, const Target& target) {
  std::vector<char> several(units.size());
  parallel_each(units.size(), [&](size_t i) { several[i] = schedule::candidates(*units[i]->form.unit, target, 2).size() > 1; });
  return several;
}

class TuningUse {
 public:
  TuningUse(Session& session, TargetBuild& build, const UnitLabels& labels)
      : session_(session), build_(build), labels_(labels), database_(read_tuning(session.options)) {}

  void run() {
    for (schedule::ScheduledUnits& function : build_.scheduled) {
      for (UnitPtr& unit : function.units) {
        if (const UnitPtr tuned = find(unit)) unit = tuned;
      }
    }
    if (frozen()) refuse_missing();
    if (faults_.has_errors())
      faults_.help(session_.options.model,
                   "run `tcc tune` with the same flags where the device is, and check " + printable(session_.options.tune_db) + " in");
    faults_.checkpoint(ExitCode::usage);
  }

 private:
  bool frozen() const { return session_.options.tune_frozen; }

  /// Null: the database has none that fits.
  UnitPtr find(const UnitPtr& unit) {
    const auto [known, is_new] = tuned_.try_emplace(unit->form.key);
    if (!is_new) return known->second;
    const auto entry = database_.find(tuning_key(unit->form, build_.choice.target));
    if (entry == database_.end()) {
      missing_.push_back(unit);
      return nullptr;
    }
    const std::string& file = session_.options.tune_db;
    try {
      auto scheduled = std::make_shared<schedule::ScheduledUnit>(schedule_tuned(unit->form, entry->second, build_.choice.target, file));
      if (!scheduled->schedule.empty()) scheduled->schedule.front().why = why(entry->second, file);
      known->second = std::move(scheduled);
    } catch (const Error& error) {
      if (error.code() != ExitCode::usage) throw;
      report_stale(error, where_of(entry->second, file));
    }
    return known->second;
  }

  void report_stale(const Error& error, const std::string& where) {
    const std::string message = "the schedule does not fit its unit any more: " + error.diagnostics().front().message;
    if (frozen()) return faults_.error("stale-tuning", where, message);
    session_.diagnostics.warning("stale-tuning", where, message + "; the unit is scheduled as if it had no entry");
  }

  void refuse_missing() {
    const std::vector<char> several = have_candidates(missing_, build_.choice.target);
    for (size_t i = 0; i < missing_.size(); ++i) {
      if (several[i] == 0) continue;
      const std::string& key = missing_[i]->form.key;
      const auto label = labels_.find(key);
      faults_.error("untuned-unit", session_.options.model + (label == labels_.end() ? "" : ":" + label->second),
                    "the unit has several candidates, and " + printable(session_.options.tune_db) + " has no entry for it on " +
                        tuning_key(missing_[i]->form, build_.choice.target).target,
                    key.substr(0, key.find(" {\n")));
    }
  }

  Session& session_;
  TargetBuild& build_;
  const UnitLabels& labels_;
  const TuningDatabase database_;
  Diagnostics faults_;
  std::map<std::string, UnitPtr> tuned_;  ///< by the key of the first form; null where there is none
  std::vector<UnitPtr> missing_;
};

}  // namespace

TuningDatabase read_tuning(const Options& options) { return parse_tuning(read_text_file(options.tune_db), options.tune_db); }

schedule::ScheduledUnit schedule_tuned(const loop::FirstForm& form, const TuningEntry& entry, const Target& target,
                                       const std::string& file) {
  const std::string where = where_of(entry, file);
  schedule::Schedule schedule;
  try {
    schedule = schedule::parse_schedule(entry.schedule, where);
  } catch (const Error& error) { throw Error(ExitCode::usage, "invalid-schedule", where, error.diagnostics().front().message); }
  schedule::ScheduledUnit unit = schedule::schedule_unit(form, schedule, target);
  require_runnable(unit.kernels, where);
  return unit;
}

void use_tuning(Session& session, TargetBuild& build, const UnitLabels& labels) {
  if (session.options.tune_db.empty()) return;
  run_stage(session, "use-tuning", {}, [&] { TuningUse(session, build, labels).run(); });
}

}  // namespace tcc::driver
