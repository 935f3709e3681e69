// The graphs of a training on a model of two layers: the layout of the state, accumulation, loss scaling, random numbers, updates one by one.
#include <gtest/gtest.h>

#include <cmath>

#include "state_memory.h"
#include "tcc/autograd/autograd.h"
#include "tcc/autograd/optimizer.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/verify.h"

namespace tcc {
namespace {

/// 3 -> 4 -> 2 with an odd number of elements almost everywhere, a frozen table, a scalar, a statistic, and dropout where asked for.
std::unique_ptr<Graph> model(bool dropout = false, const std::string& type = "f32") {
  std::string text = R"(
    graph @net(%x: T[5, 3]SEED) -> (%y: T[5, 2]) {
      weight @fc1.weight: T[4, 3] = [0.1, -0.2, 0.3, 0.4, 0.5, -0.6, 0.7, 0.8, -0.9, 1, 1.1, 1.2]
      weight @fc1.bias: T[4] = [0.1, 0.2, 0.3, 0.4]
      weight @table: T[3] = [1, 2, 1]
      weight @temperature: T[] = [2]
      weight @bn.weight: T[4] = [1, 1, 1, 1]
      weight @bn.bias: T[4] = [0, 0, 0, 0]
      weight @bn.mean: T[4] = [0, 0, 0, 0]
      weight @bn.var: T[4] = [1, 1, 1, 1]
      weight @fc2.weight: T[2, 4] = [0.5, -0.4, 0.3, 0.2, -0.1, 0.6, 0.7, -0.8]
      weight @fc2.bias: T[2] = [0.3, -0.3]
      %t: T[5, 3] = mul(%x, @table)
      %u: T[5, 3] = div(%t, @temperature)
      %h: T[5, 4] = gemm(%u, @fc1.weight, @fc1.bias) {alpha=1, beta=1, transpose_a=false, transpose_b=true}    loc("fc1")
      %n: T[5, 4] = batch_norm(%h, @bn.weight, @bn.bias, @bn.mean, @bn.var) {epsilon=1e-05}
      %r: T[5, 4] = tanh(%n)
      DROPOUT
      %y: T[5, 2] = gemm(%d, @fc2.weight, @fc2.bias) {alpha=1, beta=1, transpose_a=false, transpose_b=true}    loc("fc2")
    })";
  auto replace = [&](const std::string& from, const std::string& to) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
  };
  replace("DROPOUT", dropout ? "%d: T[5, 4], %kept: bool[5, 4] = dropout(%r, %seed) {ratio=0.5, stream=1}" : "%d: T[5, 4] = identity(%r)");
  replace("SEED", dropout ? ", %seed: i64[]" : "");
  replace("T[", type + "[");
  return parse_graph(text, "net.graph", {});
}

struct Training {
  Training(const Graph& forward, OptimizerOptions options, const std::string& loss = "mse") : options(options) {
    GradOptions grad;
    grad.loss = parse_loss(loss);
    grad.loss_scale = options.loss_scale;
    grad.freeze = {"table"};
    Diagnostics diagnostics;
    graphs = build_training(*build_joint(forward, grad, diagnostics), forward, options);
    for (Graph* graph : {graphs.step.get(), graphs.accumulate.get(), graphs.gradients.get(), graphs.update.get()}) {
      if (graph == nullptr) continue;
      EXPECT_EQ(verify(*graph, GraphStage::resolved), std::vector<std::string>()) << print(*graph);
      // As prims: nothing of the state is taken for a constant.
      for (int round = 0; round < 2; ++round) {
        canonicalize(*graph, true);
        fold_constants(*graph, true);
        eliminate_common_subexpressions(*graph);
        if (round == 0) decompose(*graph, diagnostics);
      }
      EXPECT_EQ(verify(*graph, GraphStage::prims), std::vector<std::string>()) << print(*graph);
    }
    memory = std::make_unique<StateMemory>(graphs.state);
  }

