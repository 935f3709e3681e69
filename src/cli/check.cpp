// tcc check model.onnx: everything that is not supported, at once.
#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "driver/emit.h"
#include "tcc/driver/pipeline.h"

namespace tcc::cli {

namespace {

using Json = nlohmann::ordered_json;

/// One object, also for a model that can't be compiled; the exit code says the same.
int check_to_json(driver::Options options) {
  options.json_diagnostics = true;  // every node of an unknown op
  Json report = {{"model", options.model}, {"supported", true}};
  const auto add = [&](const std::vector<Diagnostic>& diagnostics) {
    for (const Diagnostic& diagnostic : diagnostics) report["diagnostics"].push_back(json_of(diagnostic));
  };
  int exit_code = 0;
  Diagnostics diagnostics;
  try {
    const std::unique_ptr<Graph> prims = driver::check_model(options, diagnostics);
    report["prims"] = prims->body.nodes.size();
    add(diagnostics.all());
  } catch (const Error& error) {
    if (error.code() != ExitCode::model) throw;
    report["supported"] = false;
    add(error.diagnostics());
    exit_code = static_cast<int>(error.code());
  }
  driver::write_stdout(report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  return exit_code;
}

}  // namespace

int check(const Arguments& arguments) {
  driver::Options options;
  CompileFlags flags(&options);
  bool json = false;
  CLI::App app("Says whether a model can be compiled, and lists all that is in the way: every unknown op with its nodes, every fault.",
               "tcc check");
  flags.add_to(app);
  app.add_flag("--json", json, "prints one JSON object, with every node of an unknown op")->group("Output");
  if (!parse(app, arguments)) return 0;
  flags.apply();
  if (options.from == "loop" || options.from == "kernel") {
    throw Error(ExitCode::usage, "invalid-argument", "", "--from=" + options.from + ": loops and kernels have no nodes to check",
                "tcc verify takes them, and so does compiling");
  }
  if (json) return check_to_json(options);
  Diagnostics diagnostics;
  const std::unique_ptr<Graph> prims = driver::check_model(options, diagnostics);
  print_diagnostics(diagnostics, options);
  driver::write_stdout(options.model + ": every node is supported, " + std::to_string(prims->body.nodes.size()) + " prims\n");
  return 0;
}

}  // namespace tcc::cli
