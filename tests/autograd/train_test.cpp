// Training steps as graphs: 20 steps of each optimizer on real models, interpreted in f64, against the framework's own; and the parts that these
// do not reach.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "autograd/exported_model.h"
#include "autograd/to_prims.h"
#include "state_memory.h"
#include "tcc/autograd/autograd.h"
#include "tcc/autograd/optimizer.h"
#include "tcc/rules/verify.h"
#include "tcc/support/npy.h"

namespace tcc {
namespace {

namespace fs = std::filesystem;

struct Training {
  const char* model;
  const char* loss;
};

class TrainModels : public testing::TestWithParam<Training> {};

TEST_P(TrainModels, AsTheFrameworkDoes) {
  const fs::path folder = fs::path(TCC_MODELS_DIR) / GetParam().model;
  const auto training = read_npz((folder / "train.npz").string(), true);
  test::ExportedModel model((folder / "unoptimized.onnx").string());
  const Graph* graph = model.graph.get();
  Diagnostics& diagnostics = model.diagnostics;
  std::vector<Tensor> inputs = model.inputs;
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
    const TrainingGraphs graphs = build_training(*joint, *graph, optimizer);
    for (Graph* function : {graphs.step.get(), graphs.gradients.get(), graphs.update.get()}) {
      ASSERT_EQ(verify(*function, GraphStage::resolved), std::vector<std::string>());
      test::to_prims(*function);
    }
    ASSERT_EQ(graphs.step->body.args.back()->name, "lr");
    StateMemory memory(graphs.state);
    StatefulGraph step(*graphs.step), gradients(*graphs.gradients), update(*graphs.update);
    const Tensor lr = Tensor::scalar(DType::f64, optimizer.lr);
    std::vector<Tensor> with_lr = inputs;
    with_lr.push_back(lr);
    const Tensor& losses = training.at(std::string(name) + ".losses");
    for (int64_t i = 0; i < 20; ++i) {
      // A whole step and its parts do the same to the same state.
      const double loss = (i % 2 == 0 ? step.run(with_lr, memory) : gradients.run(inputs, memory))[0].as_double(0);
      if (i % 2 != 0) update.run({lr}, memory);
      const double expected = losses.as_double(i);
      ASSERT_LE(std::abs(loss - expected), 1e-5 * std::max(1.0, std::abs(expected))) << "step " << i;
    }
    const std::string prefix = std::string(name) + ".param.";
    for (const auto& [key, samples] : training) {
      if (key.rfind(prefix, 0) != 0) continue;
      std::string parameter = key.substr(prefix.size());
      if (parameter == "m.transformer.wte.weight" && !memory.has(parameter)) parameter = "m.lm_head.weight";  // tied
      if (!memory.has(parameter)) {  // no output depends on bert's pooler
        ASSERT_EQ(parameter.rfind("m.pooler.", 0), 0u) << parameter;
        continue;
      }
      const Tensor tensor = memory.read(parameter);
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
struct Fixture {
  Fixture(const char* dtype, const OptimizerOptions& options) {
    const std::string type = dtype;
    const auto graph =
        parse_graph("graph @g(%x: " + type + "[2]) -> (%loss: " + type + "[]) {\n weight @w: " + type + "[2] = [1, 2]\n %p: " + type +
                        "[2] = mul(%x, @w)\n %loss: " + type + "[] = reduce_sum(%p) {axes=[0]}\n}",
                    "", {});
    GradOptions grad_options;
    grad_options.loss = parse_loss("output:loss");
    grad_options.loss_scale = options.loss_scale;
    Diagnostics diagnostics;
    graphs = build_training(*build_joint(*graph, grad_options, diagnostics), *graph, options);
    for (Graph* function : {graphs.step.get(), graphs.accumulate.get(), graphs.gradients.get(), graphs.update.get()}) {
      if (function == nullptr) continue;
      EXPECT_EQ(verify(*function, GraphStage::resolved), std::vector<std::string>()) << print(*function);
    }
    memory = std::make_unique<StateMemory>(graphs.state);
  }
  void run(const Graph& graph, std::vector<double> x) {
    Tensor input(DType::f64, {2});
    for (int64_t i = 0; i < 2; ++i) input.set_double(i, x[static_cast<size_t>(i)]);
    std::vector<Tensor> inputs = {input};
    if (graph.body.args.back()->name == "lr") inputs.push_back(Tensor::scalar(DType::f64, lr));
    StatefulGraph(graph).run(inputs, *memory);
  }
  void update() { StatefulGraph(*graphs.update).run({Tensor::scalar(DType::f64, lr)}, *memory); }
  std::vector<double> values(const std::string& name) {
    const Tensor tensor = memory->read(name);
    std::vector<double> result;
    for (int64_t i = 0; i < tensor.count(); ++i) result.push_back(tensor.as_double(i));
    return result;
  }

  double lr = 0.5;
  TrainingGraphs graphs;
  std::unique_ptr<StateMemory> memory;
};

/// Also checks that the parts of a step do what the step does.
std::vector<double> weights_after(const char* dtype, const OptimizerOptions& options, std::vector<double> x, int steps) {
  Fixture whole(dtype, options), parts(dtype, options);
  for (int i = 0; i < steps; ++i) {
    whole.run(*whole.graphs.step, x);
    parts.run(*parts.graphs.gradients, x);
    parts.update();
  }
  EXPECT_EQ(whole.values("w"), parts.values("w"));
  return whole.values("w");
}

OptimizerOptions clipped(double clip_value, double clip_norm) {
  OptimizerOptions options = parse_optimizer("sgd");
  options.clip_value = clip_value;
  options.clip_norm = clip_norm;
  return options;
}

TEST(Optimizers, ClipByValueThenByNorm) {
  EXPECT_EQ(weights_after("f32", parse_optimizer("sgd"), {3, -4}, 1), (std::vector<double>{-0.5, 4}));
  EXPECT_EQ(weights_after("f32", clipped(1, 0), {3, -4}, 1), (std::vector<double>{0.5, 2.5}));
  const auto by_norm = weights_after("f32", clipped(0, 1), {3, -4}, 1);
  EXPECT_NEAR(by_norm[0], 1 - 0.3, 1e-6);
  EXPECT_NEAR(by_norm[1], 2 + 0.4, 1e-6);
  EXPECT_NEAR(weights_after("f32", clipped(0, 10), {3, -4}, 1)[0], -0.5, 1e-12);  // short ones stay as they are
}

TEST(Optimizers, AdagradIsTheFormula) {
  const auto w = weights_after("f32", parse_optimizer("adagrad:lr_decay=0.1,initial_accumulator_value=1"), {2, 1}, 2);
  EXPECT_NEAR(w[0], 1 - 0.5 * 2 / (std::sqrt(5.0) + 1e-10) - 0.5 / 1.1 * 2 / (std::sqrt(9.0) + 1e-10), 1e-12);
}

TEST(Optimizers, TheFirstStepHasNoDampening) {
  const auto w = weights_after("f32", parse_optimizer("sgd:momentum=0.9,dampening=0.5"), {2, 1}, 2);
  EXPECT_NEAR(w[0], 1 - 0.5 * 2 - 0.5 * (0.9 * 2 + 0.5 * 2), 1e-12);
  EXPECT_NEAR(weights_after("f32", parse_optimizer("sgd:momentum=0.9"), {2, 1}, 2)[0], 1 - 0.5 * 2 - 0.5 * (0.9 * 2 + 2), 1e-12);
}

TEST(Optimizers, MaximizeGoesUp) {
  EXPECT_EQ(weights_after("f32", parse_optimizer("sgd:maximize=true"), {3, -4}, 1), (std::vector<double>{2.5, 0}));
  EXPECT_NEAR(weights_after("f32", parse_optimizer("adam:maximize=true"), {3, -4}, 1)[0], 1.5, 1e-6);
}

TEST(Optimizers, NarrowParametersHaveAMaster) {
  Fixture fixture("f16", parse_optimizer("adam"));
  const StateLayout& state = fixture.graphs.state;
  for (const char* name : {"optimizer.master.w", "optimizer.exp_avg.w"}) {
    ASSERT_NE(state.find(name), nullptr);
    EXPECT_EQ(state.find(name)->dtype, DType::f32);
  }
  EXPECT_EQ(fixture.values("optimizer.master.w"), (std::vector<double>{1, 2}));
  fixture.run(*fixture.graphs.step, {2, 1});
  EXPECT_NEAR(fixture.values("w")[0], 0.5, 1e-6);
  EXPECT_NEAR(fixture.values("optimizer.master.w")[0], 0.5, 1e-6);
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
                 "tcc: error: --optimizer=sgd:beta1=0.9: `beta1` is not an option of it, known are lr, weight_decay, maximize, "
                 "momentum, dampening, nesterov "
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
  const auto evaluated = graph->clone();
  train_batch_norms(*graph);
  EXPECT_EQ(verify(*graph, GraphStage::resolved), std::vector<std::string>());
  GradOptions options;
  options.loss = parse_loss("mse");
  Diagnostics diagnostics;
  GradReport report;
  const auto joint = build_joint(*graph, options, diagnostics, &report);
  EXPECT_EQ(report.trained, (std::vector<std::string>{"s", "b"}));
  const TrainingGraphs graphs = build_training(*joint, *evaluated, parse_optimizer("sgd"));
  ASSERT_EQ(verify(*graphs.step, GraphStage::resolved), std::vector<std::string>()) << print(*graphs.step);
  EXPECT_EQ(graphs.state.find("m")->role, StateRole::statistic);
  Tensor x(DType::f64, {4, 1});
  for (int64_t i = 0; i < 4; ++i) x.set_double(i, static_cast<double>(i));  // mean 1.5, variance 1.25, unbiased 5 / 3
  StateMemory memory(graphs.state);
  const auto loss = StatefulGraph(*graphs.step).run({x, Tensor(DType::f64, {4, 1}), Tensor::scalar(DType::f64, 0.1)}, memory);
  EXPECT_NEAR(loss[0].as_double(0), 1, 1e-12);  // of what is normalised, against zeros
  EXPECT_NEAR(memory.read("m").as_double(0), 0.9 * 1 + 0.1 * 1.5, 1e-12);
  EXPECT_NEAR(memory.read("v").as_double(0), 0.9 * 2 + 0.1 * 5 / 3, 1e-12);
}

}  // namespace
}  // namespace tcc
