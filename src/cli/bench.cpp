// tcc bench m.so: how fast a library is. The inputs lie where the device reads them, so copies to and from a GPU are not counted.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "cli/begin_anew.h"
#include "cli/command_line.h"
#include "cli/launch_profile.h"
#include "cli/library_flags.h"
#include "tcc/support/standard_output.h"

namespace tcc::cli {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Without --runs: as many as half a second holds, at least 20, so that the percentiles mean something.
constexpr double kSeconds = 0.5;
constexpr int kLeastRuns = 20, kMostRuns = 20000;
// A library's first runs allocate, build the CUDA graph and wake the clocks.
constexpr double kWarmupSeconds = 0.2;
constexpr int kLeastWarmups = 3;

struct Times {
  std::vector<double> device, host;
};

Times measure(runtime::Instance& instance, int runs, int warmups) {
  const auto run = [&] { return run_or_begin_anew(instance, [&] { return instance.run_prepared(); }); };
  const auto start_of_warmup = Clock::now();
  for (int i = 0; warmups >= 0 ? i < warmups : i < kLeastWarmups || Seconds(Clock::now() - start_of_warmup).count() < kWarmupSeconds; ++i)
    run();
  Times times;
  const auto start = Clock::now();
  const auto wants_more = [&](int done) {
    if (runs > 0) return done < runs;
    return done < kLeastRuns || (done < kMostRuns && Seconds(Clock::now() - start).count() < kSeconds);
  };
  for (int i = 0; wants_more(i); ++i) {
    const runtime::Timing timing = run();
    times.device.push_back(timing.device_us);
    times.host.push_back(timing.host_us);
  }
  std::sort(times.device.begin(), times.device.end());
  std::sort(times.host.begin(), times.host.end());
  return times;
}

/// The smallest time that `fraction` of all runs reach; `sorted` is not empty.
double percentile(const std::vector<double>& sorted, double fraction) {
  const auto rank = static_cast<size_t>(fraction * static_cast<double>(sorted.size()) + 0.5);
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

std::string line(const char* name, double value, const char* unit) {
  char text[100];
  std::snprintf(text, sizeof text, "%-18s %12.3f %s\n", name, value, unit);
  return text;
}

/// What was measured.
struct Report {
  const LoadedLibrary& loaded;
  const std::vector<driver::Drawn>& drawn;
  const std::string& function;  ///< its name
  tcc_function_info info;
  Times times;
  std::optional<LaunchProfile> launches;

  double median() const { return percentile(times.device, 0.5); }
  double mean() const { return std::accumulate(times.device.begin(), times.device.end(), 0.0) / static_cast<double>(times.device.size()); }
  double runs_per_second() const { return median() > 0 ? 1e6 / median() : 0; }
};

std::string json_of(const Report& report) {
  const runtime::Instance& instance = *report.loaded.instance;
  const std::vector<double>&device = report.times.device, &host = report.times.host;
  nlohmann::ordered_json json = {{"device", instance.device_name()},
                                 {"reason", instance.device_reason()},
                                 {"function", report.function},
                                 {"runs", device.size()},
                                 {"runs_per_second", report.runs_per_second()},
                                 {"median_us", report.median()},
                                 {"p90_us", percentile(device, 0.9)},
                                 {"p99_us", percentile(device, 0.99)},
                                 {"min_us", device.front()},
                                 {"max_us", device.back()},
                                 {"mean_us", report.mean()},
                                 {"host_median_us", percentile(host, 0.5)},
                                 {"peak_bytes", report.info.workspace_bytes},
                                 {"planned_peak_bytes", report.info.planned_peak_bytes},
                                 {"weights_bytes", instance.info().weights_bytes},
                                 {"prepared_bytes", instance.info().prepared_bytes},
                                 {"state_bytes", instance.info().state_bytes},
                                 {"gradient_bytes", report.info.uses_gradients ? instance.info().gradient_bytes : 0},
                                 {"launches", report.info.num_launches},
                                 {"threads", instance.info().num_threads}};
  if (!report.drawn.empty()) json["random"] = to_json(report.drawn);
  if (report.launches) add_to(*report.launches, &json);
  return json.dump(2) + "\n";
}

std::string text_of(const Report& report) {
  const runtime::Instance& instance = *report.loaded.instance;
  const std::vector<double>& device = report.times.device;
  const auto kibibytes = [](const char* name, auto bytes) { return line(name, static_cast<double>(bytes) / 1024, "KiB"); };
  std::string text = "device             " + instance.device_name() + " (" + instance.device_reason() + ")\n";
  for (const driver::Drawn& input : report.drawn) text += "input              " + describe(input) + "\n";
  if (report.loaded.library->functions().size() > 1) text += "function           " + report.function + "\n";
  text += "runs               " + std::to_string(device.size()) + "\n";
  text += line("throughput", report.runs_per_second(), "runs/s");
  text +=
      line("latency min", device.front(), "us") + line("latency median", report.median(), "us") + line("latency mean", report.mean(), "us");
  text += line("latency p90", percentile(device, 0.9), "us") + line("latency p99", percentile(device, 0.99), "us") +
          line("latency max", device.back(), "us");
  text += line("host median", percentile(report.times.host, 0.5), "us");
  text += kibibytes("workspace", report.info.workspace_bytes) + kibibytes("weights", instance.info().weights_bytes);
  if (instance.info().prepared_bytes > 0) text += kibibytes("made of weights", instance.info().prepared_bytes);
  if (!report.loaded.library->state().empty()) {
    text += kibibytes("state", instance.info().state_bytes);
    if (report.info.uses_gradients) text += kibibytes("gradients", instance.info().gradient_bytes);
    text += kibibytes("planned peak", report.info.planned_peak_bytes);
  }
  text += "launches           " + std::to_string(report.info.num_launches) + "\n";
  if (report.launches) text += "\n" + to_text(*report.launches);
  return text;
}

}  // namespace

int bench(const Arguments& arguments) {
  CLI::App app("Times a library made by tcc. Inputs that are not given are random.", "tcc bench");
  LibraryFlags flags;
  flags.add_to(app);
  int runs = 0, warmups = -1;
  bool json = false, profile = false;
  std::string function_name;
  CLI::Option* runs_option = app.add_option("--runs", runs, "timed runs (as many as half a second holds, at least 20)")->type_name("N");
  CLI::Option* warmups_option = app.add_option("--warmup", warmups, "runs before those (for a fifth of a second)")->type_name("N");
  app.add_option("--function", function_name,
                 "of a library with several: infer, step, forward, backward, update of one for training (the first)")
      ->type_name("NAME");
  app.add_flag("--json", json, "prints one JSON object");
  app.add_flag("--profile", profile, "adds a table of launches, each timed by itself: medians, their sum, the whole run");
  if (!parse(app, arguments)) return 0;
  const auto refuse = [](const std::string& message) { throw Error(ExitCode::usage, "invalid-argument", "", message); };
  if (runs_option->count() > 0 && runs < 1) refuse("--runs=" + std::to_string(runs) + ": a number of runs was expected, at least 1");
  if (warmups_option->count() > 0 && warmups < 0) refuse("--warmup=" + std::to_string(warmups) + ": a number of runs was expected");

  flags.input.random = true;
  const LoadedLibrary loaded = flags.load();
  runtime::Instance& instance = *loaded.instance;
  const int function = function_name.empty() ? 0 : loaded.library->function(function_name);
  // A step of several micro-batches is timed as they come: the update is in the last one of them.
  const driver::InputTensors given = flags.inputs(*loaded.library, function);
  instance.prepare(given.tensors, function_name == "step" ? runtime::Instance::kStep : function);
  Report report{loaded,
                given.drawn,
                loaded.library->functions()[static_cast<size_t>(function)].name,
                instance.function_info(function),
                measure(instance, runs, warmups),
                std::nullopt};
  if (profile) report.launches = profile_launches(instance, report.median(), static_cast<int>(report.times.device.size()));
  write_stdout(json ? json_of(report) : text_of(report));
  return 0;
}

}  // namespace tcc::cli