  /// Runs with inputs that depend on `batch`; infinite ones when it is negative.
  double run(const Graph& graph, int batch) {
    std::vector<Tensor> inputs;
    for (const Value* input : graph.body.args) {
      if (input->name == "lr") {
        inputs.push_back(Tensor::scalar(DType::f64, 0.1));
      } else if (input->name == "seed") {
        inputs.push_back(Tensor::from_ints({seed}).reshaped({}));
      } else {
        Tensor tensor(DType::f64, input->type.shape());
        for (int64_t i = 0; i < tensor.count(); ++i)
          tensor.set_double(i,
                            batch < 0 ? HUGE_VAL : std::sin(static_cast<double>(i) + 10.0 * batch + (input->name == "target" ? 0.5 : 0)));
        inputs.push_back(tensor);
      }
    }
    const auto outputs = StatefulGraph(graph).run(inputs, *memory);
    return outputs.empty() ? 0 : outputs[0].as_double(0);
  }
  double step(int batch) { return run(*graphs.step, batch); }
  double parts(int batch) {
    const double loss = run(*graphs.gradients, batch);
    run(*graphs.update, batch);
    return loss;
  }
  /// All tensors of a role, one after the other.
  std::vector<double> values(StateRole role) {
    std::vector<double> result;
    for (const StateTensor& tensor : graphs.state.tensors) {
      if (tensor.role != role || tensor.view) continue;
      const Tensor value = memory->read(tensor.name);
      for (int64_t i = 0; i < value.count(); ++i) result.push_back(value.as_double(i));
    }
    return result;
  }

  OptimizerOptions options;
  TrainingGraphs graphs;
  std::unique_ptr<StateMemory> memory;
  int64_t seed = 3;
};

/// Every parameter at the place that the model gives it.
OptimizerOptions unfused(const char* text) {
  OptimizerOptions options = parse_optimizer(text);
  options.fuse_updates = false;
  return options;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected, double tolerance = 1e-12) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], tolerance) << i;
}

TEST(TrainingState, SectionsHoldTheSameParametersAtTheSamePlaces) {
  const Training training(*model(), unfused("adam"));
  const StateLayout& state = training.graphs.state;
  std::string text;
  for (const StateSection& section : state.sections) {
    text += section.name + " " + std::string(name_of(section.role)) + " " + std::to_string(section.offset) + "+" +
            std::to_string(section.size_bytes) + ":";
    for (const StateTensor& tensor : state.tensors) {
      if (&state.sections[static_cast<size_t>(tensor.section)] != &section) continue;
      text += " " + tensor.name + (tensor.view ? "=" + std::to_string(tensor.shape[0]) : "") + "@" +
              std::to_string(tensor.offset - section.offset);
    }
    text += "\n";
  }
  EXPECT_EQ(
      text,
      "parameters.f32 parameter 0+1536: fc1.weight@0 fc1.bias@256 bn.weight@512 bn.bias@768 fc2.weight@1024 fc2.bias@1280 "
      "parameters.f32=384@0\n"
      "optimizer.exp_avg.f32 optimizer 1536+1536: optimizer.exp_avg.fc1.weight@0 optimizer.exp_avg.fc1.bias@256 "
      "optimizer.exp_avg.bn.weight@512 optimizer.exp_avg.bn.bias@768 optimizer.exp_avg.fc2.weight@1024 optimizer.exp_avg.fc2.bias@1280 "
      "optimizer.exp_avg.f32=384@0\n"
      "optimizer.exp_avg_sq.f32 optimizer 3072+1536: optimizer.exp_avg_sq.fc1.weight@0 optimizer.exp_avg_sq.fc1.bias@256 "
      "optimizer.exp_avg_sq.bn.weight@512 optimizer.exp_avg_sq.bn.bias@768 optimizer.exp_avg_sq.fc2.weight@1024 "
      "optimizer.exp_avg_sq.fc2.bias@1280 optimizer.exp_avg_sq.f32=384@0\n"
      "gradients.f32 gradient 0+1536: grad.fc1.weight@0 grad.fc1.bias@256 grad.bn.weight@512 grad.bn.bias@768 grad.fc2.weight@1024 "
      "grad.fc2.bias@1280 gradients.f32=384@0\n"
      "optimizer.f32 optimizer 4608+256: optimizer.step@0\n"
      "frozen.f32 parameter 4864+256: table@0\n"
      "statistics.f32 statistic 5120+512: bn.mean@0 bn.var@256\n");
  EXPECT_EQ(state.state_bytes, 5632);
  EXPECT_EQ(state.gradient_bytes, 1536);
  EXPECT_FALSE(state.find("table")->trained);
  EXPECT_TRUE(state.find("fc2.bias")->trained);
  EXPECT_EQ(state.find("fc2.bias")->initial.as_double(1), -0.3f);
  EXPECT_EQ(state.find("temperature"), nullptr);
}

