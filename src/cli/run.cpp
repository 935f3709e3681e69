// tcc run m.so --input a.npy --save DIR; tcc run step.so --input x=x.npy --input target=t.npy --steps 20
#include <nlohmann/json.hpp>

#include <sys/stat.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "cli/command_line.h"
#include "cli/library_flags.h"
#include "cli/tensor_summary.h"
#include "driver/emit.h"

namespace tcc::cli {

namespace {

void make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) == 0 || errno == EEXIST) return;
  throw Error(ExitCode::environment, "unwritable-file", path, std::string("the folder can't be made: ") + std::strerror(errno));
}

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

/// Training: the same batch again and again.
struct StepFlags {
  int steps = 0;
  double lr = 0;
  std::string load, save;
  CLI::Option *lr_option = nullptr, *steps_option = nullptr;

  void add_to(CLI::App& app) {
    steps_option =
        app.add_option("--steps", steps, "training steps on these inputs; prints the loss of each, before its update")->type_name("N");
    lr_option = app.add_option("--lr", lr, "learning rate (that of --optimizer)")->type_name("X");
    app.add_option("--load-state", load, "parameters and optimizer state to begin with, a safetensors file")->type_name("FILE");
    app.add_option("--save-state", save, "where to write them at the end")->type_name("FILE");
  }

  void check(const LoadedLibrary& loaded, const std::string& path) const {
    const bool trains = loaded.library->trains();
    const auto refuse = [&](const std::string& message) {
      throw Error(ExitCode::usage, "invalid-argument", path, message, "a library that trains is made with --mode=train");
    };
    if (steps_option->count() > 0 && !trains) refuse("--steps: the library has no training step");
    if (lr_option->count() > 0 && !trains) refuse("--lr: the library has no learning rate");
    if (lr_option->count() > 0 && !std::isfinite(lr))
      throw Error(ExitCode::usage, "invalid-argument", "", "--lr=" + number_text(lr) + ": a number was expected");
    if ((!load.empty() || !save.empty()) && loaded.library->state().empty()) refuse("the library keeps no state to load or save");
    if (steps_option->count() > 0 && steps < 1)
      throw Error(ExitCode::usage, "invalid-argument", "",
                  "--steps=" + std::to_string(steps) + ": a number of steps was expected, at least 1");
  }
};

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

void run_steps(const LoadedLibrary& loaded, const driver::InputTensors& given, int steps, const std::string& folder, bool json) {
  nlohmann::ordered_json report = head_json(*loaded.instance, given.drawn);
  if (!json) driver::write_stdout(head_text(*loaded.instance, given.drawn));
  Tensor losses(DType::f32, {steps});
  for (int i = 0; i < steps; ++i) {
    const double loss = loaded.instance->step(given.tensors).at(0).as_double(0);
    losses.set_double(i, loss);
    report["losses"].push_back(number(loss));
    if (!json) driver::write_stdout("step " + std::to_string(i + 1) + ": loss " + number_text(loss) + "\n");
  }
  if (!folder.empty()) driver::write_tensor_file(folder + "/losses", losses, "losses");
  if (json) driver::write_stdout(report.dump(2) + "\n");
}

}  // namespace

int run(const Arguments& arguments) {
  CLI::App app("Runs a library made by tcc: once, or --steps times to train.", "tcc run");
  LibraryFlags flags;
  StepFlags training;
  flags.add_to(app);
  training.add_to(app);
  std::string folder;
  bool json = false;
  app.add_option("--save", folder,
                 "writes the outputs to FOLDER/0.npy, FOLDER/1.npy, ..., gradients to FOLDER/grad.<name>.npy, losses to FOLDER/losses.npy")
      ->type_name("FOLDER");
  app.add_flag("--json", json, "prints one JSON object");
  if (!parse(app, arguments)) return 0;

  const LoadedLibrary loaded = flags.load();
  training.check(loaded, flags.path);
  const bool steps = training.steps > 0;
  const driver::InputTensors given = flags.inputs(*loaded.library, steps ? loaded.library->function("step") : 0);
  if (!folder.empty()) make_folder(folder);
  if (!training.load.empty()) loaded.instance->load_state(training.load);
  if (training.lr_option->count() > 0) loaded.instance->set_scalar("lr", training.lr);
  for (const runtime::ScalarInfo& scalar : loaded.library->scalars()) {
    if (scalar.name == "seed") loaded.instance->set_scalar("seed", static_cast<double>(flags.input.seed));
  }
  if (steps) {
    run_steps(loaded, given, training.steps, folder, json);
    if (!training.save.empty()) loaded.instance->save_state(training.save);
    return 0;
  }
  const std::vector<Tensor> outputs = loaded.instance->run(given.tensors);
  if (!training.save.empty()) loaded.instance->save_state(training.save);

  nlohmann::ordered_json report = head_json(*loaded.instance, given.drawn);
  std::string text = head_text(*loaded.instance, given.drawn);
  size_t number_of_file = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const runtime::TensorInfo& info = loaded.library->outputs()[i];
    const TensorSummary summary = summarize(outputs[i]);
    std::string path;
    const std::string file = info.name.starts_with("grad.") ? file_name_of(info.name) : std::to_string(number_of_file++);
    if (!folder.empty()) path = driver::write_tensor_file(folder + "/" + file, outputs[i], info.name);
    text += info.name + ": " + std::string(name_of(info.dtype)) + to_string(std::span(info.shape)) + " min " + number_text(summary.min) +
            " max " + number_text(summary.max) + " mean " + number_text(summary.mean);
    if (summary.num_nan > 0) text += " nan " + std::to_string(summary.num_nan);
    text += "\n";
    nlohmann::ordered_json row = {{"name", info.name},          {"dtype", name_of(info.dtype)}, {"shape", info.shape},
                                  {"min", number(summary.min)}, {"max", number(summary.max)},   {"mean", number(summary.mean)},
                                  {"nan", summary.num_nan}};
    if (!path.empty()) row["file"] = path;
    report["outputs"].push_back(std::move(row));
  }
  driver::write_stdout(json ? report.dump(2) + "\n" : text);
  return 0;
}

}  // namespace tcc::cli
