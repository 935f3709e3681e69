#include "driver/import_models.h"

#include <map>

#include "driver/bindings.h"
#include "driver/parameters.h"
#include "tcc/driver/read_ir.h"
#include "tcc/frontend/import.h"
#include "tcc/rules/verify.h"
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

}  // namespace

std::vector<PassState> import_models(Session& session) {
  const Options& options = session.options;
  std::vector<PassState> states(1);
  PassState state;
  session.progress.step("import");
  run_stage(session, "import", {}, [&] {
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
    import_options.known = options.bindings;  // while inputs are declared: how many elements a sequence has
    import_options.known.shapes.merge(parse_shapes(options.shapes));
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

}  // namespace tcc::driver