/// One elementwise kernel a dtype: the flat gradient is put together once, and each parameter is read as part of the whole.
TEST(TrainingState, UpdatesAreFlat) {
  Training training(*model(), unfused("adam"));
  const Graph& step = *training.graphs.step;
  EXPECT_EQ(step.state_updates.size(), 4u);
  int concats = 0;
  for (const Node* node : step.body.nodes) concats += node->op == Op::concat_;
  EXPECT_EQ(concats, 1);
  EXPECT_EQ(training.graphs.update->body.args.size(), 1u);
  EXPECT_TRUE(training.graphs.update->body.results.empty());
  const Value* flat = step.find_weight("parameters.f32");
  ASSERT_NE(flat, nullptr);
  EXPECT_EQ(flat->weight->tensor.as_double(64), 0.1f);  // fc1.bias, 256 bytes from the begin
  EXPECT_EQ(flat->weight->tensor.as_double(63), 0);
}

TEST(TrainingState, NamesOfTheTrainingsOwnAreRefused) {
  const auto graph = parse_graph(
      "graph @g(%x: f32[2]) -> (%y: f32[2]) {\n weight @grad.w: f32[2] = [1, 2]\n %y: f32[2] = mul(%x, @grad.w)\n}", "net.graph", {});
  GradOptions options;
  options.loss = parse_loss("mse");
  Diagnostics diagnostics;
  try {
    build_training(*build_joint(*graph, options, diagnostics), *graph, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "net.graph: error: --mode=train: the model has a tensor `grad.w`, a name of the training's own [invalid-argument]\n"
                 "net.graph: help: give it another name in the model");
  }
}

/// K micro-batches are one step on the mean of their gradients, and leave the gradients of the next one at zero.
TEST(Accumulation, AveragesMicroBatches) {
  for (const char* optimizer : {"sgd:momentum=0.9", "adamw"}) {
    SCOPED_TRACE(optimizer);
    OptimizerOptions options = unfused(optimizer);
    options.accumulate = 3;
    options.clip_norm = 0.05;
    Training training(*model(), options);
    options.accumulate = 1;
    Training by_hand(*model(), options);
    for (int i = 0; i < 2; ++i) {
      std::vector<double> sums;
      for (int k = 0; k < 3; ++k) {
        by_hand.run(*by_hand.graphs.gradients, 3 * i + k);
        const auto gradients = by_hand.values(StateRole::gradient);
        sums.resize(gradients.size());
        for (size_t j = 0; j < gradients.size(); ++j) sums[j] += gradients[j] / 3;
        training.run(k < 2 ? *training.graphs.accumulate : *training.graphs.step, 3 * i + k);
        if (k == 1) {
          // Two of three micro-batches are in the state.
          const auto accumulated = training.values(StateRole::gradient);
          ASSERT_EQ(accumulated.size(), sums.size());
          for (size_t j = 0; j < sums.size(); ++j) EXPECT_NEAR(accumulated[j], sums[j], 1e-12);
        }
      }
      size_t next = 0;
      for (const StateTensor& tensor : by_hand.graphs.state.tensors) {
        if (tensor.role != StateRole::gradient || tensor.view) continue;
        Tensor mean(DType::f64, tensor.shape);
        for (int64_t j = 0; j < mean.count(); ++j) mean.set_double(j, sums[next++]);
        by_hand.memory->write(tensor.name, mean);
      }
      by_hand.run(*by_hand.graphs.update, 0);
      expect_near(training.values(StateRole::parameter), by_hand.values(StateRole::parameter));
      expect_near(training.values(StateRole::optimizer), by_hand.values(StateRole::optimizer));
      for (const double gradient : training.values(StateRole::gradient)) EXPECT_EQ(gradient, 0);
    }
  }
}

