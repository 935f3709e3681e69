// What tests of gradients and of training on the exported models share: the models, their data, the device.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/models.h"
#include "tcc/driver/options.h"
#include "tcc/runtime/library.h"
#include "tcc/support/tensor.h"

namespace tcc::test {

/// A GoogleTest main: `--device=cuda` runs the tests on a CUDA device, and is exit code 77 (skipped) where there is none. The CPU otherwise.
int run_tests(int argc, char** argv);
runtime::Device device();

/// For the device alone, with all verifiers.
driver::Options compile_options();

/// ref.npz and train.npz beside the model; train.npz empty when there is none.
struct ModelData {
  explicit ModelData(const std::string& model_path);
  std::map<std::string, Tensor> reference, training;
  /// The reference's input of this name, or the one of this number.
  const Tensor& input(const std::string& name, size_t number) const;
};

double largest_magnitude(const Tensor& tensor);

/// Text that names a test.
std::string identifier(std::string text);

}  // namespace tcc::test
