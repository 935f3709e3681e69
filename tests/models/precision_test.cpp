// Exported f32 models with --precision: outputs against the framework's in f64, gradients against the framework's, 20 training steps against its
// losses, each within what rounding to the low precision explains; and what a library holds.
//
//   test_models_precision [--device=cuda] [--gtest_filter=*bert*]
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "cli/program.h"
#include "models/exported.h"
#include "tcc/driver/pipeline.h"
#include "tcc/driver/tolerance.h"
#include "tcc/runtime/library.h"

namespace tcc::test {
namespace {

constexpr DType kLow[] = {DType::bf16, DType::f16};

driver::Options options_for(DType low) {
  driver::Options options = compile_options();
  options.precision = low;
  return options;
}

std::string path_of(const std::string& model) { return std::string(TCC_MODELS_DIR "/") + model; }

class Precision : public testing::TestWithParam<const char*> {};

TEST_P(Precision, OutputsAreTheFrameworks) {
  const ModelFile file{GetParam(), path_of(GetParam())};
  const Reference reference = read_reference(file);
  const Folder folder;
  for (const DType low : kLow) {
    SCOPED_TRACE(name_of(low));
    driver::compile_to_library(file.path, options_for(low), folder / "low.so");
    const auto library = runtime::Library::open(folder / "low.so");
    for (const runtime::TensorInfo& output : library->outputs()) EXPECT_NE(output.dtype, low) << output.name;
    runtime::Instance instance(library, {.device = device()});
    const Tensor output = instance.run(reference.inputs).at(0);
    const driver::Comparison comparison = driver::compare(output, reference.output, driver::default_tolerance(low));
    EXPECT_EQ(comparison.num_wrong, 0) << comparison.worst << " is " << comparison.found << ", expected " << comparison.expected;
    // It is the low precision that computed it.
    EXPECT_GT(comparison.max_absolute, 1e-6 * comparison.largest);
  }
}

INSTANTIATE_TEST_SUITE_P(Exports, Precision,
                         testing::Values("bert_tiny/dynamo.onnx", "gpt2_tiny/model.pt2", "mnist_cnn/unoptimized.onnx",
                                         "resnet_torchvision_slim/dynamo.onnx", "unet_mini/model.pt2", "vit_tiny/unoptimized.onnx"),
                         [](const auto& info) { return identifier(info.param); });

struct Training {
  const char* model;
  const char* loss;
};

class PrecisionOfTraining : public testing::TestWithParam<Training> {};

/// Of two gradients: 1 where they have one direction.
double cosine(const Tensor& a, const Tensor& b) {
  double dot = 0, of_a = 0, of_b = 0;
  for (int64_t i = 0; i < a.count(); ++i) {
    dot += a.as_double(i) * b.as_double(i);
    of_a += a.as_double(i) * a.as_double(i);
    of_b += b.as_double(i) * b.as_double(i);
  }
  return dot / std::sqrt(of_a * of_b);
}

/// The gradients of --loss by parameters, with and without a low precision.
std::map<std::string, Tensor> gradients_of(const Training& training, const ModelData& data, const driver::Options& compile) {
  const Folder folder;
  driver::Options options = compile;
  options.mode = driver::Mode::grad;
  options.loss = training.loss;
  driver::compile_to_library(path_of(training.model), options, folder / "grad.so");
  const auto library = runtime::Library::open(folder / "grad.so");
  std::vector<Tensor> inputs;
  for (const runtime::TensorInfo& info : library->inputs())
    inputs.push_back((info.name == "target" ? data.training.at("target") : data.input(info.name, inputs.size())).reshaped(info.shape));
  runtime::Instance instance(library, {.device = device()});
  const std::vector<Tensor> outputs = instance.run(inputs);
  std::map<std::string, Tensor> found;
  for (size_t i = 0; i < outputs.size(); ++i) found.emplace(library->outputs()[i].name, outputs[i]);
  return found;
}

TEST_P(PrecisionOfTraining, GradientsPointWhereThoseOfF32Do) {
  const ModelData data(path_of(GetParam().model));
  const auto expected = gradients_of(GetParam(), data, compile_options());
  double largest = 0;
  for (const auto& [name, gradient] : expected) largest = std::max(largest, largest_magnitude(gradient));
  for (const DType low : kLow) {
    SCOPED_TRACE(name_of(low));
    // Rounding adds up along the layers that a gradient goes through: it is eight times as coarse in bf16.
    const double least = low == DType::bf16 ? 0.98 : 0.99;
    const auto found = gradients_of(GetParam(), data, options_for(low));
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [name, gradient] : expected) {
      EXPECT_EQ(found.at(name).dtype(), DType::f32) << name;
      // The gradient of what a softmax or a norm takes away again is rounding alone.
      if (largest_magnitude(gradient) > 1e-4 * largest) { EXPECT_GT(cosine(found.at(name), gradient), least) << name; }
    }
  }
}

TEST_P(PrecisionOfTraining, StepsGoWhereThoseOfTheFrameworkGo) {
  const ModelData data(path_of(GetParam().model));
  for (const DType low : kLow) {
    SCOPED_TRACE(name_of(low));
    const Folder folder;
    driver::Options options = options_for(low);
    options.mode = driver::Mode::train;
    options.loss = GetParam().loss;
    options.optimizer = "adamw:weight_decay=0.01";
    if (low == DType::f16) options.loss_scale = "dynamic";
    driver::compile_to_library(path_of(GetParam().model), options, folder / "step.so");
    const auto library = runtime::Library::open(folder / "step.so");
    for (const runtime::StateInfo& info : library->state()) EXPECT_NE(info.dtype, low) << info.name;
    std::vector<Tensor> inputs;
    for (const runtime::TensorInfo& info : library->functions()[static_cast<size_t>(library->function("step"))].inputs)
      inputs.push_back((info.name == "target" ? data.training.at("target") : data.input(info.name, inputs.size())).reshaped(info.shape));
    runtime::Instance instance(library, {.device = device()});
    const Tensor& losses = data.training.at("adamw.losses");
    for (int64_t i = 0; i < losses.count(); ++i) {
      const double loss = instance.step(inputs).at(0).as_double(0);
      EXPECT_NEAR(loss, losses.as_double(i), 0.03 * largest_magnitude(losses)) << "step " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PrecisionOfTraining,
                         testing::Values(Training{"mnist_cnn/unoptimized.onnx", "nll"}, Training{"bert_tiny/unoptimized.onnx", "mse"},
                                         Training{"gpt2_tiny/unoptimized.onnx", "cross_entropy:axis=-1"},
                                         Training{"resnet_torchvision_slim/unoptimized.onnx", "cross_entropy"}),
                         [](const auto& info) { return identifier(info.param.model); });

/// Weights that only contractions read are held in 16 bits.
TEST(PrecisionOfWeights, IsThatOfWhatReadsThem) {
  const Folder folder;
  uint64_t bytes[2];
  for (const bool low : {false, true}) {
    driver::Options options = compile_options();
    if (low) options.precision = DType::bf16;
    driver::compile_to_library(path_of("mnist_mlp/dynamo.onnx"), options, folder / "mlp.so");
    bytes[low] = runtime::Library::open(folder / "mlp.so")->info().weights_bytes;
  }
  EXPECT_LE(bytes[1], bytes[0] / 2 + 4096);
}

}  // namespace
}  // namespace tcc::test

int main(int argc, char** argv) { return tcc::test::run_tests(argc, argv); }
