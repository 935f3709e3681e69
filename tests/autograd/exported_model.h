// Exported models as graphs that gradients can be taken of.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tcc/passes/passes.h"

namespace tcc::test {

/// A model resolved and simplified as before build_joint, parameters no constants.
struct ExportedModel {
  /// `path` of the .onnx file; ref.npz is beside it. Throws what the importer does.
  explicit ExportedModel(const std::string& path);
  std::map<std::string, Tensor> reference;  ///< ref.npz
  std::vector<Tensor> inputs;               ///< of the graph, from the reference
  std::unique_ptr<Graph> graph;
  Diagnostics diagnostics;
};

}  // namespace tcc::test
