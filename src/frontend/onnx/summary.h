#pragma once

#include "frontend/onnx/onnx.h"
#include "tcc/frontend/summary.h"

namespace tcc::onnx {

ModelSummary summarize(const ModelFile& file);

}  // namespace tcc::onnx
