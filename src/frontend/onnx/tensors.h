// ONNX tensors and types to ours.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "frontend/base/beside_files.h"
#include "frontend/onnx/proto.h"
#include "tcc/graph/graph.h"

namespace tcc::onnx {

/// Our dtype for an ONNX type number; nothing for those we have none for (strings, complex numbers, those of narrow_types.h).
std::optional<DType> dtype_of(int onnx_type);
/// ONNX's name for a type number, for messages: "string", "complex64", or "number 99".
std::string onnx_type_name(int onnx_type);

/// Where tensors' bytes come from.
struct TensorSource {
  std::shared_ptr<BesideFiles> files;
  std::shared_ptr<const void> owner;  ///< keeps the messages alive: tensors view their raw bytes
};

/// Errors: RuleError for what is wrong in the message ("malformed-file", "external-data", "unsupported-dtype"); Error(environment) for an
/// external file that can't be read. Elements of narrow types come in the dtype that carries them.
Tensor tensor_of(const pb::TensorProto& proto, const TensorSource& source);
Tensor tensor_of(const pb::SparseTensorProto& proto, const TensorSource& source);

/// The type of what an optional holds; any other type as it is.
const pb::TypeProto& value_type(const pb::TypeProto& proto);
/// The type of an input or output that is a tensor; RuleError for sequences, maps and optionals. Sizes without value and name are `?`.
Type type_of(const pb::TypeProto& proto, const std::string& name);

}  // namespace tcc::onnx
