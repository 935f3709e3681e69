// Safetensors files: named tensors with a JSON header. Weights of printed IR and the state of a training step are kept in them.
//
// The layout: 8 bytes length of the header, little endian; the header, a JSON object name -> {dtype, shape, data_offsets}, with an optional
// `__metadata__` of texts; then the data, without holes. i4 and u4 are not safetensors dtypes: such a tensor is written as its packed
// bytes (U8, rank 1) with the metadata entry `tcc.packed.<name>` = "i4[3, 5]", so that every other reader still takes the file.
#pragma once

#include <map>
#include <string>

#include "tcc/support/output_files.h"
#include "tcc/support/tensor.h"

namespace tcc {

struct TensorFile {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Maps the file; tensors view it where their alignment allows. Checks every name, shape and offset against the file's size.
/// Errors: ExitCode::environment (unreadable-file), ExitCode::usage (malformed-file, unsupported-dtype), naming file and tensor.
TensorFile read_safetensors(const std::string& path);

/// Writes atomically. The same tensors make the same bytes: names are sorted in the header, data is sorted by alignment, then by name.
void write_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});
/// The same, staged among other outputs.
void write_safetensors(OutputFiles& outputs, const std::string& path, const std::map<std::string, Tensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace tcc
