// tcc model.onnx -o model.so: the verb that has no name.
#include <unistd.h>

#include "cli/command_line.h"
#include "tcc/driver/emit_kinds.h"
#include "tcc/driver/pipeline.h"
#include "tcc/support/suggest.h"

namespace tcc::cli {

namespace {

/// "ptx=out.ptx" -> kind and path. A piece without `=` or with an unknown kind is for the driver to refuse.
driver::EmitRequest parse_emit(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) return {text, ""};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

using Rows = std::vector<std::pair<std::string, std::string>>;

Help compile_help() {
  Help help;
  help.usage = {"[flags] MODEL -o LIBRARY", "[flags] MODEL --emit=KIND,...", "VERB ..."};
  help.examples = {
      {"tcc net.onnx -o net.so", "a library for GPUs and CPUs, and net.so alone to deploy"},
      {"tcc net.onnx --bind batch=8 --target=cpu -o net.so --emit=header=net.h", "sizes fixed, for CPUs only, with its C header"},
      {"tcc net.onnx --mode=train --loss=cross_entropy --optimizer=adamw -o step.so", "a library that trains"},
      {"tcc net.onnx --emit=kernel --target=cpu", "prints a stage, here the scheduled kernels"}};
  Rows rows;
  for (const Verb& verb : verbs()) rows.emplace_back(std::string("tcc ") + verb.name, verb.description);
  help.tables.emplace_back("Verbs, each with a help of its own (tcc help VERB)", rows);
  rows.clear();
  for (const driver::EmitKind& kind : driver::emit_kinds()) rows.emplace_back(kind.name, kind.description);
  help.tables.emplace_back("Products of --emit", rows);
  rows.clear();
  for (const driver::PassInfo& pass : driver::graph_passes()) rows.emplace_back(pass.name, pass.description);
  help.tables.emplace_back("Passes of --pass and --print-after, in the order in which they run", rows);
  help.footer =
      "One product without a path goes to standard output. Several go to files in this folder or that of --dump-dir, named "
      "<stem>.<ending> or, where the target matters, <stem>.<target>.<ending>.\n\n"
      "Exit codes: 0 success, 1 the model can't be compiled, 2 wrong usage, 3 verification failed, 4 a bug in tcc, 5 files, memory or "
      "devices. `tcc explain KIND` says more about the word in brackets at the end of a message.";
  return help;
}

/// A first word that is no file but nearly a verb.
void refuse_misspelt_verb(const Arguments& arguments) {
  if (arguments.empty() || arguments[0].find_first_of("-./") != std::string::npos) return;
  const std::string meant = nearest(arguments[0], verb_names());
  if (meant.empty() || ::access(arguments[0].c_str(), F_OK) == 0) return;
  throw Error(ExitCode::usage, "invalid-argument", "", "`" + arguments[0] + "` is neither a verb nor a file",
              "did you mean `tcc " + meant + "`?");
}

}  // namespace

int compile(const Arguments& arguments) {
  driver::Options options;
  CompileFlags flags(&options);
  std::vector<std::string> emit;
  std::string weights = "embed";
  CLI::App app("Compiles a neural network ahead of time into one shared library.", "tcc");
  app.add_option("-o", options.output, "the library to write")->type_name("FILE")->group("Common flags");
  add_list(app, "--emit", emit, "prints stages, see below; without -o compiling stops there")
      ->delimiter(',')
      ->type_name("KIND[=PATH],...")
      ->group("Common flags");
  flags.add_to(app);
  app.add_option("--dump-dir", options.dump_dir, "folder for products without a path; all kinds go there without --emit")
      ->type_name("FOLDER")
      ->group("Output");
  app.add_option("--emit-weights", options.emit_weights, "where the weights of a graph go that is printed to standard output")
      ->type_name("FILE")
      ->group("Output");
  add_list(app, "--print-after", options.print_after, "prints the graph after passes to standard error; also all, changed")
      ->delimiter(',')
      ->type_name("PASS,...")
      ->group("Output");
  add_list(app, "--pass", options.passes, "runs only these passes, in this order; with --from=loop these primitives of a schedule")
      ->type_name("PASS")
      ->group("Output");
  app.add_option("--weights", weights, "embed: in the library, file: beside it as <library>.weights (embed)")
      ->type_name("PLACE")
      ->group("Output");
  app.add_option("--symbol-prefix", options.symbol_prefix, "of the C interface (tcc_model)")->type_name("NAME")->group("Output");
  app.add_option("--soname", options.soname, "the name by which programs linked with the library ask for it (that of -o), or none")
      ->type_name("NAME")
      ->group("Output");
  app.add_flag("--MD", options.dependencies, "writes a Makefile rule with what was read")->group("Output");
  app.add_option("--MF", options.dependency_file, "where -MD writes (<library>.d)")->type_name("FILE")->group("Output");
  app.add_flag("--time-report", options.time_report, "how long each stage took, to standard error")->group("Manners");
  bool version = false;  // parse() sees to it
  app.add_flag("--version", version, "the version, and what tcc was built with")->group("Common flags");
  refuse_misspelt_verb(arguments);
  if (!parse(app, arguments, compile_help())) return 0;
  flags.apply();
  for (const std::string& text : emit) options.emit.push_back(parse_emit(text));
  require_one_of("--weights", weights, {"embed", "file"});
  options.weights = weights == "file" ? driver::WeightsPlace::file : driver::WeightsPlace::embed;
  Diagnostics diagnostics;
  driver::compile(options, diagnostics);
  print_diagnostics(diagnostics, options);
  return 0;
}

}  // namespace tcc::cli
