// The ONNX importer as the rest of src/frontend sees it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/frontend/import.h"

namespace tcc::onnx {

/// An ONNX file in memory.
struct ModelFile {
  std::string name;                  ///< as messages name it
  std::vector<std::string> folders;  ///< where external data is looked for, in this order
  std::string_view bytes;            ///< valid during the import only
};

std::unique_ptr<Graph> import(const ModelFile& file, const ImportOptions& options, Diagnostics& diagnostics);

}  // namespace tcc::onnx
