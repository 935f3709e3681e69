// A way to run an imported graph. One small file each; backend_runner.cpp picks one by --via.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/passes/passes.h"

namespace tcc::onnx_suite {

class Backend {
 public:
  virtual ~Backend() = default;
  /// Compiles the model at `path` with these bindings; throws Error.
  virtual void compile(const std::string& path, const Bindings& bindings) = 0;
  /// Runs what was compiled; inputs in the order of the signature (bound ones have left it).
  virtual std::vector<Tensor> run(const std::vector<Tensor>& inputs) = 0;
};

/// The model imported and resolved with these bindings, and well formed; throws Error.
std::unique_ptr<Graph> import_resolved(const std::string& path, const Bindings& bindings);

std::unique_ptr<Backend> make_interpreter_backend();  ///< import, resolve, interpret
std::unique_ptr<Backend> make_gradient_backend();     ///< the same, and gradients against differences
std::unique_ptr<Backend> make_library_backend();      ///< compile to a library, run that; only where the driver is built

}  // namespace tcc::onnx_suite