/// The factor changes nothing but the gradients in the state, which are what it makes of them.
TEST(LossScaling, AStaticScaleCancels) {
  OptimizerOptions options = unfused("adam:weight_decay=0.1");
  options.clip_value = 0.01;
  Training plain(*model(), options);
  options.loss_scale = parse_loss_scale("1024");
  Training scaled(*model(), options), parts(*model(), options);
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(plain.step(i), scaled.step(i), 1e-12);
    parts.parts(i);
  }
  plain.run(*plain.graphs.gradients, 7);
  scaled.run(*scaled.graphs.gradients, 7);
  expect_near(scaled.values(StateRole::parameter), plain.values(StateRole::parameter));
  expect_near(parts.values(StateRole::parameter), plain.values(StateRole::parameter));
  expect_near(scaled.values(StateRole::optimizer), plain.values(StateRole::optimizer));
  std::vector<double> expected = plain.values(StateRole::gradient);
  for (double& gradient : expected) gradient *= 1024;
  expect_near(scaled.values(StateRole::gradient), expected, 1e-9);
}

/// As torch.amp.GradScaler: a step with gradients that are not finite is not a step, not even for Adam's counter.
TEST(LossScaling, ADynamicScaleBacksOffAndGrows) {
  OptimizerOptions options = parse_optimizer("adam");
  options.loss_scale = parse_loss_scale("dynamic");
  options.loss_scale.growth_interval = 2;
  Training plain(*model(), unfused("adam")), scaled(*model(), options);
  auto scalar = [&](const char* name) { return scaled.memory->read(name).as_double(0); };
  EXPECT_EQ(scalar("optimizer.loss_scale"), 65536);
  auto both = [&](int batch) {
    plain.step(batch);
    scaled.step(batch);
  };
  both(0);
  EXPECT_EQ(scalar("optimizer.growth_tracker"), 1);
  const auto before = scaled.values(StateRole::parameter);
  scaled.step(-1);
  EXPECT_EQ(scaled.values(StateRole::parameter), before);
  EXPECT_EQ(scalar("optimizer.step"), 1);
  EXPECT_EQ(scalar("optimizer.loss_scale"), 32768);
  EXPECT_EQ(scalar("optimizer.growth_tracker"), 0);
  both(1);
  both(2);
  EXPECT_EQ(scalar("optimizer.loss_scale"), 65536);
  EXPECT_EQ(scalar("optimizer.growth_tracker"), 0);
  both(3);
  EXPECT_EQ(scalar("optimizer.step"), 4);
  expect_near(scaled.values(StateRole::parameter), plain.values(StateRole::parameter));
}

TEST(LossScaling, TextIsRead) {
  EXPECT_EQ(parse_loss_scale("1024").scale, 1024);
  EXPECT_FALSE(parse_loss_scale("1024").dynamic);
  EXPECT_TRUE(parse_loss_scale("dynamic").dynamic);
  for (const char* text : {"0", "auto", "inf", "-2", "", "1x"}) {
    try {
      parse_loss_scale(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()),
                "tcc: error: --loss-scale=" + std::string(text) + ": known are dynamic and a factor above 0, as 1024 [invalid-argument]");
    }
  }
}

TEST(MixedDtypes, NarrowParametersHaveWideSlotsAtTheSameElements) {
  const Training training(*model(false, "bf16"), parse_optimizer("adam"));
  const StateLayout& state = training.graphs.state;
  const auto element = [&](const std::string& name) {
    const StateTensor* tensor = state.find(name);
    return (tensor->offset - state.sections[static_cast<size_t>(tensor->section)].offset) / size_bytes(tensor->dtype);
  };
  for (const char* name : {"fc1.weight", "fc1.bias", "bn.bias", "fc2.bias"}) {
    for (const char* slot : {"optimizer.master.", "optimizer.exp_avg.", "optimizer.exp_avg_sq.", "grad."})
      EXPECT_EQ(element(slot + std::string(name)), element(name)) << slot << name;
  }
  EXPECT_EQ(state.find("optimizer.master.f32")->shape, state.find("parameters.bf16")->shape);
  EXPECT_EQ(state.find("optimizer.master.f32")->dtype, DType::f32);
}

