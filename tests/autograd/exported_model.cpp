#include "autograd/exported_model.h"

#include <filesystem>

#include "tcc/autograd/gradient_op.h"
#include "tcc/frontend/import.h"
#include "tcc/support/npy.h"

namespace tcc::test {

ExportedModel::ExportedModel(const std::string& path) {
  reference = read_npz((std::filesystem::path(path).parent_path() / "ref.npz").string());
  graph = import_model(path, {}, diagnostics);
  Bindings bindings;
  for (const Value* input : graph->body.args) {
    auto found = reference.find(input->name);
    if (found == reference.end()) found = reference.find("in" + std::to_string(input->index));
    if (found == reference.end()) internal_error("ref.npz has no input `" + input->name + "`");
    inputs.push_back(found->second);
    bindings.shapes[input->name] = found->second.shape();
  }
  bind_shapes(*graph, bindings);
  resolve(*graph, diagnostics, expand_gradient);
  diagnostics.checkpoint();
  canonicalize(*graph, true);
  fold_constants(*graph, true);
  eliminate_common_subexpressions(*graph);
}

}  // namespace tcc::test
