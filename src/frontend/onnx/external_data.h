// Tensors whose bytes are in another file.
#pragma once

#include "frontend/base/beside_files.h"
#include "frontend/onnx/proto.h"

namespace tcc::onnx {

/// The bytes that `location`, `offset` and `length` of a tensor name. `expected` is the size that the type needs: `length` must be exactly that.
/// Errors: those of BesideFiles; RuleError "external-data" and "malformed-file" for entries that are none.
FilePart external_bytes(const pb::TensorProto& proto, BesideFiles& files, int64_t expected);

}  // namespace tcc::onnx
