// tcc run m.so --input a.npy --save DIR; tcc run step.so --input x=x.npy --input target=t.npy --steps 20
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "cli/command_line.h"
#include "cli/comparison_text.h"
#include "cli/expected_outputs.h"
#include "cli/interruption.h"
#include "cli/library_flags.h"
#include "cli/saved_tensors.h"
#include "cli/tensor_summary.h"
#include "tcc/support/command_files.h"
#include "tcc/support/printable.h"
#include "tcc/support/standard_output.h"

namespace tcc::cli {

namespace {

/// A tensor's name as a file's: '/' would be a folder.
std::string file_name_of(const std::string& name) {
  std::string text;
  for (const char c : name) text += c == '/' ? "%2F" : c == '%' ? "%25" : std::string(1, c);
  return text;
}

nlohmann::ordered_json number(double value) {
  if (std::isfinite(value)) return value;
  return number_text(value);  // JSON has no infinities
}

/// The same batch again and again, and the state that changes.
struct StepFlags {
  int steps = 0, runs = 1;
  double lr = 0;
  std::string load, save;
  CLI::Option *lr_option = nullptr, *steps_option = nullptr;

  void add_to(CLI::App& app) {
    steps_option =
        app.add_option("--steps", steps, "training steps on these inputs; prints the loss of each, before its update")->type_name("N");
    app.add_option("--runs", runs,
                   "runs on these inputs, of which the last is told (1); a model that keeps a state goes on from run to run")
        ->type_name("N");
    lr_option = app.add_option("--lr", lr, "learning rate (that of --optimizer)")->type_name("X");
    app.add_option("--load-state", load, "the state to begin with (of a training parameters and optimizer), a safetensors file")
        ->type_name("FILE");
    app.add_option("--save-state", save, "where to write it at the end, also of a training that Ctrl-C or SIGTERM ends")->type_name("FILE");
  }

  void check(const LoadedLibrary& loaded, const std::string& path) const {
    const bool trains = loaded.library->trains();
    const auto refuse = [&](const std::string& message) {
      throw Error(ExitCode::usage, "invalid-argument", path, message, "a library that trains is made with --mode=train");
    };
    const auto refuse_count = [](const std::string& flag, int count, const char* what) {
      throw Error(ExitCode::usage, "invalid-argument", "",
                  flag + "=" + std::to_string(count) + ": a number of " + what + " was expected, at least 1");
    };
    if (steps_option->count() > 0 && !trains) refuse("--steps: the library has no training step");
    if (lr_option->count() > 0 && !trains) refuse("--lr: the library has no learning rate");
    if (lr_option->count() > 0 && !std::isfinite(lr))
      throw Error(ExitCode::usage, "invalid-argument", "", "--lr=" + number_text(lr) + ": a number was expected");
    if ((!load.empty() || !save.empty()) && loaded.library->state().empty()) refuse("the library keeps no state to load or save");
    if (steps_option->count() > 0 && steps < 1) refuse_count("--steps", steps, "steps");
    if (runs < 1) refuse_count("--runs", runs, "runs");
    if (runs > 1 && steps > 0) throw Error(ExitCode::usage, "invalid-argument", "", "--runs says nothing with --steps", "a step is a run");
  }
};

/// No file that the command reads is replaced, and what it writes has a place before anything runs. (A state may be saved over the one it began with, and
/// to the folder that --save makes.)
void check_files(const LibraryFlags& flags, const std::string& expect, const std::string& save, const std::string& save_state) {
  CommandFiles files;
  files.reads(flags.path, "the library");
  for (const std::string& input : flags.input.inputs) {
    const bool is_whole = input.find('=') == std::string::npos || std::filesystem::exists(input);
    files.reads(is_whole ? input : input.substr(input.rfind('=') + 1), "an input");
  }
  if (!expect.empty()) files.reads(expect, "what is expected");
  if (!save_state.empty()) files.writes(save_state, "--save-state");
  if (save.ends_with(".npz")) files.writes(save, "--save");
  files.check_distinct();
  const std::filesystem::path folder = std::filesystem::path(save_state).parent_path();
  const bool is_made = !save.empty() && folder.lexically_normal() == (std::filesystem::path(save) / "").parent_path().lexically_normal();
  if (!is_made) files.check_writable();
}

/// What both forms begin with: the device, and the inputs that are random.
std::string head_text(const runtime::Instance& instance, const std::vector<driver::Drawn>& drawn) {
  std::string text = "device: " + instance.device_name() + " (" + instance.device_reason() + ")\n";
  for (const driver::Drawn& input : drawn) text += describe(input) + "\n";
  return text;
}
nlohmann::ordered_json head_json(const runtime::Instance& instance, const std::vector<driver::Drawn>& drawn) {
  nlohmann::ordered_json head = {{"device", instance.device_name()}, {"reason", instance.device_reason()}};
  if (!drawn.empty()) head["random"] = to_json(drawn);
  return head;
}

/// Steps until they are done, or until a signal asks for the end where there is a state to save. Returns the exit code.
int run_steps(const LoadedLibrary& loaded, const driver::InputTensors& given, const StepFlags& training, SavedTensors saved, bool json) {
  nlohmann::ordered_json report = head_json(*loaded.instance, given.drawn);
  if (!json) write_stdout(head_text(*loaded.instance, given.drawn));
  std::optional<Interruption> interruption;
  if (!training.save.empty()) interruption.emplace();
  std::vector<float> losses;
  const auto wants_more = [&] {
    const int done = static_cast<int>(losses.size());
    if (done == training.steps) return false;
    // Gradients are no part of a saved state: not between the micro-batches of one update.
    return !interruption || !interruption->requested() || done % loaded.library->accumulate() != 0;
  };
  while (wants_more()) {
    const double loss = loaded.instance->step(given.tensors).at(0).as_double(0);
    losses.push_back(static_cast<float>(loss));
    report["losses"].push_back(number(loss));
    if (!json) write_stdout("step " + std::to_string(losses.size()) + ": loss " + number_text(loss) + "\n");
  }
  Tensor loss_tensor(DType::f32, {static_cast<int64_t>(losses.size())});
  std::copy(losses.begin(), losses.end(), loss_tensor.mutable_data<float>());
  if (!training.save.empty()) loaded.instance->save_state(training.save);
  saved.add("losses", "losses", loss_tensor);
  saved.finish();
  const bool interrupted = static_cast<int>(losses.size()) < training.steps;
  if (interrupted) report["interrupted"] = true;
  if (json) write_stdout(report.dump(2) + "\n");
  if (!interrupted) return 0;
  Diagnostics diagnostics;
  diagnostics.note("", "interrupted after step " + std::to_string(losses.size()) + " of " + std::to_string(training.steps) +
                           "; the state is saved in " + training.save);
  std::fprintf(stderr, "%s\n", to_string(diagnostics.all().front()).c_str());
  return interruption->exit_code();
}

/// A name may have an `=` of its own, a number has none.
void set_scalar(runtime::Instance& instance, const std::string& setting) {
  const size_t equals = setting.rfind('=');
  char* end = nullptr;
  const std::string text = equals == std::string::npos ? "" : setting.substr(equals + 1);
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') throw Error(ExitCode::usage, "invalid-argument", "", "--set=" + setting + ": NAME=NUMBER was expected");
  instance.set_scalar(setting.substr(0, equals), value);
}

std::optional<double> tolerance(double value) { return value >= 0 ? std::optional(value) : std::nullopt; }

/// Which function runs, and what becomes of its outputs.
struct OutputFlags {
  std::string function, save, expect;
  double rtol = -1, atol = -1;  ///< below zero: not given
  bool json = false;
  std::vector<std::string> settings;

