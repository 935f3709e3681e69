// Bytes of an .onnx file to the messages of the schema.
#pragma once

#include <memory>

#include "frontend/onnx/onnx.h"
#include "frontend/onnx/proto.h"

namespace tcc::onnx {

/// Errors: `malformed-file` for bytes that are not a model. The size limits of the parser are lifted to what the format allows (2 GiB).
std::shared_ptr<const pb::ModelProto> parse_model(const ModelFile& file);

}  // namespace tcc::onnx
