// Training steps as graphs: 20 steps of each optimizer on real models, interpreted in f64, against the framework's own; and the parts that these
// do not reach.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tcc/autograd/autograd.h"
#include "tcc/autograd/optimizer.h"
#include "tcc/frontend/import.h"
#include "tcc/graph/passes.h"
#include "tcc/support/npy.h"

namespace tcc {
namespace {

namespace fs = std::filesystem;

/// Runs a step graph in f64, keeping its state between runs.
class Stepper {
 public:
  explicit Stepper(const Graph& step) : graph_(step.clone()), outputs_(step.body.results.size()) {
    for (const StateUpdate& update : graph_->state_updates) graph_->add_output(update.value, "state");
  }
  std::vector<Tensor> run(const std::vector<Tensor>& inputs) {
    std::vector<Tensor> results = interpret(*graph_, inputs, true);
    for (size_t i = 0; i < graph_->state_updates.size(); ++i) graph_->state_updates[i].weight->tensor = results[outputs_ + i];
    results.resize(outputs_);
    return results;
  }
  /// Undefined when there is no such weight.
  Tensor weight(const std::string& name) const {
    const Value* value = graph_->find_weight(name);
    return value == nullptr ? Tensor() : value->weight->tensor;
  }

 private:
  std::unique_ptr<Graph> graph_;
  size_t outputs_;
};

struct Training {
  const char* model;
  const char* loss;
};

class TrainModels : public testing::TestWithParam<Training> {};

TEST_P(TrainModels, AsTheFrameworkDoes) {
  const fs::path folder = fs::path(TCC_MODELS_DIR) / GetParam().model;
  const auto reference = read_npz((folder / "ref.npz").string());
  const auto training = read_npz((folder / "train.npz").string(), true);
  Diagnostics diagnostics;
  const auto graph = import_model((folder / "unoptimized.onnx").string(), {}, diagnostics);
  std::vector<Tensor> inputs;
  Bindings bindings;
  for (const Value* input : graph->body.args) {
    auto found = reference.find(input->name);
    if (found == reference.end()) found = reference.find("in" + std::to_string(input->index));
    ASSERT_NE(found, reference.end()) << input->name;
    inputs.push_back(found->second);
    bindings.shapes[input->name] = found->second.shape();
  }
  bind_shapes(*graph, bindings);
  resolve(*graph, diagnostics);
  canonicalize(*graph, true);
  fold_constants(*graph, true);
  GradOptions options;
  options.loss = parse_loss(GetParam().loss);
  const auto joint = build_joint(*graph, options, diagnostics);
  inputs.push_back(training.at("target"));

  const std::pair<const char*, const char*> optimizers[] = {{"sgd", "sgd:lr=0.01,momentum=0.9,nesterov=true,weight_decay=1e-4"},
                                                            {"adam", "adam:beta1=0.9,beta2=0.99"},
                                                            {"adamw", "adamw:weight_decay=0.01"}};
  for (const auto& [name, text] : optimizers) {
    SCOPED_TRACE(text);
    const OptimizerOptions optimizer = parse_optimizer(text);
    const auto step = build_step(*joint, optimizer);
    ASSERT_EQ(verify(*step, GraphStage::resolved), std::vector<std::string>());
    ASSERT_EQ(step->body.args.back()->name, "lr");
    // As prims: no pass takes the state for constants.
    for (int round = 0; round < 2; ++round) {
      canonicalize(*step, true);
      fold_constants(*step, true);
      eliminate_common_subexpressions(*step);
      if (round == 0) decompose(*step, diagnostics);
    }
    ASSERT_EQ(verify(*step, GraphStage::prims), std::vector<std::string>());
    Stepper stepper(*step);
    std::vector<Tensor> all = inputs;
    all.push_back(Tensor::scalar(DType::f64, optimizer.lr));
    const Tensor& losses = training.at(std::string(name) + ".losses");
    for (int64_t i = 0; i < 20; ++i) {
      const double loss = stepper.run(all)[0].as_double(0), expected = losses.as_double(i);
      ASSERT_LE(std::abs(loss - expected), 1e-5 * std::max(1.0, std::abs(expected))) << "step " << i;
    }
    const std::string prefix = std::string(name) + ".param.";
    for (const auto& [key, samples] : training) {
      if (key.rfind(prefix, 0) != 0) continue;
      std::string parameter = key.substr(prefix.size());
      if (parameter == "m.transformer.wte.weight" && step->find_weight(parameter) == nullptr) parameter = "m.lm_head.weight";  // tied
      const Tensor tensor = stepper.weight(parameter);
      if (!tensor.defined()) {  // no output depends on bert's pooler
        ASSERT_EQ(parameter.rfind("m.pooler.", 0), 0u) << parameter;
        continue;
      }
      double largest = 0;
      for (int64_t i = 0; i < tensor.count(); ++i) largest = std::max(largest, std::abs(tensor.as_double(i)));
      for (int64_t i = 0; i < samples.count(); ++i) {
        const double place = samples.count() == 1 ? 0
                                                  : static_cast<double>(i) * static_cast<double>(tensor.count() - 1) /
                                                        static_cast<double>(samples.count() - 1);
        const int64_t at = static_cast<int64_t>(place + 1e-9);
        ASSERT_LE(std::abs(tensor.as_double(at) - samples.as_double(i)), 1e-4 * largest) << parameter << " at " << at;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TrainModels,
                         testing::Values(Training{"mnist_mlp", "cross_entropy"}, Training{"mnist_cnn", "nll"}, Training{"bert_tiny", "mse"},
                                         Training{"gpt2_tiny", "cross_entropy:axis=-1"},
                                         Training{"resnet_torchvision_slim", "cross_entropy"}, Training{"unet_mini", "l1"}),
                         [](const auto& info) { return std::string(info.param.model); });

/// y = x * w, the loss of which is its sum: the gradient of w is x.
std::unique_ptr<Graph> step_of(const char* dtype, const char* optimizer, double clip_value = 0, double clip_norm = 0) {
  const std::string type = dtype;
  const auto graph =
      parse_graph("graph @g(%x: " + type + "[2]) -> (%loss: " + type + "[]) {\n weight @w: " + type + "[2] = [1, 2]\n %p: " + type +
                      "[2] = mul(%x, @w)\n %loss: " + type + "[] = reduce_sum(%p) {axes=[0]}\n}",
                  "", {});
  GradOptions options;
  options.loss = parse_loss("output:loss");
  Diagnostics diagnostics;
  OptimizerOptions parsed = parse_optimizer(optimizer);
  parsed.clip_value = clip_value;
  parsed.clip_norm = clip_norm;
  auto step = build_step(*build_joint(*graph, options, diagnostics), parsed);
  EXPECT_EQ(verify(*step, GraphStage::resolved), std::vector<std::string>()) << print(*step);
  return step;
}

std::vector<double> weights_after(const Graph& step, std::vector<double> x, double lr, int steps) {
  Stepper stepper(step);
  Tensor input(DType::f64, {2});
  for (int64_t i = 0; i < 2; ++i) input.set_double(i, x[static_cast<size_t>(i)]);
  for (int i = 0; i < steps; ++i) stepper.run({input, Tensor::scalar(DType::f64, lr)});
  const Tensor w = stepper.weight("w");
  return {w.as_double(0), w.as_double(1)};
}

TEST(Optimizers, ClipByValueThenByNorm) {
  EXPECT_EQ(weights_after(*step_of("f32", "sgd"), {3, -4}, 0.5, 1), (std::vector<double>{-0.5, 4}));
  EXPECT_EQ(weights_after(*step_of("f32", "sgd", 1), {3, -4}, 0.5, 1), (std::vector<double>{0.5, 2.5}));
  const auto clipped = weights_after(*step_of("f32", "sgd", 0, 1), {3, -4}, 0.5, 1);
  EXPECT_NEAR(clipped[0], 1 - 0.3, 1e-6);
  EXPECT_NEAR(clipped[1], 2 + 0.4, 1e-6);
  EXPECT_NEAR(weights_after(*step_of("f32", "sgd", 0, 10), {3, -4}, 0.5, 1)[0], -0.5, 1e-12);  // short ones stay as they are
}

TEST(Optimizers, AdagradIsTheFormula) {
  const auto w = weights_after(*step_of("f32", "adagrad:lr_decay=0.1,initial_accumulator_value=1"), {2, 1}, 0.5, 2);
  EXPECT_NEAR(w[0], 1 - 0.5 * 2 / (std::sqrt(5.0) + 1e-10) - 0.5 / 1.1 * 2 / (std::sqrt(9.0) + 1e-10), 1e-12);
}

TEST(Optimizers, NarrowParametersHaveAMaster) {
  const auto step = step_of("f16", "adam");
  ASSERT_NE(step->find_weight("optimizer.master.w"), nullptr);
  EXPECT_EQ(step->find_weight("optimizer.master.w")->type.dtype, DType::f32);
  EXPECT_EQ(step->find_weight("optimizer.exp_avg.w")->type.dtype, DType::f32);
  EXPECT_NEAR(weights_after(*step, {2, 1}, 0.5, 1)[0], 0.5, 1e-6);
}

TEST(Optimizers, TextIsRead) {
  const OptimizerOptions options = parse_optimizer("adamw:lr=2e-4,beta2=0.95,eps=1e-6");
  EXPECT_EQ(options.lr, 2e-4);
  EXPECT_EQ(options.weight_decay, 1e-2);
  EXPECT_EQ(options.beta2, 0.95);
  EXPECT_EQ(options.epsilon, 1e-6);
  try {
    parse_optimizer("sgd:beta1=0.9");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "tcc: error: --optimizer=sgd:beta1=0.9: `beta1` is no option of it, known are lr, weight_decay, momentum, nesterov "
                 "[invalid-argument]");
  }
}

/// Batch statistics normalise; the running ones get a tenth of them, the variance unbiased.
TEST(BatchNorms, InTrainingFormUpdateTheirStatistics) {
  const auto graph = parse_graph(R"(
    graph @g(%x: f32[4, 1]) -> (%y: f32[4, 1]) {
      weight @s: f32[1] = [1]
      weight @b: f32[1] = [0]
      weight @m: f32[1] = [1]
      weight @v: f32[1] = [2]
      %y: f32[4, 1] = batch_norm(%x, @s, @b, @m, @v) {epsilon=0}
    })",
                                 "", {});
  train_batch_norms(*graph);
  EXPECT_EQ(verify(*graph, GraphStage::resolved), std::vector<std::string>());
  GradOptions options;
  options.loss = parse_loss("mse");
  Diagnostics diagnostics;
  GradReport report;
  const auto joint = build_joint(*graph, options, diagnostics, &report);
  EXPECT_EQ(report.trained, (std::vector<std::string>{"s", "b"}));
  const auto step = build_step(*joint, parse_optimizer("sgd"));
  ASSERT_EQ(verify(*step, GraphStage::resolved), std::vector<std::string>()) << print(*step);
  Tensor x(DType::f64, {4, 1});
  for (int64_t i = 0; i < 4; ++i) x.set_double(i, static_cast<double>(i));  // mean 1.5, variance 1.25, unbiased 5 / 3
  Stepper stepper(*step);
  const auto loss = stepper.run({x, Tensor(DType::f64, {4, 1}), Tensor::scalar(DType::f64, 0.1)});
  EXPECT_NEAR(loss[0].as_double(0), 1, 1e-12);  // of what is normalised, against zeros
  EXPECT_NEAR(stepper.weight("m").as_double(0), 0.9 * 1 + 0.1 * 1.5, 1e-12);
  EXPECT_NEAR(stepper.weight("v").as_double(0), 0.9 * 2 + 0.1 * 5 / 3, 1e-12);
}

}  // namespace
}  // namespace tcc
