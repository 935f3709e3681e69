// What a choice does to a graph: the same numbers, a budget that holds, copies late in the backward half, halves that make a whole.
#include <gtest/gtest.h>

#include <algorithm>

#include "form_groups.h"
#include "nets.h"
#include "tcc/residuals/residuals.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/verify.h"
#include "tcc/schedule/schedule.h"

namespace tcc::residuals {
namespace {

const schedule::Target kTarget = schedule::Target::cuda_sm80();

Planned plan_in_order(const Graph& graph) {
  double cost = 0;
  for (const Node* node : graph.body.nodes) {
    if (info(node->op).lowering == Lowering::contract) cost += 10;
    else if (info(node->op).lowering != Lowering::view) cost += 1;
  }
  return {bytes_in_order(graph), cost};
}

std::vector<std::unique_ptr<Graph>> joints() {
  std::vector<std::unique_ptr<Graph>> graphs;
  static const char* layers[] = {"linear", "gelu", "relu", "norm", "attention", "block"};
  std::mt19937 random(3);
  for (uint32_t seed = 0; seed < 8; ++seed) {
    Net net(2, 3, 4, seed);
    for (int i = 0; i < 4; ++i) net.add(layers[random() % 6]);
    net.add("linear");
    graphs.push_back(seed % 2 ? net.joint() : net.vjp());
    to_prims(*graphs.back());
  }
  // A whole step, and gradients that go into the state.
  Net net(2, 3, 4);
  for (const char* layer : {"linear", "norm", "gelu", "linear"}) net.add(layer);
  TrainingGraphs training = net.training("adam");
  graphs.push_back(std::move(training.step));
  graphs.push_back(std::move(training.gradients));
  to_prims(*graphs.back());
  to_prims(*graphs[graphs.size() - 2]);
  return graphs;
}

/// Outputs, then state.
std::vector<Tensor> results_of(const Graph& graph, const std::vector<Tensor>& inputs) {
  const auto copy = graph.clone();
  for (const StateUpdate& update : copy->state_updates) copy->add_output(update.value, "state");
  return interpret(*copy, inputs, true);
}

void expect_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].same_bytes(b[i])) << "result " << i;
}

TEST(ChooseResiduals, KeepsTheValuesBitForBit) {
  for (const auto& joint : joints()) {
    const std::vector<Tensor> inputs = random_inputs(*joint);
    const std::vector<Tensor> expected = results_of(*joint, inputs);
    for (const Mode mode : {Mode::none, Mode::full, Mode::automatic}) {
      SCOPED_TRACE(name_of(mode));
      Options options;
      options.mode = mode;
      options.budget_bytes = int64_t{1} << 40;  // every plan is tried
      int planned = 0;
      const Result result =
          choose_residuals(*joint, kTarget, options, {form_groups, [&](const Graph& graph) {
                                                        ++planned;
                                                        EXPECT_EQ(verify(graph, GraphStage::prims), std::vector<std::string>());
                                                        EXPECT_EQ(graph.output_names, joint->output_names);
                                                        expect_same(results_of(graph, inputs), expected);
                                                        return plan_in_order(graph);
                                                      }});
      EXPECT_EQ(planned, static_cast<int>(result.tried.size()));
      expect_same(results_of(*result.graph, inputs), expected);
    }
  }
}

TEST(ChooseResiduals, IsDeterministic) {
  for (const auto& joint : joints()) {
    Options options;
    options.budget_bytes = int64_t{1} << 40;
    const Result a = choose_residuals(*joint, kTarget, options, {form_groups, plan_in_order}),
                 b = choose_residuals(*joint, kTarget, options, {form_groups, plan_in_order});
    EXPECT_EQ(print(*a.graph), print(*b.graph));
    EXPECT_EQ(print(a, "net"), print(b, "net"));
  }
}

