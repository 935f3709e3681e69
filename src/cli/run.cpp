// tcc run m.so --input a.npy --save DIR
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

nlohmann::ordered_json number(double value) {
  if (std::isfinite(value)) return value;
  return number_text(value);  // JSON has no infinities
}

}  // namespace

int run(const Arguments& arguments) {
  CLI::App app("Runs a library made by tcc, once.", "tcc run");
  LibraryFlags flags;
  flags.add_to(app);
  std::string folder;
  bool json = false;
  app.add_option("--save", folder, "writes the outputs to FOLDER/0.npy, FOLDER/1.npy, ...")->type_name("FOLDER");
  app.add_flag("--json", json, "prints one JSON object");
  if (!parse(app, arguments)) return 0;

  const LoadedLibrary loaded = flags.load();
  const std::vector<Tensor> inputs = flags.inputs(*loaded.library);
  const std::vector<Tensor> outputs = loaded.instance->run(inputs);
  if (!folder.empty()) make_folder(folder);

  nlohmann::ordered_json report;
  report["device"] = loaded.instance->device_name();
  report["reason"] = loaded.instance->device_reason();
  std::string text = "device: " + loaded.instance->device_name() + " (" + loaded.instance->device_reason() + ")\n";
  for (size_t i = 0; i < outputs.size(); ++i) {
    const runtime::TensorInfo& info = loaded.library->outputs()[i];
    const TensorSummary summary = summarize(outputs[i]);
    std::string path;
    if (!folder.empty()) path = driver::write_tensor_file(folder + "/" + std::to_string(i), outputs[i], info.name);
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
