// NumPy's array files: .npy (one array) and .npz (a zip of them). What `tcc run` reads and writes, and what tests compare with.
//
// Errors: ExitCode::environment for a file that can't be read or written, ExitCode::usage for one that isn't a well-formed .npy or .npz
// or holds what no Tensor can (complex, strings, records, objects); each names the file and the reason.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "tcc/support/tensor.h"

namespace tcc {

/// The dtypes that .npy has: f16, f32, f64, the integers of 8 bits and more, bool. The others are saved as a TensorProto.
bool npy_has(DType dtype);

/// Reads format versions 1 to 3, either byte order, C or Fortran order (made C order here). The result views the mapped file where it can.
Tensor read_npy(const std::string& path);
/// The same from bytes that `owner` keeps alive; `where` names them in errors.
Tensor read_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& where);

/// Writes version 1, little endian, C order. Refuses a dtype for which npy_has is false.
void write_npy(const std::string& path, const Tensor& tensor);

/// Reads every array, stored or deflated, under its name without the `.npy`. Checks sizes and checksums. No zip64, no encryption.
/// With `skip_text`, arrays of text are left out instead of refused.
std::map<std::string, Tensor> read_npz(const std::string& path, bool skip_text = false);

/// Writes an uncompressed .npz: sorted names, no times, so the same arrays make the same bytes.
void write_npz(const std::string& path, const std::map<std::string, Tensor>& arrays);

}  // namespace tcc