/// For any budget: the plan fits, or the error says what would, and that is true.
TEST(ChooseResiduals, MeetsABudgetOrNamesOneThatWorks) {
  for (const auto& joint : joints()) {
    Options options;
    options.fixed_bytes = 1000;
    options.budget_bytes = int64_t{1} << 40;
    const Result free = choose_residuals(*joint, kTarget, options, {form_groups, plan_in_order});
    int64_t smallest = INT64_MAX, largest = 0;
    for (const TriedPlan& plan : free.tried) {
      smallest = std::min(smallest, plan.peak_bytes);
      largest = std::max(largest, plan.peak_bytes);
    }
    for (int i = -2; i <= 4; ++i) {
      options.budget_bytes = smallest + (largest - smallest) * i / 4 - (i < 0 ? 1 : 0);
      try {
        const Result result = choose_residuals(*joint, kTarget, options, {form_groups, plan_in_order});
        EXPECT_GE(i, 0);
        EXPECT_LE(result.tried[result.taken].peak_bytes, options.budget_bytes);
        EXPECT_EQ(options.fixed_bytes + plan_in_order(*result.graph).peak_bytes, result.tried[result.taken].peak_bytes);
      } catch (const Error& error) {
        EXPECT_LT(options.budget_bytes, smallest);
        EXPECT_EQ(error.code(), ExitCode::model);
        EXPECT_NE(std::string(error.what()).find("--mem-budget=" + std::to_string(smallest)), std::string::npos) << error.what();
      }
    }
  }
}

TEST(ChooseResiduals, TheMessageOfABudgetThatIsTooSmall) {
  Net net(2, 3, 4);
  net.add("linear");
  const auto joint = net.joint();
  to_prims(*joint);
  Options options;
  options.mode = Mode::none;
  options.fixed_bytes = 80;
  options.budget_bytes = 100;
  try {
    choose_residuals(*joint, kTarget, options, {form_groups, [](const Graph&) { return Planned{96, 1}; }});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "tcc: error: --mem-budget: 100 bytes are too few, the only plan tried needs 176, of which 80 are weights and state "
                 "[memory-budget]\n"
                 "tcc: help: the smallest budget that works is --mem-budget=176; --remat=auto tries more plans");
  }
}

/// A value is copied for memory's sake, its copy stands where the gradient needs it, and says that it belongs to the backward half.
TEST(ChooseResiduals, PutsCopiesJustBeforeTheirReaders) {
  Net net(8, 16, 64);
  for (int i = 0; i < 6; ++i) net.add(i % 2 ? "gelu" : "linear");
  const auto joint = net.joint();
  to_prims(*joint);
  Options options;
  options.mode = Mode::full;
  const Result result = choose_residuals(*joint, kTarget, options, {form_groups, plan_in_order});
  EXPECT_LT(bytes_in_order(*result.graph), bytes_in_order(*joint));
  bool backward = false;
  int copies = 0, forward_dots = 0;
  for (const Node* node : result.graph->body.nodes) {
    backward = backward || node->loc.phase == "grad";
    EXPECT_EQ(backward, node->loc.phase == "grad") << print(*node);
    copies += node->op == Op::erf_ && backward;
    forward_dots += node->op == Op::dot_general_ && !backward;
  }
  EXPECT_GT(copies, 0);
  EXPECT_EQ(forward_dots, 3);
}

/// A mask of bytes in place of floats: relu's gradient reads the result, which nothing else needs after the addition.
TEST(ChooseResiduals, SavesAMaskInPlaceOfWhatItIsOf) {
  const auto graph = parse_graph(R"(
    graph @g(%x: f32[64, 1024], %r: f32[64, 1024]) -> (%y: f32[64, 1024]) {
      weight @w: f32[1024, 1024]
      %h: f32[64, 1024] = matmul(%x, @w)      loc("fc")
      %a: f32[64, 1024] = relu(%h)            loc("act")
      %y: f32[64, 1024] = add(%a, %r)         loc("sum")
    })",
                                 "", {}, true);
  Diagnostics diagnostics;
  const auto joint = build_joint(*graph, {}, diagnostics);
  to_prims(*joint);
  Options options;
  options.budget_bytes = int64_t{1} << 40;
  // Memory is what counts for this planner.
  const Result result = choose_residuals(*joint, kTarget, options, {form_groups, [](const Graph& g) {
                                                                      const PartitionedGraphs halves = split_partition(g);
                                                                      Planned planned{0, 100};
                                                                      for (size_t i = static_cast<size_t>(halves.first_residual_input);
                                                                           i < halves.backward->body.args.size(); ++i)
                                                                        planned.peak_bytes +=
                                                                            halves.backward->body.args[i]->type.size_bytes();
                                                                      for (const Node* node : g.body.nodes)
                                                                        planned.cost_ns += node->op == Op::dot_general_ ? 100 : 0;
                                                                      return planned;
                                                                    }});
  ASSERT_EQ(result.candidates.size(), 1u) << print(result, "g");
  EXPECT_TRUE(result.candidates[0].saved);
  EXPECT_EQ(result.candidates[0].type, "bool[64, 1024]");
}

