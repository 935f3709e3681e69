// Imports a program that a test has as text.
#pragma once

#include <fstream>
#include <memory>
#include <string>

#include "tcc/frontend/import.h"
#include "tcc/passes/passes.h"
#include "unit/scratch.h"

namespace tcc::testing {

/// The text as a file in `folder`, where files that it names lie; resolved. Error with all faults.
inline std::unique_ptr<Graph> import_in(const std::string& folder, const std::string& text, const ImportOptions& options = {}) {
  const std::string path = folder + "/program.json";
  std::ofstream(path) << text;
  Diagnostics diagnostics;
  auto graph = import_model(path, options, diagnostics);
  resolve(*graph, diagnostics);
  diagnostics.checkpoint();
  return graph;
}

inline std::unique_ptr<Graph> import_text(const std::string& text, const ImportOptions& options = {}) {
  const ScratchFolder folder;
  return import_in(folder / "", text, options);
}

}  // namespace tcc::testing
