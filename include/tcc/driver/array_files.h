// Tensors that the command line names: --input and --bind, with random ones in their place.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/support/int_range.h"
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
  std::optional<IntRange> range;  ///< what random elements are drawn from, where the model says what they are for
};

struct InputOptions {
  std::vector<std::string> inputs;     ///< --input: `path`, `name=path`, or an .npz whose arrays match names
  std::set<std::string> other_arrays;  ///< names that an .npz may hold beside inputs: its expected results
  bool random = false;                 ///< what is not given is random
  std::vector<std::string> ranges;     ///< --range: `name=low:high`, what random elements of an input are drawn from
  uint64_t seed = 0;
};

/// What random elements are: integers from `low` to `high`, both included; floats between the two, or (without a range) standard normal.
struct Drawn {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  bool normal = false;
  double low = 0, high = 1;
  uint64_t seed = 0;
};
std::string describe(const Drawn& drawn);  ///< "input_ids: i64[8, 77] random in 0:30521, seed 0"

struct InputTensors {
  std::vector<Tensor> tensors;  ///< in the order of what was expected
  std::vector<Drawn> drawn;     ///< those that are random
};

/// Values for all of `expected`. Errors (usage): a name that is not an input, an input given twice, too many; all that have another dtype
/// or shape at once, each with its file; all missing ones at once; a range that is none, or of an input that is not random.
InputTensors gather_inputs(const std::vector<ExpectedTensor>& expected, const InputOptions& options, const std::string& where);

}  // namespace tcc::driver
