// tcc check model.onnx: everything that is not supported, at once.
#include "cli/command_line.h"
#include "driver/emit.h"
#include "tcc/driver/pipeline.h"

namespace tcc::cli {

int check(const Arguments& arguments) {
  driver::Options options;
  CompileFlags flags(&options);
  CLI::App app("Says whether a model can be compiled, and lists every node that can't.", "tcc check");
  flags.add_to(app);
  if (!parse(app, arguments)) return 0;
  flags.apply();
  Diagnostics diagnostics;
  const std::unique_ptr<Graph> prims = driver::check_model(options, diagnostics);
  print_diagnostics(diagnostics, options);
  driver::write_stdout(options.model + ": every node is supported, " + std::to_string(prims->body.nodes.size()) + " prims\n");
  return 0;
}

}  // namespace tcc::cli
