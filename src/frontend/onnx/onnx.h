// The ONNX importer as the rest of src/frontend sees it.
#pragma once

#include <memory>

#include "frontend/base/model_file.h"
#include "tcc/frontend/import.h"

namespace tcc::onnx {

std::unique_ptr<Graph> import(const ModelFile& file, const ImportOptions& options, Diagnostics& diagnostics);

}  // namespace tcc::onnx
