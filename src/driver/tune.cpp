#include "tcc/driver/tune.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "driver/check_options.h"
#include "driver/from_loops.h"
#include "driver/import_models.h"
#include "driver/make_functions.h"
#include "driver/plan_functions.h"
#include "driver/stage_results.h"
#include "driver/time_candidates.h"
#include "driver/use_tuning.h"
#include "tcc/support/files.h"
#include "tcc/support/parallel.h"
#include "tcc/support/printable.h"

namespace tcc::driver {

namespace {

/// Candidates that are compiled together, for each thread of the compiler: after each such batch the file is written.
constexpr size_t kCompiledTogether = 6;

/// What a device is asked with whether it is there: the least that can run.
constexpr const char* kProbe =
    "unit (%a0: f32[1]) -> (%r0: f32[1]) {\n  map %i in 1 {\n    %v0: f32 = load %a0[%i]\n    store %v0, %r0[%i]\n  }\n}\n";

/// The CPU as its maker names it. Empty where the system does not say.
std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}

/// A unit that has no entry yet.
struct Task {
  TuningKey key;
  loop::FirstForm form;
  std::string computes;
  std::vector<schedule::Candidate> candidates;
  // While it is measured: inputs and code take memory.
  std::unique_ptr<UnitProgram> program;
  std::vector<std::shared_ptr<const runtime::Library>> libraries;
};

std::string types_of(const loop::Unit& unit, bool written) {
  std::string text;
  for (const loop::Param& param : unit.params) {
    if (param.written != written) continue;
    text +=
        (text.empty() ? "" : ", ") + std::string(name_of(param.buffer->dtype)) + to_string(std::span<const int64_t>(param.buffer->extents));
  }
  return text;
}

/// The units of a build, each once, by what the launches call them.
UnitLabels labels_of(const TargetBuild& build) {
  UnitLabels labels;
  for (size_t f = 0; f < build.plans.size(); ++f) {
    for (const plan::Launch& launch : build.plans[f].launches) {
      if (launch.unit >= 0) labels.try_emplace(build.scheduled[f].units[static_cast<size_t>(launch.unit)]->form.key, launch.label);
    }
  }
  return labels;
}

class Tuner {
 public:
  Tuner(Session& session, const TuneOptions& tuning) : session_(session), tuning_(tuning) {
    if (file_exists(session.options.tune_db)) database_ = read_tuning(session.options);
  }

  void tune(const TargetBuild& build) {
    const std::optional<std::string> chip = find_device(build.choice);
    if (!chip) return;
    report.devices.push_back(build.choice.target.name + " on " + *chip);
    std::vector<Task> tasks = tasks_of(build);
    session_.progress.step("seeking candidates for " + build.choice.name);
    parallel_each(tasks.size(), [&](size_t i) {
      tasks[i].candidates = schedule::candidates(*tasks[i].form.unit, build.choice.target, static_cast<size_t>(tuning_.candidates));
    });
    report.single += static_cast<size_t>(std::erase_if(tasks, [](const Task& task) { return task.candidates.size() < 2; }));
    const size_t together = kCompiledTogether * static_cast<size_t>(num_threads());
    for (size_t begin = 0; begin < tasks.size() && !report.stopped;) {
      size_t end = begin, count = 0;
      while (end < tasks.size() && (end == begin || count + tasks[end].candidates.size() <= together))
        count += tasks[end++].candidates.size();
      run(std::span(tasks).subspan(begin, end - begin), build.choice, *chip, tasks.size() - begin);
      begin = end;
    }
  }

  TuneReport report;

 private:
  static bool file_exists(const std::string& path) { return std::ifstream(path).good(); }

  runtime::InstanceOptions instance_options(const TargetChoice& choice) const {
    runtime::InstanceOptions options;
    options.num_threads = tuning_.threads;
    options.device = choice.target.is_cpu() ? runtime::Device::cpu : runtime::Device::cuda;
    return options;
  }

  /// The name of the device that runs code for the target; nothing where there is none, and the user did not ask for it by name.
  std::optional<std::string> find_device(const TargetChoice& choice) {
    const UnitProgram probe(loop::first_form(loop::parse_unit(kProbe, "probe")));
    const auto library = probe.compile(schedule::choose(*probe.form().unit, choice.target), choice, session_.options);
    try {
      const runtime::Instance instance(library, instance_options(choice));
      const std::string name = cpu_name();
      if (!choice.target.is_cpu() || name.empty()) return instance.device_name();
      return name + ", " + std::to_string(instance.info().num_threads) + " threads";
    } catch (const Error& error) {
      if (error.code() != ExitCode::environment) throw;
      const std::string message = "code for " + choice.target.name + " can't be timed here: " + error.diagnostics().front().message;
      if (choice.target.is_cpu() || tuning_.cuda_needed)
        throw Error(ExitCode::environment, "no-device", "", message,
                    "run `tcc tune` on a machine with the device, or name another --target");
      session_.diagnostics.warning("no-device", "", message);
      session_.diagnostics.help("", "run `tcc tune --target=cuda` on a machine with the device; the file takes both");
      return std::nullopt;
    }
  }

