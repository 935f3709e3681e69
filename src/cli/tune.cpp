// tcc tune model.onnx --tune-db=FILE: measures candidates on the device at hand.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command_line.h"
#include "cli/interruption.h"
#include "tcc/driver/tune.h"
#include "tcc/support/printable.h"
#include "tcc/support/standard_output.h"

namespace tcc::cli {

namespace {

constexpr int kMostCandidates = 64;

[[noreturn]] void refuse(const std::string& message, const std::string& help = "") {
  throw Error(ExitCode::usage, "invalid-argument", "", message, help);
}

double sum(const std::vector<driver::TunedUnit>& units, double driver::TunedUnit::* time) {
  double total = 0;
  for (const driver::TunedUnit& unit : units) total += unit.*time;
  return total;
}

bool is_faster(const driver::TunedUnit& unit) { return unit.tuned_us < unit.default_us; }

std::string text_of(const driver::TuneReport& report) {
  std::string text;
  for (const std::string& device : report.devices) text += "device: " + printable(device) + "\n";
  const auto row = [&](double chosen, double tuned, const std::string& what) {
    char line[64];
    std::snprintf(line, sizeof line, "%10.2f %10.2f %6.1f  ", chosen, tuned, chosen > 0 ? 100 * tuned / chosen : 100);
    text += line + what + "\n";
  };
  if (!report.tuned.empty()) text += " chosen us   tuned us      %  unit\n";
  for (const driver::TunedUnit& unit : report.tuned)
    row(unit.default_us, unit.tuned_us, unit.target + ", of " + std::to_string(unit.candidates) + ": " + unit.computes);
  const auto faster = std::ranges::count_if(report.tuned, is_faster);
  if (!report.tuned.empty())
    row(sum(report.tuned, &driver::TunedUnit::default_us), sum(report.tuned, &driver::TunedUnit::tuned_us), "sum, each unit once");
  text += std::to_string(report.tuned.size()) + (report.tuned.size() == 1 ? " unit measured, " : " units measured, ") +
          std::to_string(faster) + " of them faster; " + std::to_string(report.known) + " were known, " + std::to_string(report.single) +
          " have one candidate\n";
  if (report.stopped) text += "stopped; what was measured is saved\n";
  return text;
}

std::string json_of(const driver::TuneReport& report) {
  nlohmann::ordered_json json = {{"devices", report.devices},
                                 {"known", report.known},
                                 {"single", report.single},
                                 {"stopped", report.stopped},
                                 {"units", nlohmann::ordered_json::array()}};
  for (const driver::TunedUnit& unit : report.tuned) {
    json["units"].push_back({{"target", unit.target},
                             {"computes", unit.computes},
                             {"candidates", unit.candidates},
                             {"default_us", unit.default_us},
                             {"tuned_us", unit.tuned_us}});
  }
  return json.dump(2) + "\n";
}

void check(const driver::Options& options, int candidates) {
  if (options.tune_db.empty())
    refuse("no file is named for what is measured", "name it with --tune-db=FILE; what it has is not measured again");
  if (options.tune_frozen) refuse("--tune-frozen says nothing with `tcc tune`", "it goes with compiling");
  if (options.from == "kernel") refuse("--from=kernel: kernels are scheduled already", "give the units, --from=loop, or the model");
  if (!options.schedules.empty() || !options.kernels.empty())
    refuse("--schedule and --kernel say nothing with `tcc tune`", "they take the place of what the file has when a model is compiled");
  if (candidates < 2 || candidates > kMostCandidates)
    refuse("--candidates=" + std::to_string(candidates) + ": a number from 2 to " + std::to_string(kMostCandidates) + " was expected");
}

}  // namespace

int tune(const Arguments& arguments) {
  driver::Options options;
  driver::TuneOptions tuning;
  CompileFlags flags(&options);
  bool json = false;
  CLI::App app(
      "Times candidates for the schedules of a model's units on the device at hand. The fastest go to a file that compiling takes.",
      "tcc tune");
  flags.add_to(app);
  app.add_option("--candidates", tuning.candidates, "of a unit, at most (8)")->type_name("N")->group("Tuning");
  CLI::Option* threads = app.add_option("--threads", tuning.threads, "of the CPU, that kernels are timed with (what this process may use)")
                             ->type_name("N")
                             ->group("Tuning");
  app.add_flag("--again", tuning.again, "measures units that the file has, too")->group("Tuning");
  app.add_flag("--json", json, "prints one JSON object")->group("Output");
  app.add_flag("--time-report", options.time_report, "how long each stage took, to standard error")->group("Manners");
  Help help;
  help.usage = {"tune [flags] MODEL --tune-db=FILE"};
  help.examples = {{"tcc tune net.onnx --target=cpu --tune-db=net.tuning", "measures on this machine; check net.tuning in"},
                   {"tcc net.onnx --tune-db=net.tuning --tune-frozen -o net.so", "the same library everywhere, with those schedules"}};
  if (!parse(app, arguments, help)) return 0;
  flags.apply();
  check(options, tuning.candidates);
  if (threads->count() > 0 && tuning.threads < 1)
    refuse("--threads=" + std::to_string(tuning.threads) + ": a number of threads was expected, at least 1");
  tuning.cuda_needed = std::ranges::find(flags.targets, "cuda") != flags.targets.end();
  Diagnostics diagnostics;
  const Interruption interruption;
  tuning.stop = [&] { return interruption.requested(); };
  const driver::TuneReport report = driver::tune(options, tuning, diagnostics);
  print_diagnostics(diagnostics, options);
  write_stdout(json ? json_of(report) : text_of(report));
  return report.stopped ? interruption.exit_code() : 0;
}

}  // namespace tcc::cli
