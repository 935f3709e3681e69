// tcc model.onnx -o model.so: the verb that has no name.
#include "cli/command_line.h"
#include "driver/emit.h"
#include "tcc/driver/pipeline.h"

namespace tcc::cli {

namespace {

constexpr const char* kVerbs = R"(
Verbs, each with a --help of its own:
  tcc run      run a library on given or random inputs, or train with it
  tcc bench    time a library
  tcc verify   compile a model, run it and compare every output and gradient with the interpreter in f64
  tcc check    list everything in a model that is not supported

Products of --emit: graph, prims, groups, loop, schedule, kernel, plan, llvm, ptx, asm, obj, header, manifest; with --mode=grad and train
also joint, remat, forward, backward. One without a path goes to standard output, several go to <stem>.<kind> in this folder,
<stem>.<target>.<kind> where the target matters.

Exit codes: 0 success, 1 the model can't be compiled, 2 wrong usage, 3 verification failed, 4 a bug in tcc, 5 files, memory or devices.
)";

/// "ptx=out.ptx" -> kind and path. A piece without `=` or with an unknown kind is for the driver to refuse.
driver::EmitRequest parse_emit(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) return {text, ""};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::string passes_text() {
  std::string text = "\nPasses of --pass and --print-after:\n";
  for (const driver::PassInfo& pass : driver::graph_passes()) {
    std::string line = "  " + std::string(pass.name);
    line.resize(std::max<size_t>(line.size() + 2, 36), ' ');
    text += line + std::string(pass.description) + "\n";
  }
  return text;
}

}  // namespace

int compile(const Arguments& arguments) {
  driver::Options options;
  CompileFlags flags(&options);
  std::vector<std::string> emit;
  std::string weights = "embed";
  CLI::App app("Compiles a neural network ahead of time into one shared library.", "tcc");
  flags.add_to(app);
  app.add_option("-o", options.output, "the library to write")->type_name("FILE")->group("Output");
  add_list(app, "--emit", emit, "prints stages, see below")->delimiter(',')->type_name("KIND[=PATH],...")->group("Output");
  app.add_option("--emit-weights", options.emit_weights, "weights of a graph that goes to standard output")
      ->type_name("FILE")
      ->group("Output");
  app.add_option("--dump-dir", options.dump_dir, "folder for everything that --emit names without a path; all kinds without --emit")
      ->type_name("FOLDER")
      ->group("Output");
  add_list(app, "--print-after", options.print_after, "prints the graph after passes to stderr; also all, changed")
      ->delimiter(',')
      ->type_name("PASS,...")
      ->group("Output");
  add_list(app, "--pass", options.passes, "runs only these passes, in this order; with --from=loop primitives of a schedule")
      ->type_name("PASS")
      ->group("Output");
  app.add_option("--weights", weights, "embed, or file: beside the library, <library>.weights")->type_name("PLACE")->group("Output");
  app.add_option("--symbol-prefix", options.symbol_prefix, "of the C interface (tcc_model)")->type_name("NAME")->group("Output");
  app.add_option("--soname", options.soname, "the name by which programs linked with the library ask for it (that of -o), or none")
      ->type_name("NAME")
      ->group("Output");
  app.add_flag("--MD", options.dependencies, "writes a Makefile rule with what was read")->group("Output");
  app.add_option("--MF", options.dependency_file, "where -MD writes, <library>.d otherwise")->type_name("FILE")->group("Output");
  bool version = false;  // main() has seen to it when it comes first
  app.add_flag("--version", version, "prints the version");
  app.footer(kVerbs + passes_text());
  if (!parse(app, arguments)) return 0;
  flags.apply();
  for (const std::string& text : emit) options.emit.push_back(parse_emit(text));
  if (weights != "embed" && weights != "file") {
    throw Error(ExitCode::usage, "invalid-argument", "", "--weights=" + weights + ": there is no such choice", "choices are embed, file");
  }
  options.weights = weights == "file" ? driver::WeightsPlace::file : driver::WeightsPlace::embed;
  Diagnostics diagnostics;
  driver::compile(options, diagnostics);
  print_diagnostics(diagnostics, options);
  return 0;
}

}  // namespace tcc::cli
