// Every exported model: import, resolve, interpret in f64, and compare with the framework's own f64 outputs. What this proves, nothing after the
// graph can break: it is the oracle of all later tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tcc/frontend/import.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/verify.h"
#include "tcc/support/npy.h"

namespace tcc {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> model_files() {
  std::vector<std::string> files;
  if (!fs::exists(TCC_MODELS_DIR)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(TCC_MODELS_DIR)) {
    const bool is_onnx = entry.path().extension() == ".onnx";
    if (!is_onnx && entry.path().extension() != ".pt2") continue;
    const std::string model = entry.path().parent_path().filename().string();
    files.push_back(model + "/" + entry.path().filename().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Inputs by name where ref.npz has the model's names, else in0, in1, ... in order.
std::vector<Tensor> inputs_of(const Graph& graph, const std::map<std::string, Tensor>& reference) {
  std::vector<Tensor> inputs;
  for (const Value* input : graph.body.args) {
    auto found = reference.find(input->name);
    if (found == reference.end()) found = reference.find("in" + std::to_string(input->index));
    if (found == reference.end()) {
      ADD_FAILURE() << "no input " << input->name;
      return {};
    }
    inputs.push_back(found->second);
  }
  return inputs;
}

class ImportModels : public testing::TestWithParam<std::string> {};

TEST_P(ImportModels, GivesTheFrameworksOutputs) {
  const fs::path path = fs::path(TCC_MODELS_DIR) / GetParam();
  const auto reference = read_npz((path.parent_path() / "ref.npz").string());
  Diagnostics diagnostics;
  const auto graph = import_model(path.string(), {}, diagnostics);
  EXPECT_EQ(verify(*graph, GraphStage::imported), std::vector<std::string>());
  const auto inputs = inputs_of(*graph, reference);
  ASSERT_EQ(inputs.size(), graph->body.args.size());
  Bindings bindings;
  for (size_t i = 0; i < inputs.size(); ++i) bindings.shapes[graph->body.args[i]->name] = inputs[i].shape();
  bind_shapes(*graph, bindings);
  resolve(*graph, diagnostics);
  ASSERT_NO_THROW(diagnostics.checkpoint());
  EXPECT_EQ(verify(*graph, GraphStage::resolved), std::vector<std::string>());

  const auto outputs = interpret(*graph, inputs, true);
  for (size_t k = 0; k < outputs.size(); ++k) {
    const auto expected = reference.find("out" + std::to_string(k) + "_f64");
    if (expected == reference.end()) continue;
    ASSERT_EQ(outputs[k].shape(), expected->second.shape());
    double worst = 0;
    for (int64_t i = 0; i < outputs[k].count(); ++i) {
      const double a = outputs[k].as_double(i), b = expected->second.as_double(i);
      ASSERT_LE(std::abs(a - b), 1e-5 + 1e-4 * std::abs(b)) << "output " << k << " at " << i;
      worst = std::max(worst, std::abs(a - b) / (1 + std::abs(b)));
    }
    RecordProperty("worst", std::to_string(worst));
  }
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Exports, ImportModels, testing::ValuesIn(model_files()), test_name);

}  // namespace
}  // namespace tcc