  /// Units without an entry that fits.
  std::vector<Task> tasks_of(const TargetBuild& build) {
    const UnitLabels labels = labels_of(build);
    std::vector<Task> tasks;
    std::set<std::string> seen;
    for (const schedule::ScheduledUnits& function : build.scheduled) {
      for (const UnitPtr& unit : function.units) {
        const auto label = labels.find(unit->form.key);
        if (unit->kernels.empty() || !seen.insert(unit->form.key).second) continue;
        const TuningKey key = tuning_key(unit->form, build.choice.target);
        if (!tuning_.again && is_known(key, unit->form, build.choice.target)) {
          report.known++;
          continue;
        }
        Task& task = tasks.emplace_back();
        task.key = key;
        task.form = unit->form;
        task.computes = printable(label == labels.end() ? std::string(plan::kUnitLabel) : label->second) + ": " +
                        types_of(*unit->form.unit, false) + " -> " + types_of(*unit->form.unit, true);
      }
    }
    return tasks;
  }

  bool is_known(const TuningKey& key, const loop::FirstForm& form, const Target& target) const {
    const auto entry = database_.find(key);
    if (entry == database_.end()) return false;
    try {
      schedule_tuned(form, entry->second, target, session_.options.tune_db);
      return true;
    } catch (const Error& error) {
      if (error.code() != ExitCode::usage) throw;
      return false;  // made by a version of tcc with other primitives
    }
  }

  /// What shows a fault of one of the tasks again.
  StageInput input_of(std::span<const Task> tasks, const TargetChoice& choice) const {
    return {.arguments = "tune --from=loop --target=" + std::string(choice.target.is_cpu() ? "cpu" : "cuda") + " --tune-db=again.tuning",
            .form = "loop",
            .text = [tasks] {
              std::vector<loop::FirstForm> forms;
              for (const Task& task : tasks) forms.push_back(task.form);
              return print_forms(forms);
            }};
  }

  /// Compiles the candidates of some tasks, then times them. `left`: tasks of the target that are not done.
  void run(std::span<Task> tasks, const TargetChoice& choice, const std::string& chip, size_t left) {
    std::vector<std::pair<Task*, size_t>> parts;
    for (Task& task : tasks) {
      task.libraries.resize(task.candidates.size());
      for (size_t i = 0; i < task.candidates.size(); ++i) parts.emplace_back(&task, i);
    }
    parallel_each(tasks.size(), [&](size_t i) { tasks[i].program = std::make_unique<UnitProgram>(tasks[i].form); });
    session_.progress.step("compiling candidates for " + choice.name + ", " + std::to_string(left) + " units left",
                           static_cast<int64_t>(parts.size()));
    run_stage(session_, "compile-candidates", input_of(tasks, choice), [&] {
      parallel_each(parts.size(), [&](size_t i) {
        const auto [task, number] = parts[i];
        if (wants_stop()) return;
        task->libraries[number] = task->program->compile(task->candidates[number].schedule, choice, session_.options);
        session_.progress.advance();
      });
    });
    session_.progress.step("timing candidates for " + choice.name, static_cast<int64_t>(tasks.size()));
    for (Task& task : tasks) {
      if (wants_stop()) break;
      run_stage(session_, "time-candidates", input_of(std::span(&task, 1), choice), [&] { time(task, choice, chip); });
      session_.progress.advance();
    }
    for (Task& task : tasks) {
      task.libraries.clear();
      task.program.reset();
    }
    report.stopped = wants_stop();
    write_file_atomically(session_.options.tune_db, print(database_));
  }

  bool wants_stop() const { return tuning_.stop && tuning_.stop(); }

  void time(Task& task, const TargetChoice& choice, const std::string& chip) {
    const CandidateTimes times = CandidateRace(*task.program, task.candidates, task.libraries, choice, instance_options(choice)).run();
    TuningEntry entry;
    entry.computes = task.computes;
    entry.chip = printable(chip);
    entry.default_us = times.us.front();
    entry.tuned_us = times.us[times.winner];
    entry.schedule = schedule::print(task.candidates[times.winner].schedule);
    report.tuned.push_back({task.key.target, task.computes, entry.default_us, entry.tuned_us, task.candidates.size()});
    database_[task.key] = std::move(entry);
  }

  Session& session_;
  const TuneOptions& tuning_;
  TuningDatabase database_;
};

/// The model up to its plans, by what the model of the chips chooses.
std::vector<TargetBuild> plan_all(Session& session, const std::vector<TargetChoice>& choices, ProductWriter& writer, Library& library) {
  if (session.options.from == "loop") return plan_loops(session, choices).builds;
  Functions functions = make_functions(session, import_models(session), writer, false);
  library = plan_functions(session, std::move(functions), choices, writer);
  return std::move(library.builds);
}

}  // namespace

TuneReport tune(const Options& options, const TuneOptions& tuning, Diagnostics& diagnostics) {
  set_up(options);
  Options plain = options;
  plain.tune_db.clear();
  Session session(options, diagnostics);
  list_files(plain, session.files);
  session.files.writes(options.tune_db, "--tune-db");
  session.files.check_distinct();
  session.files.check_writable();
  Tuner tuner(session, tuning);
  const std::vector<TargetChoice> choices = choose_targets(options);
  Session chosen(plain, diagnostics);
  ProductWriter writer(plain, choices);
  Library library;
  const std::vector<TargetBuild> builds = plan_all(chosen, choices, writer, library);
  chosen.progress.clear();
  for (const TargetBuild& build : builds) {
    if (!tuner.report.stopped) tuner.tune(build);
  }
  session.progress.clear();
  if (options.time_report) std::fputs((chosen.times.table() + session.times.table()).c_str(), stderr);
  return std::move(tuner.report);
}

}  // namespace tcc::driver