TEST(SplitHalves, TogetherAreTheJointGraph) {
  for (const auto& joint : joints()) {
    const std::vector<Tensor> inputs = random_inputs(*joint);
    const std::vector<Tensor> expected = results_of(*joint, inputs);
    for (const Mode mode : {Mode::none, Mode::full, Mode::automatic}) {
      Options options;
      options.mode = mode;
      options.budget_bytes = int64_t{1} << 40;
      const Result result = choose_residuals(*joint, kTarget, options, {form_groups, plan_in_order});
      const PartitionedGraphs halves = split_partition(*result.graph);
      ASSERT_EQ(verify(*halves.forward, GraphStage::prims), std::vector<std::string>());
      ASSERT_EQ(verify(*halves.backward, GraphStage::prims), std::vector<std::string>());
      std::vector<Tensor> some, all = inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const std::string& name = joint->body.args[i]->name;
        ASSERT_EQ(halves.backward->body.args[i]->name, name);
        const auto& args = halves.forward->body.args;
        if (std::any_of(args.begin(), args.end(), [&](const Value* arg) { return arg->name == name; })) some.push_back(inputs[i]);
      }
      const std::vector<Tensor> forward = results_of(*halves.forward, some);
      const size_t num_outputs = static_cast<size_t>(halves.first_residual_output);
      ASSERT_EQ(static_cast<size_t>(halves.first_residual_input), inputs.size());
      std::vector<const Value*> seen;
      for (size_t i = num_outputs; i < halves.forward->body.results.size(); ++i) {
        const Value* residual = halves.forward->body.results[i];
        EXPECT_EQ(std::count(seen.begin(), seen.end(), residual), 0);
        EXPECT_NE(residual->producer, nullptr) << residual->name;
        seen.push_back(residual);
        const Value* arg = halves.backward->body.args[inputs.size() + i - num_outputs];
        EXPECT_EQ(arg->name, halves.forward->output_names[i]);
        EXPECT_EQ(arg->name, "saved." + residual->name);
        all.push_back(forward[i]);
      }
      std::vector<Tensor> together(forward.begin(), forward.begin() + static_cast<ptrdiff_t>(num_outputs));
      for (const Tensor& tensor : results_of(*halves.backward, all)) together.push_back(tensor);
      expect_same(together, expected);
    }
  }
}

TEST(Print, SaysWhatWasTakenAndWhatEachValueCosts) {
  Net net(2, 64, 64);
  for (const char* layer : {"linear", "gelu", "linear"}) net.add(layer);
  const auto joint = net.joint();
  to_prims(*joint);
  Options options;
  options.budget_bytes = 200000;
  options.fixed_bytes = 1000;
  const std::string text = print(choose_residuals(*joint, kTarget, options, {form_groups, plan_in_order}), "net");
  EXPECT_EQ(text.substr(0, text.find(" peak")), "remat @net mode auto budget 200_000");
  EXPECT_NE(text.find("plan none"), std::string::npos);
  EXPECT_NE(text.find("loc(\"linear0/fc\")"), std::string::npos) << text;
  EXPECT_NE(text.find("// taken"), std::string::npos);
}

}  // namespace
}  // namespace tcc::residuals
