// Real plans: a deep transformer, and models with their losses.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "autograd/exported_model.h"
#include "form_groups.h"
#include "nets.h"
#include "plan/plan_graph.h"
#include "tcc/group/group.h"
#include "tcc/residuals/residuals.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/verify.h"
#include "tcc/support/npy.h"

namespace tcc::residuals {
namespace {

/// Units of the forward half take nothing of the backward half in.
void expect_copies_apart(const group::Groups& groups) {
  for (const group::Unit& unit : groups.units) {
    bool forward = false, backward = false;
    for (const Node* node : unit.nodes) {
      if (info(node->op).lowering == Lowering::view || info(node->op).lowering == Lowering::create) continue;
      (node->loc.phase.empty() ? forward : backward) = true;
    }
    EXPECT_FALSE(forward && backward) << unit.label;
  }
}

class PlanWithUnits {
 public:
  explicit PlanWithUnits(schedule::Target target) : target_(std::move(target)) {}
  Planned operator()(const Graph& graph) {
    const group::Groups groups = group::form_groups(graph);
    expect_copies_apart(groups);
    const group::LoweredUnits lowered = group::lower_units(groups, &lowered_);
    const schedule::ScheduledUnits scheduled = schedule::schedule_units(lowered.forms, target_, &scheduled_);
    const plan::Estimate estimate = plan::estimate_plan(groups, lowered, scheduled);
    const plan::Estimate of_plan = plan::estimate(plan::make_plan(groups, lowered, scheduled));
    EXPECT_EQ(estimate.arena_bytes, of_plan.arena_bytes);
    EXPECT_EQ(estimate.cost_ns, of_plan.cost_ns);
    EXPECT_LE(estimate.floor_bytes, estimate.arena_bytes);
    return {estimate.arena_bytes, estimate.cost_ns, estimate.floor_bytes};
  }

