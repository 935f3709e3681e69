// Tensors that the command line names: --input and --bind, with random ones in their place.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/support/tensor.h"

namespace tcc::driver {

/// A file with one tensor, by its ending: .npy, .pb (a TensorProto), or .npz with a single array.
Tensor read_tensor_file(const std::string& path);
/// As .npy, or as .pb where .npy has no such dtype; `path` is without ending. Returns the path written.
std::string write_tensor_file(const std::string& path, const Tensor& tensor, const std::string& name);

/// `name=rest`, split at the '=' after the longest of `names` that the text begins with; a name of "" when none fits.
struct NamedText {
  std::string name, rest;
};
NamedText split_name(std::string_view text, std::span<const std::string> names);

struct ExpectedTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

struct InputOptions {
  std::vector<std::string> inputs;  ///< --input: `path`, `name=path`, or an .npz whose arrays match names
  bool random = false;              ///< what is not given is random
  uint64_t seed = 0;
};

/// Values for all of `expected`, in order. Errors (usage): a name that is no input, an input given twice, too many; all missing ones at once.
/// Dtypes and shapes are checked by who runs the model.
std::vector<Tensor> gather_inputs(const std::vector<ExpectedTensor>& expected, const InputOptions& options, const std::string& where);

/// Standard normal for floats; 0 and 1 for everything else, which serves as index, mask and flag of every model.
Tensor random_tensor(DType dtype, const Shape& shape, uint64_t seed, uint64_t stream);

}  // namespace tcc::driver
