// One tensor in a file of its own, as ONNX writes them (a serialized TensorProto, ending .pb): what `tcc run` and `--bind` read, and how outputs
// are saved whose dtype .npy lacks (bf16, the 8-bit floats, i4).
#pragma once

#include <string>

#include "tcc/support/tensor.h"

namespace tcc {

/// Errors: environment for a file that can't be read; usage (malformed-file, unsupported-dtype) for one that is not a TensorProto or whose
/// declared size and bytes disagree.
Tensor read_tensor_proto(const std::string& path);
/// Writes the bytes as raw_data, atomically. `name` is the tensor's name in the file.
void write_tensor_proto(const std::string& path, const Tensor& tensor, const std::string& name);

}  // namespace tcc