 private:
  schedule::Target target_;
  group::LoweringCache lowered_;
  schedule::ScheduleCache scheduled_;
};

const TriedPlan* find(const Result& result, const std::string& prefix) {
  const TriedPlan* best = nullptr;
  for (const TriedPlan& plan : result.tried) {
    if (plan.name.rfind(prefix, 0) == 0 && (!best || plan.peak_bytes < best->peak_bytes)) best = &plan;
  }
  return best;
}

TEST(DeepTransformer, KeepsOnlyCheckpointsWhenMemoryIsAll) {
  Net net(4, 128, 64);
  for (int i = 0; i < 12; ++i) net.add("block");
  const auto joint = net.joint();
  to_prims(*joint);
  for (const schedule::Target& target : {schedule::Target::cuda_sm80(), schedule::Target::cpu_v3()}) {
    PlanWithUnits planner(target);
    Options options;
    options.budget_bytes = int64_t{1} << 40;
    const Result result = choose_residuals(*joint, target, options, {form_groups, std::ref(planner)});
    const TriedPlan *none = find(result, "none"), *checkpoints = find(result, "checkpoints");
    ASSERT_TRUE(none && checkpoints);
    RecordProperty(target.name + "_none", std::to_string(none->peak_bytes));
    RecordProperty(target.name + "_checkpoints", std::to_string(checkpoints->peak_bytes));
    EXPECT_LT(checkpoints->peak_bytes, none->peak_bytes / 5);
    // A layer's forward pass is computed at most once more: half of its backward pass.
    EXPECT_LT(checkpoints->cost_ns, none->cost_ns * 1.45);

    if (target.kind == schedule::Target::Kind::cpu) continue;
    options.mode = Mode::full;
    const Result full = choose_residuals(*joint, target, options, {form_groups, std::ref(planner)});
    EXPECT_EQ(full.tried[full.taken].peak_bytes, checkpoints->peak_bytes);

    // Any budget between holds, and a larger one is never slower.
    options.mode = Mode::automatic;
    double slower = 1e300;
    for (const int part : {30, 60}) {
      options.budget_bytes = checkpoints->peak_bytes + (none->peak_bytes - checkpoints->peak_bytes) * part / 100;
      const Result some = choose_residuals(*joint, target, options, {form_groups, std::ref(planner)});
      EXPECT_LE(planner(*some.graph).peak_bytes, options.budget_bytes);
      EXPECT_LE(some.tried[some.taken].cost_ns, slower * 1.02);
      slower = some.tried[some.taken].cost_ns;
    }
  }
}

/// Weights and state as large as `fixed_bytes` leave little to save: then fewer plans are made, and none of those left out
/// would have been taken, unless it is next to equal (what is computed again may save a little time elsewhere).
TEST(PlansThatCannotPay, AreNotMade) {
  Net transformer(4, 128, 64), language(2, 64, 32);
  for (int i = 0; i < 3; ++i) transformer.add("block");
  for (int i = 0; i < 2; ++i) language.add("block");
  std::vector<std::unique_ptr<Graph>> joints;
  joints.push_back(transformer.joint());
  joints.push_back(language.language_model(1024));
  for (const auto& joint : joints) {
    to_prims(*joint);
    for (const schedule::Target& target : {schedule::Target::cuda_sm80(), schedule::Target::cpu_v3()}) {
      PlanWithUnits planner(target);
      Options options;
      options.budget_bytes = int64_t{1} << 40;
      const Result all = choose_residuals(*joint, target, options, {form_groups, std::ref(planner)});
      double fastest = 1e300;
      for (const TriedPlan& plan : all.tried) fastest = std::min(fastest, plan.cost_ns);
      options.budget_bytes = 0;
      std::vector<size_t> made;
      for (const int times : {0, 2, 50}) {
        options.fixed_bytes = times * all.tried[0].peak_bytes;
        const auto worth = [&](const TriedPlan& plan, int64_t peak) { return plan.cost_ns * std::sqrt(static_cast<double>(peak)); };
        double best = 1e300;
        for (const TriedPlan& plan : all.tried) {
          if (plan.cost_ns <= 1.1 * fastest) best = std::min(best, worth(plan, plan.peak_bytes + options.fixed_bytes));
        }
        const Result some = choose_residuals(*joint, target, options, {form_groups, std::ref(planner)});
        const TriedPlan& taken = some.tried[some.taken];
        EXPECT_LE(worth(taken, taken.peak_bytes), 1.005 * best) << joint->name << " " << target.name << " fixed " << options.fixed_bytes;
        made.push_back(some.tried.size());
      }
      EXPECT_GE(made[0], made[1]);
      EXPECT_GE(made[1], made[2]);
      EXPECT_LT(made[2], made[0]);
    }
  }
}

/// The logits are the largest tensor by far. They are computed again in the unit that makes their gradient of them, so that one of the two is ever there.
TEST(LanguageModel, HasNoLogitsBesideTheirGradient) {
  Net net(2, 64, 32);
  for (int i = 0; i < 4; ++i) net.add("block");
  const auto joint = net.language_model(4096);
  to_prims(*joint);
  const int64_t logits = int64_t{2} * 64 * 4096 * 4;
  PlanWithUnits planner(schedule::Target::cuda_sm80());
  Options options;
  options.mode = Mode::full;
  const Result result = choose_residuals(*joint, schedule::Target::cuda_sm80(), options, {form_groups, std::ref(planner)});
  EXPECT_LT(result.tried[result.taken].peak_bytes, 2 * logits);

  // The mean over all targets is one row; what it is spread over is none of that row's business.
  const schedule::Target target = schedule::Target::cuda_sm80();
  const plan::Plan plan = plan::plan_graph(*joint, target);
  for (const plan::Launch& launch : plan.launches) {
    for (const int argument : launch.arguments) {
      if (plan.buffers[static_cast<size_t>(argument)].size_bytes >= logits) { EXPECT_GT(launch.grid, 1) << launch.label; }
    }
  }
}

struct Training {
  const char* model;
  const char* loss;
};
class Models : public testing::TestWithParam<Training> {};

TEST_P(Models, ComputeTheSameInLessMemory) {
  const std::filesystem::path folder = std::filesystem::path(TCC_MODELS_DIR) / GetParam().model;
  test::ExportedModel model((folder / "unoptimized.onnx").string());
  const Graph* graph = model.graph.get();
  Diagnostics& diagnostics = model.diagnostics;
  std::vector<Tensor> inputs = model.inputs;
  inputs.push_back(read_npz((folder / "train.npz").string(), true).at("target"));
  GradOptions grad;
  grad.loss = parse_loss(GetParam().loss);
  const auto joint = build_joint(*graph, grad, diagnostics);
  to_prims(*joint);
  const std::vector<Tensor> expected = interpret(*joint, inputs, true);

  const schedule::Target target = schedule::Target::cpu_v3();
  PlanWithUnits planner(target);
  Options options;
  options.budget_bytes = int64_t{1} << 40;
  const Result tried = choose_residuals(*joint, target, options, {form_groups, std::ref(planner)});
  const TriedPlan *none = find(tried, "none"), *smallest = find(tried, "");
  EXPECT_LE(smallest->peak_bytes, none->peak_bytes);
  options.budget_bytes = (none->peak_bytes + smallest->peak_bytes) / 2;
  const Result result = choose_residuals(*joint, target, options, {form_groups, std::ref(planner)});
  ASSERT_EQ(verify(*result.graph, GraphStage::prims), std::vector<std::string>());
  EXPECT_LE(planner(*result.graph).peak_bytes, options.budget_bytes);
  const std::vector<Tensor> outputs = interpret(*result.graph, inputs, true);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(outputs[i].same_bytes(expected[i])) << joint->output_names[i];
  RecordProperty("text", print(result, joint->name));
}

INSTANTIATE_TEST_SUITE_P(Trained, Models,
                         testing::Values(Training{"mnist_cnn", "nll"}, Training{"bert_tiny", "mse"},
                                         Training{"gpt2_tiny", "cross_entropy:axis=-1"},
                                         Training{"resnet_torchvision_slim", "cross_entropy"}, Training{"unet_mini", "l1"}),
                         [](const auto& info) { return std::string(info.param.model); });

}  // namespace
}  // namespace tcc::residuals