  void add_to(CLI::App& app) {
    add_list(app, "--set", settings, "states what guards compare, or gives another scalar: state:grad_enabled=0")->type_name("NAME=VALUE");
    app.add_option("--function", function, "of a library with several, the one to run (the first)")->type_name("NAME");
    app.add_option("--save", save,
                   "writes the outputs to FOLDER/0.npy, FOLDER/1.npy, ..., gradients to FOLDER/grad.<name>.npy, losses to "
                   "FOLDER/losses.npy; or all of them to an .npz, under their names")
        ->type_name("FOLDER|FILE.npz");
    CLI::Option* expect_option =
        app.add_option("--expect", expect, "compares the outputs with arrays of their names; exit code 3 when one differs")
            ->type_name("FILE.npz");
    app.add_option("--rtol", rtol, "relative tolerance of --expect (f32 1e-4, f16 1e-2, bf16 4e-2, f64 1e-9)")
        ->type_name("X")
        ->needs(expect_option);
    app.add_option("--atol", atol, "absolute tolerance of --expect (f32 1e-5 or 2e-5 of the largest element, and so on for other dtypes)")
        ->type_name("X")
        ->needs(expect_option);
    app.add_flag("--json", json, "prints one JSON object");
  }

  void check(const CLI::App& app) const {
    for (const auto& [flag, value] : {std::pair{"--rtol", rtol}, {"--atol", atol}}) {
      if (app.get_option(flag)->count() == 0 || (std::isfinite(value) && value >= 0)) continue;
      throw Error(ExitCode::usage, "invalid-argument", "",
                  std::string(flag) + "=" + number_text(value) + ": a number was expected, at least 0");
    }
  }
};

/// The number of the function that the flags name.
int function_of(const runtime::Library& library, const OutputFlags& flags, bool steps) {
  if (steps && !flags.function.empty())
    throw Error(ExitCode::usage, "invalid-argument", "", "--function says nothing with --steps", "a step is the function `step`");
  const int function = steps ? library.function("step") : flags.function.empty() ? 0 : library.function(flags.function);
  if (steps && !flags.expect.empty())
    throw Error(ExitCode::usage, "invalid-argument", "", "--expect compares the outputs of one run, and --steps gives none");
  return function;
}

/// The state and the scalars that the first run finds.
void set_up(const LoadedLibrary& loaded, const StepFlags& training, const OutputFlags& flags, uint64_t seed) {
  if (!training.load.empty()) loaded.instance->load_state(training.load);
  if (training.lr_option->count() > 0) loaded.instance->set_scalar("lr", training.lr);
  for (const runtime::ScalarInfo& scalar : loaded.library->scalars()) {
    if (scalar.name == "seed") loaded.instance->set_scalar("seed", static_cast<double>(seed));
  }
  for (const std::string& setting : flags.settings) set_scalar(*loaded.instance, setting);
}

/// Prints, saves and compares the outputs of the last run.
void tell(const LoadedLibrary& loaded, const std::vector<driver::Drawn>& drawn, const runtime::FunctionInfo& info,
          const std::vector<Tensor>& outputs, const OutputFlags& flags, const std::optional<ExpectedOutputs>& expected,
          SavedTensors saved) {
  nlohmann::ordered_json report = head_json(*loaded.instance, drawn);
  std::string text = head_text(*loaded.instance, drawn);
  Diagnostics differences;
  size_t number_of_file = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const runtime::TensorInfo& output = info.outputs[i];
    const TensorSummary summary = summarize(outputs[i]);
    const std::string file = output.name.starts_with("grad.") ? file_name_of(output.name) : std::to_string(number_of_file++);
    const std::string path = saved.add(output.name, file, outputs[i]);
    text += printable(output.name) + ": " + std::string(name_of(output.dtype)) + to_string(std::span(output.shape)) + " min " +
            number_text(summary.min) + " max " + number_text(summary.max) + " mean " + number_text(summary.mean);
    if (summary.num_nan > 0) text += " nan " + std::to_string(summary.num_nan);
    nlohmann::ordered_json row = {{"name", output.name},        {"dtype", name_of(output.dtype)}, {"shape", output.shape},
                                  {"min", number(summary.min)}, {"max", number(summary.max)},     {"mean", number(summary.mean)},
                                  {"nan", summary.num_nan}};
    if (!path.empty()) row["file"] = path;
    if (expected) {
      const auto comparison = expected->compare(output.name, outputs[i], tolerance(flags.rtol), tolerance(flags.atol));
      text += comparison ? ", " + describe(*comparison) : ", nothing expected";
      if (comparison) row["expected"] = to_json(*comparison);
      if (comparison && comparison->num_wrong > 0)
        differences.error("verification-failed", flags.expect,
                          "output `" + output.name + "`: " + describe_worst(*comparison, output.shape, "expected"));
    }
    text += "\n";
    report["outputs"].push_back(std::move(row));
  }
  saved.finish();
  write_stdout(flags.json ? report.dump(2) + "\n" : text);
  differences.checkpoint(ExitCode::verification);
}

}  // namespace

