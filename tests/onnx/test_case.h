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

/// What a model takes or returns: a tensor, a sequence of tensors, or an optional that may be empty.
struct TestValue {
  enum class Kind { tensor, sequence, empty } kind = Kind::tensor;
  std::vector<Tensor> tensors;  ///< one for a tensor, also for one in an optional
};

/// A set of data of a test, in the order of the model's inputs (initializers left out) and outputs.
struct TestData {
  std::vector<TestValue> inputs, outputs;
};

/// Throws std::runtime_error where a value is text.
struct TestContents {
  std::vector<std::string> input_names;
  std::vector<TestData> sets;  ///< the folders test_data_set_0, ...
};
TestContents read_test(const TestCase& test);

}  // namespace tcc::onnx_suite
