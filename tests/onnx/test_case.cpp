#include "onnx/test_case.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <stdexcept>

#include "frontend/onnx/tensors.h"
#include "tcc/graph/rule_error.h"
#include "tcc/support/files.h"

namespace tcc::onnx_suite {
namespace {

namespace fs = std::filesystem;

/// input_0.pb, input_1.pb, ... of a folder. `types` are those that the model declares: the suite writes bf16 values as u16, their bits.
std::vector<Tensor> read_tensors(const fs::path& folder, const std::string& stem, const std::vector<int>& types) {
  std::vector<Tensor> tensors;
  for (int i = 0;; ++i) {
    const fs::path path = folder / (stem + "_" + std::to_string(i) + ".pb");
    if (!fs::exists(path)) return tensors;
    auto proto = std::make_shared<onnx::pb::TensorProto>();
    if (!proto->ParseFromString(read_text_file(path.string())) || proto->data_type() == 0) {
      throw std::runtime_error(path.filename().string() + " is not a tensor");
    }
    const int declared = static_cast<size_t>(i) < types.size() ? types[static_cast<size_t>(i)] : 0;
    if (declared == onnx::pb::TensorProto::BFLOAT16 && proto->data_type() == onnx::pb::TensorProto::UINT16) proto->set_data_type(declared);
    try {
      tensors.push_back(onnx::tensor_of(*proto, {nullptr, proto}));
    } catch (const RuleError& error) { throw std::runtime_error(path.filename().string() + ": " + error.message); }
  }
}

}  // namespace

std::vector<TestCase> find_tests(const std::string& folder) {
  std::vector<TestCase> tests;
  if (!fs::is_directory(folder)) return tests;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (fs::exists(entry.path() / "model.onnx")) tests.push_back({entry.path().filename().string(), entry.path().string()});
  }
  std::sort(tests.begin(), tests.end(), [](const TestCase& a, const TestCase& b) { return a.name < b.name; });
  return tests;
}

TestContents read_test(const TestCase& test) {
  onnx::pb::ModelProto model;
  if (!model.ParseFromString(read_text_file(test.folder + "/model.onnx"))) throw std::runtime_error("model.onnx is not a model");
  std::set<std::string> initialized;
  for (const auto& tensor : model.graph().initializer()) initialized.insert(tensor.name());
  TestContents contents;
  std::vector<int> input_types, output_types;
  for (const auto& input : model.graph().input()) {
    if (initialized.contains(input.name())) continue;
    contents.input_names.push_back(input.name());
    input_types.push_back(input.type().tensor_type().elem_type());
  }
  for (const auto& output : model.graph().output()) output_types.push_back(output.type().tensor_type().elem_type());
  for (int i = 0;; ++i) {
    const fs::path folder = fs::path(test.folder) / ("test_data_set_" + std::to_string(i));
    if (!fs::exists(folder)) return contents;
    contents.sets.push_back({read_tensors(folder, "input", input_types), read_tensors(folder, "output", output_types)});
  }
}

}  // namespace tcc::onnx_suite
