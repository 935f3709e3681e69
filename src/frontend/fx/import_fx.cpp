// The graphs of a tcc.fx JSON file become functions that are bound together: sizes that they share by name, and inputs of equal names.
#include <algorithm>
#include <set>

#include "frontend/base/bind_signature.h"
#include "frontend/fx/arguments.h"
#include "frontend/fx/function_names.h"
#include "frontend/fx/fx.h"
#include "frontend/fx/fx_file.h"
#include "frontend/fx/graph_ops.h"
#include "frontend/fx/importer.h"
#include "frontend/fx/weight_files.h"
#include "tcc/graph/rule_error.h"
#include "tcc/support/suggest.h"

namespace tcc::fx {

namespace {

/// Leaves the functions that are asked for; `names` follow.
void choose(std::vector<FxFunction>& functions, std::vector<std::string>& names, const std::string& wanted, const std::string& file) {
  if (wanted.empty()) return;
  for (size_t i = 0; i < functions.size(); ++i) {
    if (names[i] != wanted && functions[i].id != wanted) continue;
    std::swap(functions[0], functions[i]);
    functions.resize(1);
    names = {"infer"};
    return;
  }
  throw Error(ExitCode::usage, "invalid-argument", file, "--function=" + wanted + ": there is no such function",
              suggest(wanted, "functions", names));
}

/// What each program has of its own among the bindings of all.
class SharedBindings {
 public:
  SharedBindings(const std::vector<std::unique_ptr<Importer>>& importers, const std::vector<FxFunction>& functions,
                 const ImportOptions& options, const std::string& file) {
    Graph all("all");
    all.file = file;
    std::set<std::string> names, free;
    for (const auto& importer : importers) {
      for (const Value* input : importer->signature().body.args) {
        if (names.insert(input->name).second) all.add_input(input->name, input->type);
      }
      for (std::string& symbol : importer->free_sizes()) free.insert(std::move(symbol));
    }
    all_ = bindings_of(options, all, {free.begin(), free.end()});
    for (const auto& [name, shape] : all_.shapes) {
      if (names.contains(name)) continue;
      throw Error(ExitCode::usage, "unknown-input", file, "--shapes: `" + name + "` is not an input of the model",
                  suggest(name, "inputs", std::vector<std::string>(names.begin(), names.end())));
    }
    for (const FxFunction& function : functions) symbols_.push_back(symbols_of(function.program));
  }

  Bindings of(size_t number, const Importer& importer) const {
    Bindings own;
    for (const Value* input : importer.signature().body.args) {
      if (const auto shape = all_.shapes.find(input->name); shape != all_.shapes.end()) own.shapes.insert(*shape);
      if (const auto value = all_.inputs.find(input->name); value != all_.inputs.end()) own.inputs.insert(*value);
    }
    for (const auto& symbol : all_.symbols) {
      if (symbols_[number].contains(symbol.first)) own.symbols.insert(symbol);
    }
    return own;
  }

 private:
  static std::set<std::string> symbols_of(const Program& program) {
    std::set<std::string> symbols;
    for (const InputSpec& input : program.inputs) {
      if (input.size) symbols.merge(fx::symbols_of(*input.size));
      const auto meta = program.graph.tensors.find(input.name);
      if (meta == program.graph.tensors.end()) continue;
      for (const SizeExpr& size : meta->second.sizes) symbols.merge(fx::symbols_of(size));
    }
    return symbols;
  }

  Bindings all_;
  std::vector<std::set<std::string>> symbols_;  ///< of each program's inputs
};

std::vector<ImportedGuard> guards_of(const Program& program) {
  std::vector<ImportedGuard> guards;
  for (const Guard& guard : program.guards) {
    ImportedGuard& row = guards.emplace_back();
    row.text = guard.text;
    if (guard.kind != Guard::Kind::setting) continue;
    row.setting = guard.subject;
    row.value = to_double(*number_in(guard.value));
  }
  return guards;
}

}  // namespace

std::vector<ImportedFunction> import_fx(const ModelFile& file, const ImportOptions& options, Diagnostics& diagnostics) {
  FxFile fx = read_fx_file(file.text(), file.name);
  std::vector<std::string> ids;
  for (const FxFunction& function : fx.functions) ids.push_back(function.id);
  std::vector<std::string> names = ids.size() == 1 && options.function.empty() ? std::vector<std::string>{"infer"} : function_names(ids);
  choose(fx.functions, names, options.function, file.name);

  WeightFiles files(fx.weights, file.folders, options.files_read);
  const WeightSource weights = [&](const InputSpec& input, const TensorMeta&) -> std::optional<Tensor> {
    if (!files.has(input.target)) return options.parameters == nullptr ? std::nullopt : options.parameters(input.target);
    try {
      return files.read(input.target);
    } catch (const RuleError& error) { throw Error(ExitCode::model, error.kind, file.name + ":" + input.target, error.message); }
  };
  std::vector<ImportedFunction> result;
  if (fx.functions.size() == 1 && is_graph(fx.functions[0].program)) {
    result.push_back({names[0], import_graph(fx.functions[0].program, file.name, weights, diagnostics), {}});
    return result;
  }
  std::vector<std::unique_ptr<Importer>> importers;
  for (const FxFunction& function : fx.functions) {
    const std::string place = fx.functions.size() == 1 ? file.name : file.name + ":" + function.id;
    importers.push_back(std::make_unique<Importer>(function.program, place, weights, options, diagnostics));
    importers.back()->check_ops();
  }
  diagnostics.checkpoint(ExitCode::model);
  for (const auto& importer : importers) importer->declare();
  if (importers.size() == 1) {
    result.push_back({names[0], importers[0]->import(bindings_of(options, importers[0]->signature(), importers[0]->free_sizes())),
                      guards_of(fx.functions[0].program)});
    return result;
  }
  const SharedBindings bindings(importers, fx.functions, options, file.name);
  for (size_t i = 0; i < importers.size(); ++i)
    result.push_back({names[i], importers[i]->import(bindings.of(i, *importers[i])), guards_of(fx.functions[i].program)});
  return result;
}

}  // namespace tcc::fx
