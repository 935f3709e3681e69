#include "cli/library_flags.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tcc/support/parallel.h"

namespace tcc::cli {

void LibraryFlags::add_to(CLI::App& app) {
  app.add_option("library", path, "what `tcc -o` wrote")->required()->type_name("");
  add_list(app, "--input", input.inputs, "a .npy or .pb file for the next input or the one named, or an .npz with arrays named like inputs")
      ->type_name("[NAME=]FILE");
  app.add_flag("--random", input.random, "inputs that are not given are random");
  add_list(app, "--range", input.ranges,
           "what random elements of an input are drawn from, both included (indices and classes: what is valid; other integers: 0:1; "
           "floats: normal)")
      ->type_name("NAME=LOW:HIGH");
  app.add_option("--seed", input.seed, "of random inputs (0)")->type_name("N");
  app.add_option("--device", device, "auto, cuda, cpu; auto takes CUDA where it can")->type_name("DEVICE");
  app.add_option("--device-number", ordinal, "which CUDA device (0)")->type_name("N");
  app.add_option("--threads", threads, "of the CPU (all that this process may use)")->type_name("N");
  app.add_option("--weights", weights,
                 "weights of a library compiled with --weights=file (<library>.weights), or a state file whose parameters a library for "
                 "training takes")
      ->type_name("FILE");
  app.add_flag("--check", check, "first compares code and weights with the checksums that tcc wrote");
  app.add_flag("--no-cuda-graph", no_cuda_graph, "launches each kernel by itself");
}

LoadedLibrary LibraryFlags::load() const {
  const runtime::Device chosen = parse_device(device);
  if (threads < 0)
    throw Error(ExitCode::usage, "invalid-argument", "", "--threads=" + std::to_string(threads) + ": a number of threads was expected");
  LoadedLibrary loaded;
  loaded.library = runtime::Library::open(path, check ? runtime::Library::Check::whole : runtime::Library::Check::usual);
  runtime::InstanceOptions options;
  options.device = chosen;
  options.device_ordinal = ordinal;
  options.num_threads = threads;
  options.cuda_graph = !no_cuda_graph;
  options.check_weights = check;
  // What create() says of the device is printed by the verbs; what it says of state files is news.
  const auto created = std::make_shared<bool>(false);
  options.log = [created](const std::string& message) {
    if (*created) std::fprintf(stderr, "%s\n", message.c_str());
  };
  const bool trains = loaded.library->trains();
  if (!loaded.library->info().weights_embedded) options.weights_path = weights.empty() || trains ? path + ".weights" : weights;
  else if (!trains) options.weights_path = weights;
  loaded.instance = std::make_unique<runtime::Instance>(loaded.library, options);
  *created = true;
  if (const int usable = num_threads(); !loaded.instance->on_cuda() && threads > usable) {
    Diagnostics diagnostics;
    diagnostics.note("", "--threads=" + std::to_string(threads) + ": this process may use " + std::to_string(usable) +
                             (usable == 1 ? " CPU" : " CPUs") + ", threads will wait for each other");
    std::fprintf(stderr, "%s\n", to_string(diagnostics.all().front()).c_str());
  }
  if (trains && !weights.empty()) loaded.instance->load_state(weights, true);
  return loaded;
}

driver::InputTensors LibraryFlags::inputs(const runtime::Library& library, int function) const {
  std::vector<driver::ExpectedTensor> expected;
  for (const runtime::TensorInfo& info : library.functions().at(static_cast<size_t>(function)).inputs)
    expected.push_back({info.name, info.dtype, info.shape, info.range});
  return driver::gather_inputs(expected, input, path);
}

nlohmann::ordered_json to_json(const std::vector<driver::Drawn>& drawn) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const driver::Drawn& input : drawn) {
    nlohmann::ordered_json row = {{"name", input.name}, {"dtype", name_of(input.dtype)}, {"shape", input.shape}, {"seed", input.seed}};
    const auto bound = [&](double value) {
      return is_float(input.dtype) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(static_cast<int64_t>(value));
    };
    if (!input.normal) {
      row["low"] = bound(input.low);
      row["high"] = bound(input.high);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace tcc::cli
