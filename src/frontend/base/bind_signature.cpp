#include "frontend/base/bind_signature.h"

namespace tcc {

Bindings bindings_of(const ImportOptions& options, const Graph& signature, const std::vector<std::string>& sizes) {
  return options.bindings ? options.bindings(signature, sizes) : options.known;
}

std::vector<Value*> bind_signature(Graph& graph, const Bindings& bindings, Diagnostics& diagnostics, const std::string& help) {
  // With the inputs as outputs the passes that bind sizes and values do their work, and what they leave there is what each input became.
  for (Value* input : graph.body.args) graph.add_output(input, input->name);
  bind_shapes(graph, bindings);
  resolve(graph, diagnostics);
  if (diagnostics.has_errors() && !help.empty()) diagnostics.help(graph.file, help);
  diagnostics.checkpoint(ExitCode::model);
  std::vector<Value*> bound = std::move(graph.body.results);
  graph.body.results.clear();
  graph.output_names.clear();
  return bound;
}

}  // namespace tcc
