// The graph's own interpreter: what the importer, the shape rules, the decompositions and the evaluators say, without code generation.
#include "onnx/backend.h"
#include "tcc/autograd/gradient_op.h"
#include "tcc/frontend/import.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/verify.h"

namespace tcc::onnx_suite {
namespace {

class InterpreterBackend : public Backend {
 public:
  void compile(const std::string& path, const Bindings& bindings) override { graph_ = import_resolved(path, bindings); }
  std::vector<Tensor> run(const std::vector<Tensor>& inputs) override { return interpret(*graph_, inputs, false); }

 private:
  std::unique_ptr<Graph> graph_;
};

}  // namespace

std::unique_ptr<Graph> import_resolved(const std::string& path, const Bindings& bindings) {
  Diagnostics diagnostics;
  auto graph = import_model(path, {.known = bindings}, diagnostics);
  bind_shapes(*graph, bindings);
  resolve(*graph, diagnostics, expand_gradient);
  diagnostics.checkpoint(ExitCode::model);
  const auto faults = verify(*graph, GraphStage::resolved);
  if (!faults.empty()) throw Error(ExitCode::internal, "internal-error", path, "the resolved graph is not well formed: " + faults.front());
  return graph;
}

std::unique_ptr<Backend> make_interpreter_backend() { return std::make_unique<InterpreterBackend>(); }

}  // namespace tcc::onnx_suite
