// The order of everything. passes.cpp has the list of passes on graphs with what each does; build.cpp has what follows them.
#include "tcc/driver/pipeline.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "driver/bindings.h"
#include "driver/build.h"
#include "driver/dependencies.h"
#include "driver/emit.h"
#include "driver/from.h"
#include "driver/parameters.h"
#include "driver/passes.h"
#include "driver/session.h"
#include "driver/units.h"
#include "tcc/frontend/import.h"
#include "tcc/support/parallel.h"
#include "tcc/support/safetensors.h"
#include "tcc/support/suggest.h"

namespace tcc::driver {

namespace {

void replace_parameters(Session& session, Graph& graph) {
  const Options& options = session.options;
  if (options.parameters.empty()) return;
  if (options.from == "prims") require_unfolded(graph, options.model);
  take_parameters(graph, options.parameters, options.model, session.diagnostics);
}

/// What only goes with one function.
void check_several(const Options& options, const std::vector<ImportedFunction>& functions) {
  const auto refuse = [&](const std::string& flag) {
    std::vector<std::string> names;
    for (const ImportedFunction& function : functions) names.push_back(function.name);
    throw Error(ExitCode::usage, "invalid-argument", options.model,
                flag + " takes one function, the file has " + std::to_string(names.size()), suggest("", "functions for --function", names));
  };
  if (options.mode != Mode::infer) refuse(options.mode == Mode::grad ? "--mode=grad" : "--mode=train");
  if (!options.parameters.empty()) refuse("--parameters");
  if (!options.passes.empty()) refuse("--pass");
}

/// One state for each function of the model, the entry first.
std::vector<PassState> import(Session& session) {
  const Options& options = session.options;
  std::vector<PassState> states(1);
  PassState state;
  session.progress.step("import");
  run_stage(session, "import", nullptr, "", [&] {
    if (!options.from.empty()) {
      GraphText text = read_graph(options, session.files);
      if (!text.has_weights) {
        session.diagnostics.warning("ignored", options.model,
                                    "weights without bytes are taken as zeros; name their file in a first line `weights \"<file>\"`");
      }
      state.graph = std::move(text.graph);
      replace_parameters(session, *state.graph);
      state.bindings = resolve_bindings(*state.graph, options, &session.files);
      if (options.from == "prims") state.stage = GraphStage::prims;
      states.front() = std::move(state);
      return;
    }
    ImportOptions import_options;
    std::vector<std::string> external_data;
    import_options.files_read = &external_data;
    import_options.report_every_node = options.json_diagnostics;
    import_options.format = options.format;
    import_options.function = options.function;
    std::map<std::string, Tensor> parameters;
    if (!options.parameters.empty()) parameters = read_safetensors(options.parameters).tensors;
    import_options.parameters = [&](const std::string& name) {
      const auto found = parameters.find(name);
      return found == parameters.end() ? std::nullopt : std::optional(found->second);
    };
    bool asked = false, is_bound = false;
    import_options.is_bound = &is_bound;
    import_options.bindings = [&](const Graph& signature, const std::vector<std::string>& sizes) {
      asked = true;
      return state.bindings = resolve_bindings(signature, options, &session.files, sizes);
    };
    std::vector<ImportedFunction> functions = import_functions(options.model, import_options, session.diagnostics);
    session.diagnostics.checkpoint();
    if (functions.size() > 1) check_several(options, functions);
    states.resize(functions.size());
    for (size_t i = 0; i < functions.size(); ++i) {
      states[i].function = functions[i].name;
      states[i].graph = std::move(functions[i].graph);
      states[i].guards = std::move(functions[i].guards);
    }
    for (const std::string& path : external_data) session.files.reads(path, "external data of the model");
    replace_parameters(session, *states.front().graph);
    if (!asked) state.bindings = resolve_bindings(*states.front().graph, options, &session.files);
    if (!is_bound) states.front().bindings = std::move(state.bindings);
    for (const PassState& imported : states) {
      if (session.verify) require_well_formed("import", verify(*imported.graph, GraphStage::imported));
    }
  });
  session.files.check_distinct();  // now that all inputs are known
  return states;
}

void check_form(const Options& options) {
  const std::vector<std::string> forms = {"graph", "prims", "loop", "kernel"};
  if (options.from.empty() || std::find(forms.begin(), forms.end(), options.from) != forms.end()) return;
  throw Error(ExitCode::usage, "invalid-argument", "", "--from=" + options.from + ": there is no such form",
              suggest(options.from, "forms that can be read back", forms));
}

void check_format(const Options& options) {
  const std::vector<std::string> kinds = model_kinds();
  if (options.format.empty() || std::ranges::find(kinds, options.format) != kinds.end()) return;
  std::string list = kinds.front();
  for (size_t i = 1; i < kinds.size(); ++i) list += (i + 1 < kinds.size() ? ", " : " and ") + kinds[i];
  throw Error(ExitCode::usage, "invalid-argument", "", "-x " + options.format + ": there is no such kind of model", "kinds are " + list);
}

/// What the command line alone says of the files that are read and written.
void list_files(const Options& options, CommandFiles& files) {
  if (options.model == "-") files.reads_stdin("the model on standard input");
  else files.reads(options.model, "the model");
  for (const std::string& text : options.bind) {
    // With a single `=` there is one way to split it; others are known when the names of inputs are.
    const size_t equals = text.find('=');
    if (equals != std::string::npos && equals == text.rfind('=') && is_tensor_file(text.substr(equals + 1)))
      files.reads(text.substr(equals + 1), "the value of input `" + text.substr(0, equals) + "`");
  }
  if (!options.parameters.empty()) files.reads(options.parameters, "the parameters");
  if (options.output == "-") {
    throw Error(ExitCode::usage, "invalid-argument", "", "-o -: a library doesn't go to standard output",
                "name a file; ./- is one of that name");
  }
  if (!options.output.empty()) files.writes(options.output, "-o");
  if (!options.output.empty() && options.weights == WeightsPlace::file) files.writes(weights_path_of(options.output), "--weights=file");
  if (const std::string path = dependency_path(options); !path.empty() && path != "-") files.writes(path, "-MD");
}

void set_up(const Options& options) {
  check_form(options);
  if (!options.parameters.empty() && (options.from == "loop" || options.from == "kernel"))
    throw Error(ExitCode::usage, "invalid-argument", "", "--parameters says nothing with --from=" + options.from,
                "it goes with models and graphs");
  check_format(options);
  check_pass_names(options);
  if (options.threads > 0) set_num_threads(options.threads);
}

void write_dependencies(Session& session, Emitter& emitter) {
  const std::string path = dependency_path(session.options);
  if (path.empty()) return;
  const std::string text = dependencies(session.options, emitter.paths(), session.files.read_paths());
  if (path == "-") write_stdout(text);
  else emitter.outputs().write(path, text);
}

void finish(Session& session, const Graph* prims, const LibraryInterface* interface, std::vector<TargetBuild>& builds, Emitter& emitter) {
  const Options& options = session.options;
  for (const TargetBuild& build : builds) emit_target(session, prims, build, emitter);
  if (interface != nullptr) emit_interface(*interface, builds, options, emitter);
  if (options.output.empty()) return;
  if (interface == nullptr) {
    throw Error(ExitCode::usage, "invalid-argument", options.model, "a library is made of one unit or kernel, the text has several",
                "leave -o out, or cut the text");
  }
  build_library(session, prims, *interface, builds, emitter.outputs(), options.output);
}

void finish(Session& session, UnitBuilds& units, Emitter& emitter) {
  if (units.interface == nullptr) return finish(session, nullptr, nullptr, units.builds, emitter);
  const LibraryInterface interface = interface_of(*units.interface);
  finish(session, nullptr, &interface, units.builds, emitter);
}

void compile_units(Session& session, const std::vector<TargetChoice>& choices, Emitter& emitter) {
  const Options& options = session.options;
  const bool with_kernels = !options.output.empty() || std::any_of(options.emit.begin(), options.emit.end(),
                                                                   [](const EmitRequest& request) { return request.kind != "loop"; });
  UnitBuilds units = plan_units(session, choices, with_kernels);
  finish(session, units, emitter);
}

void compile_graph(Session& session, const std::vector<TargetChoice>& choices, Emitter& emitter) {
  const Options& options = session.options;
  std::vector<PassState> states = import(session);
  PassState& state = states.front();
  if (!options.passes.empty()) {
    for (const std::string& name : options.passes) run_pass(session, state, name);
    emitter.write_graph("graph", *state.graph);
    emitter.write_fx(*state.graph);
    emitter.write_graph("prims", *state.graph);
    return;
  }
  emitter.write_graph("graph", *state.graph);
  emitter.write_fx(*state.graph);
  const bool builds = !options.output.empty();
  if (const StateUpdate* update = update_of_training(*state.graph); builds && options.mode == Mode::infer && update != nullptr) {
    throw Error(ExitCode::usage, "invalid-argument", options.model,
                "the graph updates state, `" + update->weight->name + "` for one, and the text doesn't say how it is laid out",
                "leave -o out to look at it; a library that trains is made from the model with --mode=train");
  }
  if (!builds && emitter.last_stage() <= Stage::imported && options.print_after.empty()) return;
  Functions functions =
      make_functions(session, std::move(states), emitter, !builds && emitter.last_stage() == Stage::joint && options.print_after.empty());
  if (functions.list.empty()) return;
  emitter.write_graph("prims", *functions.list[functions.main].prims);
  if (!builds && emitter.last_stage() <= Stage::prims) return;
  Library library = plan_library(session, std::move(functions), choices, emitter);
  finish(session, library.reproducer(), &library.interface, library.builds, emitter);
}

/// For what only looks at the result.
Options without_products(Options options) {
  options.emit.clear();
  options.dump_dir.clear();
  options.output.clear();
  return options;
}

void check_passes(const Options& options) {
  if (options.passes.empty() || options.from == "loop") return;
  if (options.from == "kernel") throw Error(ExitCode::usage, "invalid-argument", "", "--pass: no pass runs on kernels");
  if (!options.output.empty())
    throw Error(ExitCode::usage, "invalid-argument", "", "--pass runs only the passes that it names, no library can come of that",
                "leave -o out");
  for (const EmitRequest& request : options.emit) {
    if (request.kind != "graph" && request.kind != "fx" && request.kind != "prims") {
      throw Error(ExitCode::usage, "invalid-argument", "", "--emit=" + request.kind + ": after --pass only the graph is there",
                  "ask for --emit=graph");
    }
  }
}

}  // namespace

void compile(const Options& options, Diagnostics& diagnostics) {
  set_up(options);
  check_passes(options);
  if (options.output.empty() && options.emit.empty() && options.dump_dir.empty() && options.print_after.empty()) {
    throw Error(ExitCode::usage, "invalid-argument", "", "nothing is asked for",
                "name the library to write with -o, or what to print with --emit");
  }
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
  Emitter emitter(options, choices);
  emitter.list_files(files);
  files.check_distinct();
  emitter.make_folder();
  files.check_writable();
  if (options.from == "kernel") {
    UnitBuilds units = plan_kernels(kernels, choices.front());
    finish(session, units, emitter);
  } else if (options.from == "loop") {
    compile_units(session, choices, emitter);
  } else {
    compile_graph(session, choices, emitter);
  }
  write_dependencies(session, emitter);
  emitter.outputs().commit(options.output);
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
  Emitter emitter(quiet, choose_targets(quiet));
  std::vector<PassState> states = import(session);
  if (states.size() > 1) {
    std::vector<std::string> names;
    for (const PassState& state : states) names.push_back(state.function);
    throw Error(ExitCode::usage, "invalid-argument", options.model,
                "the file has " + std::to_string(names.size()) + " functions, one was expected",
                suggest("", "functions for --function", names));
  }
  Functions functions = make_functions(session, std::move(states), emitter, false);
  return std::move(functions.list[functions.main].prims);
}

void compile_prims_to_library(std::unique_ptr<Graph> prims, const Options& options, const std::string& output) {
  const Options quiet = without_products(options);
  const std::vector<TargetChoice> choices = choose_targets(quiet);
  Emitter emitter(quiet, choices);
  Diagnostics diagnostics;
  Session session(quiet, diagnostics);
  Library library = plan_library(session, functions_of(std::move(prims), options.mode), choices, emitter);
  build_library(session, library.reproducer(), library.interface, library.builds, emitter.outputs(), output);
  emitter.outputs().commit(output);
}

std::unique_ptr<Graph> check_model(const Options& options, Diagnostics& diagnostics) {
  set_up(options);
  const Options quiet = without_products(options);
  const std::vector<TargetChoice> choices = choose_targets(quiet);
  Emitter emitter(quiet, choices);
  Session session(quiet, diagnostics);
  Functions functions = make_functions(session, import(session), emitter, false);
  std::unique_ptr<Graph> prims = functions.list[functions.main].prims->clone();
  plan_library(session, std::move(functions), choices, emitter);
  return prims;
}

}  // namespace tcc::driver
