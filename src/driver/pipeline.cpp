// A compilation from its command to its products. The order of passes and stages is in stages.cpp.
#include "tcc/driver/pipeline.h"

#include <algorithm>
#include <cstdio>

#include "driver/check_options.h"
#include "driver/dependencies.h"
#include "driver/emit.h"
#include "driver/emit_target.h"
#include "driver/from_loops.h"
#include "driver/import_models.h"
#include "driver/link_library.h"
#include "driver/plan_functions.h"
#include "driver/run_stage.h"
#include "tcc/driver/read_ir.h"
#include "tcc/support/standard_output.h"
#include "tcc/support/suggest.h"

namespace tcc::driver {

namespace {

void write_dependencies(Session& session, ProductWriter& writer) {
  const std::string path = dependency_path(session.options);
  if (path.empty()) return;
  const std::string text = dependencies(session.options, writer.paths(), session.files.read_paths());
  if (path == "-") write_stdout(text);
  else writer.outputs().write(path, text);
}

/// Code, what is printed, and the library.
void finish(Session& session, const LibraryInterface* interface, std::vector<TargetBuild>& builds, ProductWriter& writer) {
  const Options& options = session.options;
  for (const TargetBuild& build : builds) emit_target(session, build, writer);
  if (interface != nullptr) emit_interface(session, *interface, builds, writer);
  if (options.output.empty()) return;
  if (interface == nullptr) {
    throw Error(ExitCode::usage, "invalid-argument", options.model, "a library is made of one unit or kernel, the text has several",
                "leave -o out, or cut the text");
  }
  link_library(session, *interface, builds, writer.outputs(), options.output);
}

void finish(Session& session, UnitBuilds& units, ProductWriter& writer) {
  if (units.interface == nullptr) return finish(session, nullptr, units.builds, writer);
  LibraryInterface interface;
  interface.model_name = units.interface->name;
  interface.functions = {{"infer", units.interface.get()}};
  finish(session, &interface, units.builds, writer);
}

void compile_loops(Session& session, const std::vector<TargetChoice>& choices, ProductWriter& writer) {
  const Options& options = session.options;
  const auto is_asked_for = [&](const EmitKind& kind) { return kind.name != "loop" && writer.wants(kind.name); };
  if (!options.passes.empty() && options.output.empty() && std::ranges::none_of(emit_kinds(), is_asked_for)) {
    for (const TargetChoice& choice : choices) writer.write("loop", choice.name, print_loops(session, choice));
    return;
  }
  UnitBuilds units = plan_loops(session, choices);
  finish(session, units, writer);
}

/// --pass: these passes alone.
void run_passes(Session& session, PassState& state, const TargetChoice& choice, ProductWriter& writer) {
  UnitCaches caches;
  const plan::PlanOptions plan_options;
  for (const std::string& name : session.options.passes) {
    Trials trials;
    const ResidualSearch search = residual_search(session.options, choice, plan_options, caches, trials, false);
    state.search = name == "choose-residuals" ? &search : nullptr;
    run_pass(session, state, name);
  }
  writer.write_graph("graph", *state.graph);
  writer.write_fx(*state.graph);
  writer.write_graph("prims", *state.graph);
}

bool prints_units(const Options& options) {
  return std::ranges::any_of(unit_stages(), [&](const PassInfo& stage) { return prints_after(options, stage.name, false); });
}

void compile_graph(Session& session, const std::vector<TargetChoice>& choices, ProductWriter& writer) {
  const Options& options = session.options;
  std::vector<PassState> states = import_models(session);
  PassState& state = states.front();
  if (!options.passes.empty()) return run_passes(session, state, choices.front(), writer);
  writer.write_graph("graph", *state.graph);
  writer.write_fx(*state.graph);
  const bool builds = !options.output.empty();
  if (const StateUpdate* update = update_of_training(*state.graph); builds && options.mode == Mode::infer && update != nullptr) {
    throw Error(ExitCode::usage, "invalid-argument", options.model,
                "the graph updates state, `" + update->weight->name + "` for one, and the text doesn't say how it is laid out",
                "leave -o out to look at it; a library that trains is made from the model with --mode=train");
  }
  if (!builds && writer.last_stage() <= Stage::imported && options.print_after.empty()) return;
  Functions functions =
      make_functions(session, std::move(states), writer, !builds && writer.last_stage() == Stage::joint && options.print_after.empty());
  if (functions.list.empty()) return;
  writer.write_graph("prims", *functions.list[functions.main].prims);
  if (!builds && writer.last_stage() <= Stage::prims && !prints_units(options)) return;
  Library library = plan_functions(session, std::move(functions), choices, writer);
  finish(session, &library.interface, library.builds, writer);
}

/// For what only looks at the result.
Options without_products(Options options) {
  options.emit.clear();
  options.dump_dir.clear();
  options.output.clear();
  return options;
}

}  // namespace

void compile(const Options& options, Diagnostics& diagnostics) {
  set_up(options);
  check_products(options);
  Session session(options, diagnostics);
  CommandFiles& files = session.files;
  list_files(options, files);
  files.check_distinct();
  check_dependencies(options, files.read_paths());
  std::vector<TargetChoice> choices = choose_targets(options);
  std::vector<loop::Kernel> kernels;
  if (options.from == "kernel") {
    kernels = read_kernels(options);
    choices = {target_of(kernels, choices, options.model)};
  }
  ProductWriter writer(options, choices);
  writer.list_files(files);
  files.check_distinct();
  writer.make_folder();
  files.check_writable();
  if (options.from == "kernel") {
    UnitBuilds units = plan_kernels(kernels, choices.front());
    finish(session, units, writer);
  } else if (options.from == "loop") {
    compile_loops(session, choices, writer);
  } else {
    compile_graph(session, choices, writer);
  }
  write_dependencies(session, writer);
  writer.outputs().commit(options.output);
  session.progress.clear();
  if (options.time_report) std::fputs(session.times.table().c_str(), stderr);
}

void compile_to_library(const std::string& model, Options options, const std::string& output) {
  options.model = model;
  options.output = output;
  options.emit.clear();
  Diagnostics diagnostics;
  compile(options, diagnostics);
}

std::unique_ptr<Graph> compile_to_prims(const Options& options, Diagnostics& diagnostics) {
  set_up(options);
  Options quiet = without_products(options);
  Session session(quiet, diagnostics);
  ProductWriter writer(quiet, choose_targets(quiet));
  std::vector<PassState> states = import_models(session);
  if (states.size() > 1) {
    std::vector<std::string> names;
    for (const PassState& state : states) names.push_back(state.function);
    throw Error(ExitCode::usage, "invalid-argument", options.model,
                "the file has " + std::to_string(names.size()) + " functions, one was expected",
                suggest("", "functions for --function", names));
  }
  Functions functions = make_functions(session, std::move(states), writer, false);
  return std::move(functions.list[functions.main].prims);
}

void compile_prims_to_library(std::unique_ptr<Graph> prims, const Options& options, const std::string& output) {
  const Options quiet = without_products(options);
  const std::vector<TargetChoice> choices = choose_targets(quiet);
  ProductWriter writer(quiet, choices);
  Diagnostics diagnostics;
  Session session(quiet, diagnostics);
  Library library = plan_functions(session, functions_of(session, std::move(prims)), choices, writer);
  link_library(session, library.interface, library.builds, writer.outputs(), output);
  writer.outputs().commit(output);
}

std::unique_ptr<Graph> check_model(const Options& options, Diagnostics& diagnostics) {
  set_up(options);
  const Options quiet = without_products(options);
  const std::vector<TargetChoice> choices = choose_targets(quiet);
  ProductWriter writer(quiet, choices);
  Session session(quiet, diagnostics);
  Functions functions = make_functions(session, import_models(session), writer, false);
  std::unique_ptr<Graph> prims = functions.list[functions.main].prims->clone();
  plan_functions(session, std::move(functions), choices, writer);
  return prims;
}

}  // namespace tcc::driver
