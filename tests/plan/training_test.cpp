// Training steps of small networks as plans: steps, gradients, updates and accumulation against the interpreter of graphs, and what is written in place.

#include <gtest/gtest.h>

#include "plan/plan_graph.h"
#include "residuals/nets.h"
#include "stateful.h"

namespace tcc::plan {
namespace {

std::string joined(const std::vector<std::string>& faults) {
  std::string text;
  for (const std::string& fault : faults) text += fault + "\n";
  return text;
}

struct Function {
  std::unique_ptr<Graph> graph;
  Plan plan;
};

class Training {
 public:
  Training(TrainingGraphs graphs, const schedule::Target& target) : state_(std::move(graphs.state)) {
    options_.state = &state_;
    options_.scalars = {"lr"};
    memory_ = initial_state(state_, {});
    for (std::unique_ptr<Graph>* graph : {&graphs.step, &graphs.accumulate, &graphs.gradients, &graphs.update}) {
      Function& function = functions_.emplace_back();
      if (!*graph) continue;
      function.graph = std::move(*graph);
      residuals::to_prims(*function.graph);
      group::copy_concat_pieces(*function.graph);
      const group::Groups groups = group::form_groups(*function.graph);
      EXPECT_EQ(joined(group::verify(groups)), "") << group::print(groups);
      function.plan = plan_groups(groups, target, options_, &cache_);
      EXPECT_EQ(joined(verify(function.plan)), "") << print(function.plan);
      std::string why;
      EXPECT_TRUE(equal(parse_plan(print(function.plan), "plan"), function.plan, &why)) << why;
    }
  }

  const Plan& step() const { return functions_[0].plan; }
  const Plan& update() const { return functions_[3].plan; }

  /// Every function in turn, `rounds` times.
  void run(int rounds) {
    uint32_t seed = 1;
    for (int round = 0; round < rounds; ++round) {
      for (const Function& function : functions_) {
        if (!function.graph) continue;
        std::vector<Tensor> inputs = residuals::random_inputs(*function.graph, seed++);
        for (size_t i = 0; i < inputs.size(); ++i) {
          if (function.graph->body.args[i]->name == "lr") inputs[i] = Tensor::scalar(DType::f32, 0.05);
        }
        EXPECT_EQ(compare_run(*function.graph, function.plan, options_, inputs, memory_, {1e-3, 1e-5}), "")
            << "round " << round << "\n"
            << print(*function.graph) << print(function.plan);
      }
    }
  }

 private:
  StateLayout state_;
  schedule::ScheduleCache cache_;
  PlanOptions options_;
  StateMemory memory_;
  std::vector<Function> functions_;
};

int copies(const Plan& plan) {
  int count = 0;
  for (const Launch& launch : plan.launches) count += launch.kind == Launch::Kind::copy;
  return count;
}

class Steps : public testing::TestWithParam<bool> {};

TEST_P(Steps, RunLikeTheirGraphs) {
  const schedule::Target target = GetParam() ? schedule::Target::cuda_sm80() : schedule::Target::cpu_v3();
  for (const char* optimizer : {"sgd:momentum=0.9,nesterov=true,weight_decay=0.01", "adam", "adamw"}) {
    for (const int accumulate : {1, 2}) {
      SCOPED_TRACE(std::string(optimizer) + " accumulate " + std::to_string(accumulate));
      residuals::Net net(2, 3, 6);
      for (const char* layer : {"linear", "gelu", "norm", "linear"}) net.add(layer);
      OptimizerOptions options = parse_optimizer(optimizer);
      options.accumulate = accumulate;
      if (accumulate > 1) options.clip_norm = 0.5;
      Training training(net.training(options), target);
      training.run(3);
      // The counter of steps alone is read by every thread of the kernel that writes it.
      EXPECT_LE(copies(training.step()), 1) << print(training.step());
      EXPECT_LE(copies(training.update()), 1) << print(training.update());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Steps, testing::Bool(), [](const auto& info) { return info.param ? "cuda" : "cpu"; });

}  // namespace
}  // namespace tcc::plan
