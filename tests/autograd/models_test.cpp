// Every model: the joint graph, as prims, interpreted in f64, against the framework's own f64 gradients of
// sum(out0 * w) / sqrt(n), w = linspace(-1, 1, n).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "autograd/exported_model.h"
#include "autograd/to_prims.h"
#include "tcc/autograd/autograd.h"
#include "tcc/frontend/import.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/verify.h"

namespace tcc {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> model_files() {
  std::vector<std::string> names;
  if (!fs::exists(TCC_MODELS_DIR)) return names;
  for (const auto& entry : fs::directory_iterator(TCC_MODELS_DIR)) {
    const std::string model = entry.path().filename().string();
    for (const char* file : {"unoptimized.onnx", "dynamo.onnx", "legacy.onnx"}) {
      if (fs::exists(entry.path() / file) && fs::exists(entry.path() / "unoptimized.onnx")) names.push_back(model + "/" + file);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

class GradientsOfModels : public testing::TestWithParam<std::string> {};

TEST_P(GradientsOfModels, AreTheFrameworks) {
  const fs::path path = fs::path(TCC_MODELS_DIR) / GetParam();
  const bool gpt2 = GetParam().rfind("gpt2_tiny/", 0) == 0, intact = path.filename() == "unoptimized.onnx";
  test::ExportedModel model(path.string());
  const auto& reference = model.reference;
  Diagnostics& diagnostics = model.diagnostics;
  Graph* graph = model.graph.get();
  std::vector<Tensor> inputs = model.inputs;
  // Other exports fold and merge parameters: those count that still are what they were.
  const auto original = intact ? nullptr : import_model((path.parent_path() / "unoptimized.onnx").string(), {}, diagnostics);

  std::unique_ptr<Graph> joint;
  GradReport report;
  try {
    joint = build_joint(*graph, {}, diagnostics, &report);
  } catch (const Error& error) { FAIL() << error.what(); }
  const bool warned =
      std::any_of(diagnostics.all().begin(), diagnostics.all().end(), [](const Diagnostic& d) { return d.kind == "merged-parameters"; });
  EXPECT_FALSE(intact && warned);
  EXPECT_TRUE(warned || (GetParam() != "bert_tiny/dynamo.onnx" && GetParam() != "gpt2_tiny/dynamo.onnx"));
  ASSERT_EQ(verify(*joint, GraphStage::resolved), std::vector<std::string>());
  test::to_prims(*joint);

  // The first output has the cotangent w / sqrt(n), any others zeros.
  for (size_t i = inputs.size(); i < joint->body.args.size(); ++i) {
    const Value* input = joint->body.args[i];
    Tensor cotangent(DType::f64, input->type.shape());
    if (input->name == "cotangent." + graph->output_names[0]) {
      const double n = static_cast<double>(cotangent.count());
      for (int64_t k = 0; k < cotangent.count(); ++k) cotangent.set_double(k, (-1 + 2 * static_cast<double>(k) / (n - 1)) / std::sqrt(n));
    }
    inputs.push_back(cotangent);
  }
  const auto outputs = interpret(*joint, inputs, true);

  double largest = 0;
  for (const auto& [name, tensor] : reference) {
    if (name.rfind("grad.", 0) != 0) continue;
    for (int64_t i = 0; i < tensor.count(); ++i) largest = std::max(largest, std::abs(tensor.as_double(i)));
  }
  int compared = 0;
  for (const auto& [name, expected] : reference) {
    if (name.rfind("grad.", 0) != 0) continue;
    std::string ours = name;
    if (gpt2 && name == "grad.m.transformer.wte.weight") ours = "grad.m.lm_head.weight";  // tied
    if (!intact) {
      const Value *now = graph->find_weight(ours.substr(5)), *then = original->find_weight(ours.substr(5));
      if (now == nullptr || then == nullptr || !now->weight->tensor.same_bytes(then->weight->tensor)) continue;
    }
    const auto found = std::find(joint->output_names.begin(), joint->output_names.end(), ours);
    ASSERT_NE(found, joint->output_names.end()) << ours;
    const Tensor& gradient = outputs[static_cast<size_t>(found - joint->output_names.begin())];
    ASSERT_EQ(gradient.shape(), expected.shape()) << ours;
    double tensor_largest = 0;
    for (int64_t i = 0; i < expected.count(); ++i) tensor_largest = std::max(tensor_largest, std::abs(expected.as_double(i)));
    const double atol = std::max(1e-5 * tensor_largest, 1e-7 * largest);
    for (int64_t i = 0; i < expected.count(); ++i) {
      const double a = gradient.as_double(i), b = expected.as_double(i);
      ASSERT_LE(std::abs(a - b), atol + 1e-3 * std::abs(b)) << ours << " at " << i << ": " << a << ", expected " << b;
    }
    ++compared;
  }
  // One model has no parameters.
  EXPECT_TRUE(compared > 0 || !intact || joint->output_names == graph->output_names);
  RecordProperty("gradients", compared);
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Exports, GradientsOfModels, testing::ValuesIn(model_files()), test_name);

}  // namespace
}  // namespace tcc
