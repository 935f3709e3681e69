// Every exported model through a library of --mode=grad: all gradients of parameters against the framework's in f64, those of
// sum(out0 * w) / sqrt(n), w = linspace(-1, 1, n).
//
//   test_models_gradients [--device=cuda] [--gtest_filter=*vit*]
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cli/program.h"
#include "models/exported.h"
#include "tcc/driver/pipeline.h"
#include "tcc/frontend/import.h"
#include "tcc/runtime/library.h"

namespace tcc::test {
namespace {

std::vector<ModelFile> differentiated() {
  std::vector<ModelFile> files = model_files();
  std::erase_if(files, [](const ModelFile& file) {
    return !file.name.ends_with(".pt2") && !std::filesystem::exists(std::filesystem::path(file.path).replace_filename("unoptimized.onnx"));
  });
  return files;
}

/// gpt2 and t5 have one tensor under two names; the export reads the second.
std::string name_in_model(const ModelFile& file, const std::string& parameter) {
  if (file.name.starts_with("gpt2_tiny/") && parameter == "m.transformer.wte.weight") return "m.lm_head.weight";
  if (file.name == "t5_encoder_tiny/model.pt2" && parameter == "m.shared.weight") return "m.encoder.embed_tokens.weight";
  return parameter;
}

/// Exports that leave parameters as they are.
bool has_all_parameters(const ModelFile& file) { return file.name.ends_with("/unoptimized.onnx") || file.name.ends_with(".pt2"); }

/// Parameters that are in another export what they are in unoptimized.onnx; other names are folded, renamed or merged ones.
class Intact {
 public:
  explicit Intact(const ModelFile& file) {
    if (has_all_parameters(file)) return;
    Diagnostics diagnostics;
    now_ = import_model(file.path, {}, diagnostics);
    original_ = import_model(std::filesystem::path(file.path).replace_filename("unoptimized.onnx"), {}, diagnostics);
  }
  bool has(const std::string& parameter) const {
    if (now_ == nullptr) return true;
    const Value *now = now_->find_weight(parameter), *original = original_->find_weight(parameter);
    return now != nullptr && original != nullptr && now->weight->tensor.same_bytes(original->weight->tensor);
  }

 private:
  std::unique_ptr<Graph> now_, original_;
};

class ModelGradients : public testing::TestWithParam<ModelFile> {};

TEST_P(ModelGradients, AreTheFrameworks) {
  const ModelFile& file = GetParam();
  const Folder folder;
  const ModelData data(file.path);
  driver::Options options = compile_options();
  options.mode = driver::Mode::grad;
  driver::compile_to_library(file.path, options, folder / "grad.so");
  const auto library = runtime::Library::open(folder / "grad.so");
  const std::string cotangent_of_first = "cotangent." + library->outputs().at(0).name;
  std::vector<Tensor> inputs;
  for (const runtime::TensorInfo& info : library->inputs()) {
    if (!info.name.starts_with("cotangent.")) {
      inputs.push_back(data.input(info.name, inputs.size()));
      continue;
    }
    Tensor cotangent(info.dtype, info.shape);  // zeros for all outputs but the first
    const auto n = static_cast<double>(cotangent.count());
    if (info.name == cotangent_of_first) {
      for (int64_t k = 0; k < cotangent.count(); ++k) cotangent.set_double(k, (-1 + 2 * static_cast<double>(k) / (n - 1)) / std::sqrt(n));
    }
    inputs.push_back(cotangent);
  }
  runtime::Instance instance(library, {.device = device()});
  std::map<std::string, Tensor> found;
  const std::vector<Tensor> outputs = instance.run(inputs);
  for (size_t i = 0; i < outputs.size(); ++i) found.emplace(library->outputs()[i].name, outputs[i]);

  double largest = 0;
  for (const auto& [name, expected] : data.reference) {
    if (name.starts_with("grad.")) largest = std::max(largest, largest_magnitude(expected));
  }
  const Intact intact(file);
  int compared = 0;
  for (const auto& [name, expected] : data.reference) {
    if (!name.starts_with("grad.")) continue;
    const std::string parameter = name_in_model(file, name.substr(5));
    if (!intact.has(parameter)) continue;
    ASSERT_TRUE(found.contains("grad." + parameter)) << parameter;
    const Tensor& gradient = found.at("grad." + parameter);
    ASSERT_EQ(gradient.shape(), expected.shape()) << parameter;
    const double atol = std::max(1e-5 * largest_magnitude(expected), 1e-7 * largest);
    for (int64_t i = 0; i < expected.count(); ++i) {
      const double a = gradient.as_double(i), b = expected.as_double(i);
      ASSERT_LE(std::abs(a - b), atol + 1e-3 * std::abs(b)) << parameter << " at " << i << ": " << a << ", expected " << b;
    }
    ++compared;
  }
  RecordProperty("gradients", compared);
  const bool has_parameters = largest > 0;
  EXPECT_TRUE(compared > 0 || !has_parameters || !has_all_parameters(file));
}

INSTANTIATE_TEST_SUITE_P(Exports, ModelGradients, testing::ValuesIn(differentiated()),
                         [](const auto& info) { return identifier(info.param.name); });

}  // namespace
}  // namespace tcc::test

int main(int argc, char** argv) { return tcc::test::run_tests(argc, argv); }