int run(const Arguments& arguments) {
  CLI::App app("Runs a library made by tcc: once, --runs times, or --steps times to train.", "tcc run");
  LibraryFlags flags;
  StepFlags training;
  OutputFlags of_outputs;
  flags.add_to(app);
  training.add_to(app);
  of_outputs.add_to(app);
  if (!parse(app, arguments)) return 0;
  of_outputs.check(app);

  check_files(flags, of_outputs.expect, of_outputs.save, training.save);
  const LoadedLibrary loaded = flags.load();
  training.check(loaded, flags.path);
  const bool steps = training.steps > 0;
  const int function = function_of(*loaded.library, of_outputs, steps);
  const runtime::FunctionInfo& info = loaded.library->functions()[static_cast<size_t>(function)];
  std::optional<ExpectedOutputs> expected;
  if (!of_outputs.expect.empty()) {
    expected.emplace(of_outputs.expect, info);
    for (const runtime::TensorInfo& output : info.outputs) flags.input.other_arrays.insert(output.name);
  }
  const driver::InputTensors given = flags.inputs(*loaded.library, function);
  SavedTensors saved(of_outputs.save);
  for (const runtime::TensorInfo& output : info.outputs) saved.check(output.name, output.dtype);
  set_up(loaded, training, of_outputs, flags.input.seed);
  if (steps) return run_steps(loaded, given, training, std::move(saved), of_outputs.json);
  std::vector<Tensor> outputs;
  for (int i = 0; i < training.runs; ++i) outputs = loaded.instance->run(function, given.tensors);
  if (!training.save.empty()) loaded.instance->save_state(training.save);
  tell(loaded, given.drawn, info, outputs, of_outputs, expected, std::move(saved));
  return 0;
}

}  // namespace tcc::cli
