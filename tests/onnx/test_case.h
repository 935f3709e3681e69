// One test of the suite: a model, its inputs and the outputs it must give.
#pragma once

#include <string>
#include <vector>

#include "tcc/support/tensor.h"

namespace tcc::onnx_suite {

struct TestCase {
  std::string name;  ///< "test_add"
  std::string folder;
};

/// The tests of one part of the suite ("node", "simple", ...), sorted by name.
std::vector<TestCase> find_tests(const std::string& folder);

/// A set of data of a test: tensors in the order of the model's inputs (initializers left out) and outputs. A sequence is its elements, an optional its value.
struct TestData {
  std::vector<Tensor> inputs, outputs;
};

/// Throws std::runtime_error where a value is text or an empty optional.
struct TestContents {
  std::vector<std::string> input_names;  ///< of the tensors
  std::vector<TestData> sets;            ///< the folders test_data_set_0, ...
};
TestContents read_test(const TestCase& test);

}  // namespace tcc::onnx_suite
