// One test of the suite: a model, its inputs and the outputs it must give.
#pragma once

#include <string>
#include <vector>

#include "tcc/support/tensor.h"

namespace tcc::onnx_suite {

struct TestCase {
  std::string name;      ///< "test_add"
  std::string folder;
};

/// The tests of one part of the suite ("node", "simple", ...), sorted by name.
std::vector<TestCase> find_tests(const std::string& folder);

/// Names of the model's inputs, initializers left out, in order.
std::vector<std::string> input_names(const TestCase& test);

/// A set of data of a test: tensors in the order of the model's inputs (initializers left out) and outputs.
struct TestData {
  std::vector<Tensor> inputs, outputs;
};
/// The folders test_data_set_0, ... of a test. Throws std::runtime_error for values that are no tensors (sequences, optionals, text).
std::vector<TestData> read_data(const TestCase& test);

}  // namespace tcc::onnx_suite