/// Masks differ from step to step and from micro-batch to micro-batch, and are those of the whole step in its parts.
TEST(Seeds, DrawsDiffer) {
  const auto graph = model(true);
  Training whole(*graph, parse_optimizer("sgd")), parts(*graph, parse_optimizer("sgd"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(whole.step(0), parts.parts(0));
  EXPECT_EQ(whole.values(StateRole::parameter), parts.values(StateRole::parameter));
  EXPECT_EQ(whole.memory->read("optimizer.draw").as_double(0), 3);

  whole.memory->write("optimizer.draw", Tensor::scalar(DType::f64, 16777215));
  whole.step(0);
  EXPECT_EQ(whole.memory->read("optimizer.draw").as_double(0), 0);

  // The same batch again, the parameters as they were: another loss, because of another mask.
  auto losses = [&](Training& training) {
    const double first = training.run(*training.graphs.accumulate, 0), second = training.run(*training.graphs.accumulate, 0);
    return std::pair(first, second);
  };
  OptimizerOptions options = parse_optimizer("sgd");
  options.accumulate = 4;
  Training one(*graph, options), same(*graph, options), other(*graph, options);
  other.seed = 4;
  const auto [first, second] = losses(one);
  EXPECT_NE(first, second);
  EXPECT_EQ(losses(same), std::pair(first, second));
  EXPECT_NE(losses(other).first, first);
}

/// Gradients that matmuls make: first in every section, their updates apart.
TEST(FusedUpdates, AreTheSameSteps) {
  for (const char* optimizer : {"sgd:momentum=0.9,nesterov=true", "adamw"}) {
    for (const char* type : {"f32", "bf16"}) {
      OptimizerOptions options = parse_optimizer(optimizer);
      options.clip_value = 0.02;
      options.fuse_updates = false;
      Training flat(*model(false, type), options);
      options.fuse_updates = true;
      Training fused(*model(false, type), options), parts(*model(false, type), options);
      EXPECT_EQ(fused.graphs.state.tensors[0].name, "fc1.weight");
      EXPECT_EQ(fused.graphs.state.tensors[1].name, "fc2.weight");
      ASSERT_NE(fused.graphs.step->find_weight("parameters." + std::string(type) + ".rest"), nullptr);
      for (int i = 0; i < 3; ++i) {
        flat.step(i);
        fused.step(i);
        parts.parts(i);
      }
      for (const char* name : {"fc1.weight", "fc1.bias", "bn.weight", "fc2.weight", "fc2.bias"}) {
        const Tensor a = flat.memory->read(name), b = fused.memory->read(name), c = parts.memory->read(name);
        for (int64_t i = 0; i < a.count(); ++i) {
          EXPECT_NEAR(a.as_double(i), b.as_double(i), 1e-12) << name;
          EXPECT_NEAR(a.as_double(i), c.as_double(i), 1e-12) << name;
        }
      }
    }
  }
}

/// A table whose gradient comes last is not a part of the flat gradient.
TEST(FusedUpdates, LargeEmbeddingsAreUpdatedApart) {
  const auto graph = parse_graph(R"(
    graph @g(%i: i64[3]) -> (%y: f32[3, 64]) {
      weight @scale: f32[64]
      weight @table: f32[1024, 64]
      %h: f32[3, 64] = gather(@table, %i) {axis=0}
      %y: f32[3, 64] = mul(%h, @scale)
    })",
                                 "net.graph", {}, true);
  GradOptions options;
  options.loss = parse_loss("mse");
  Diagnostics diagnostics;
  const TrainingGraphs graphs = build_training(*build_joint(*graph, options, diagnostics), *graph, parse_optimizer("sgd"));
  EXPECT_EQ(graphs.state.tensors[0].name, "table");
  ASSERT_EQ(graphs.step->state_updates.size(), 2u);
  EXPECT_EQ(graphs.step->state_updates[0].weight->name, "table");
  EXPECT_EQ(graphs.step->state_updates[1].weight->name, "parameters.f32.rest");
  EXPECT_EQ(graphs.update->state_updates.size(), 1u);
}

}  // namespace
}  // namespace tcc
