// Plans of random graphs give what the graphs give, and buffers lie where the best fit puts them. What single plans are is in *.prims.

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>

#include "group/random_graph.h"
#include "group/run_units.h"
#include "plan/arena.h"
#include "plan/plan_graph.h"
#include "plan/random_products.h"
#include "tcc/rules/builder.h"
#include "tcc/rules/interpret.h"

namespace tcc::plan {
namespace {

using group::RandomGraph;

std::string faults_of(const std::vector<std::string>& faults) {
  std::string text;
  for (const std::string& fault : faults) text += fault + "\n";
  return text;
}

/// A plan of the graph, checked: verified, its text reads back.
Plan plan_of(const Graph& graph, const schedule::Target& target = schedule::Target::cpu_v3()) {
  const Plan plan = plan_graph(graph, target);
  EXPECT_EQ(faults_of(verify(plan)), "") << print(plan);
  std::string why;
  EXPECT_TRUE(equal(parse_plan(print(plan), "plan"), plan, &why)) << why << "\n" << print(plan);
  const group::Groups groups = group::form_groups(graph);
  const group::LoweredUnits lowered = group::lower_units(groups);
  const Estimate alone = estimate_plan(groups, lowered, schedule::schedule_units(lowered.forms, target));
  EXPECT_EQ(alone.arena_bytes, estimate(plan).arena_bytes) << print(plan);
  EXPECT_EQ(alone.cost_ns, estimate(plan).cost_ns) << print(plan);
  return plan;
}

/// The plan itself is in plan.prims.
TEST(Plan, PackedTensorsAndScalars) {
  const auto graph = parse_graph(R"(
graph @backward(%x: f32[8], %lr: f32[], %a: f32[3], %b: f32[8]) -> (%y: f32[8], %p: f32[3], %q: f32[8], %again: f32[8]) {
  %l: f32[8] = broadcast_in_dim(%lr) {dims=[], shape=[8]}
  %y: f32[8] = mul(%x, %l)
  %p: f32[3] = neg(%a)
  %q: f32[8] = add(%b, %x)
  return %y, %p, %q, %b
}
)",
                                 "test", {}, true);
  PlanOptions options;
  options.scalars = {"seed", "lr"};
  options.first_packed_input = 1;
  options.first_packed_output = 1;
  const Plan plan = plan_graph(*graph, schedule::Target::cpu_v3(), options);
  Tensor x(DType::f32, {8}), packed(DType::u8, {512});
  for (int i = 0; i < 8; ++i) x.set_double(i, i);
  for (int i = 0; i < 3; ++i) packed.mutable_data<float>()[i] = static_cast<float>(i + 1);
  for (int i = 0; i < 8; ++i) packed.mutable_data<float>()[64 + i] = static_cast<float>(10 * i);
  StateMemory memory;
  memory.scalars = {Tensor(), Tensor::scalar(DType::f32, 0.5)};
  const std::vector<Tensor> found = interpret(plan, {x, packed}, &memory);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].as_double(7), 3.5);
  const float* out = found[1].data<float>();
  EXPECT_EQ(out[2], -3.0f);
  EXPECT_EQ(out[64 + 7], 77.0f);
  EXPECT_EQ(out[128 + 7], 70.0f);
}

TEST(Plan, KernelsOfSeveralPlansAreOneList) {
  const auto graph_of = [](bool has_more) {
    auto graph = std::make_unique<Graph>("g");
    Builder b(*graph, graph->body, Location{});
    Value* x = graph->add_input("x", Type(DType::f32, {8, 8}));
    graph->add_output(b.unary(Op::tanh_, x), "y");
    if (has_more) {
      graph->add_output(
          b.emit(Op::cumulative_, {x}, {{"axis", int64_t{0}}, {"exclusive", false}, {"op", std::string("sum")}, {"reverse", false}}),
          "sums");
    }
    return graph;
  };
  const auto small = graph_of(false), large = graph_of(true);
  Plan first = plan_of(*small), second = plan_of(*large);
  const size_t num_kernels = second.kernels.size();
  merge_kernels({&first, &second});
  for (const Plan* plan : {&first, &second}) EXPECT_EQ(plan->kernels.size(), num_kernels) << "the tanh is in both";
  for (const Plan* plan : {&first, &second}) EXPECT_EQ(faults_of(verify(*plan)), "") << print(*plan);
  EXPECT_GT(estimate(second).cost_ns, estimate(first).cost_ns);
}

TEST(Arena, RandomIntervalsNeverOverlap) {
  std::mt19937 random(1);
  auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  for (int round = 0; round < 50; ++round) {
    std::vector<Interval> intervals(static_cast<size_t>(pick(1, 60)));
    int64_t lower_bound = 0;
    for (Interval& interval : intervals) {
      interval.size_bytes = pick(0, 5000);
      interval.first = static_cast<int>(pick(0, 30));
      interval.last = interval.first + static_cast<int>(pick(0, 10));
    }
    const int64_t bytes = place_intervals(intervals);
    for (int time = 0; time <= 40; ++time) {
      int64_t live = 0;
      for (const Interval& interval : intervals) {
        if (interval.first <= time && time <= interval.last) live += interval.size_bytes;
      }
      lower_bound = std::max(lower_bound, live);
    }
    EXPECT_GE(bytes, lower_bound);
    EXPECT_LE(bytes, lower_bound * 3 / 2 + 60 * kArenaAlignment);
    for (size_t i = 0; i < intervals.size(); ++i) {
      EXPECT_EQ(intervals[i].offset % kArenaAlignment, 0);
      EXPECT_LE(intervals[i].offset + intervals[i].size_bytes, bytes);
      for (size_t k = 0; k < i; ++k) {
        const Interval &a = intervals[i], &b = intervals[k];
        const bool apart_in_time = a.last < b.first || b.last < a.first;
        const bool apart = a.offset + a.size_bytes <= b.offset || b.offset + b.size_bytes <= a.offset;
        EXPECT_TRUE(apart_in_time || apart);
      }
    }
  }
}

/// The smallest gap among all buffers placed before that live at the same time, found by looking at each of them.
int64_t place_by_looking_at_all(std::vector<Interval>& intervals, const std::function<bool(const Interval&, const Interval&)>& before) {
  const auto aligned = [](int64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; };
  std::vector<Interval*> order, placed;
  for (Interval& interval : intervals) order.push_back(&interval);
  std::stable_sort(order.begin(), order.end(), [&](const Interval* a, const Interval* b) { return before(*a, *b); });
  int64_t total = 0;
  for (Interval* interval : order) {
    const int64_t size = aligned(interval->size_bytes);
    interval->offset = 0;
    if (size == 0) continue;
    int64_t best = -1, best_gap = std::numeric_limits<int64_t>::max(), end = 0;
    for (const Interval* other : placed) {
      if (other->last < interval->first || interval->last < other->first) continue;
      const int64_t gap = other->offset - end;
      if (gap >= size && gap < best_gap) best = end, best_gap = gap;
      end = std::max(end, other->offset + aligned(other->size_bytes));
    }
    interval->offset = best >= 0 ? best : end;
    total = std::max(total, interval->offset + size);
    placed.push_back(interval);
    std::stable_sort(placed.begin(), placed.end(), [](const Interval* a, const Interval* b) { return a->offset < b->offset; });
  }
  return total;
}

TEST(Arena, PlacesAreThoseOfBestFit) {
  std::mt19937 random(2);
  auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  const auto lifetime = [](const Interval& interval) { return interval.last - interval.first + int64_t{1}; };
  const std::vector<std::function<bool(const Interval&, const Interval&)>> orders{
      [](const Interval& a, const Interval& b) { return a.size_bytes > b.size_bytes; },
      [&](const Interval& a, const Interval& b) { return lifetime(a) > lifetime(b); },
      [&](const Interval& a, const Interval& b) { return a.size_bytes * lifetime(a) > b.size_bytes * lifetime(b); },
      [](const Interval& a, const Interval& b) { return a.first < b.first; },
  };
  for (int round = 0; round < 200; ++round) {
    const int times = static_cast<int>(pick(1, 80));
    std::vector<Interval> intervals(static_cast<size_t>(pick(1, 120)));
    for (Interval& interval : intervals) {
      interval.size_bytes = 256 * pick(0, 12);
      interval.first = static_cast<int>(pick(0, times - 1));
      interval.last = static_cast<int>(std::min<int64_t>(times - 1, interval.first + (pick(0, 3) == 0 ? pick(0, times) : pick(0, 4))));
    }
    std::vector<Interval> found = intervals, expected;
    int64_t best = std::numeric_limits<int64_t>::max();
    for (const auto& before : orders) {
      std::vector<Interval> placed = intervals;
      const int64_t bytes = place_by_looking_at_all(placed, before);
      if (bytes >= best) continue;
      best = bytes;
      expected = std::move(placed);
    }
    ASSERT_EQ(place_intervals(found), best) << "round " << round;
    for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i].offset, expected[i].offset) << "round " << round << " interval " << i;
  }
}

/// Plans of random graphs give what the graphs give, bit for bit (the values are small integers).
class RandomPlans : public testing::TestWithParam<bool> {};

TEST_P(RandomPlans, RunLikeTheirGraphs) {
  const schedule::Target target = GetParam() ? schedule::Target::cuda_sm80() : schedule::Target::cpu_v3();
  for (uint32_t seed = 1000; seed < 1300; ++seed) {
    RandomGraph random(seed);
    const auto graph = random.make(4 + static_cast<int>(seed % 12));
    const std::vector<Tensor> inputs = random.inputs_for(*graph);
    const Plan plan = plan_of(*graph, target);
    const std::vector<Tensor> expected = interpret(*graph, inputs, false);
    const std::vector<Tensor> found = interpret(plan, inputs);
    ASSERT_EQ(found.size(), expected.size()) << "seed " << seed;
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(group::differences(found[i], expected[i], {}), "") << "seed " << seed << " output " << i << "\n"
                                                                   << print(*graph) << print(plan);
    }
  }
}

TEST(Plan, ConstantsOfRandomProductsAreAsTheWeightsSay) {
  size_t num_constants = 0, num_prepared = 0, num_products = 0;
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    std::mt19937 random(seed);
    const auto graph = random_products(random);
    group::Groups groups = group::form_groups(*graph);
    const bool alone = seed % 2 == 0;
    group::mark_constants(groups, nullptr, alone);
    const Plan plan = plan_groups(groups, schedule::Target::cpu_v3());
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + print(*graph) + print(plan));
    ASSERT_EQ(faults_of(verify(plan)), "");
    std::string why;
    ASSERT_TRUE(equal(parse_plan(print(plan), "plan"), plan, &why)) << why;
    const std::vector<Tensor> inputs = {random_input(*graph, random)}, expected = interpret(*graph, inputs, false),
                              found = interpret(plan, inputs);
    for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(group::differences(found[i], expected[i], {}), "") << "output " << i;
    num_constants += plan.constants.size();
    num_prepared += plan.preparations.size();
    if (!alone) { EXPECT_TRUE(plan.constants.empty()); }
    num_products += expected.size();
    for (const Launch& constant : plan.constants) EXPECT_GE(constant.kernel, num_launched_kernels(plan)) << "has code in the library";
  }
  EXPECT_GE(num_constants, num_products / 10) << "too few to be a test of them";
  EXPECT_GE(num_prepared, num_products / 10) << "too few to be a test of them";
}

TEST(Plan, VerifierWantsWhatIsMadeOnceToBeThereAndNothingElseToNeedWhatItReplaces) {
  std::mt19937 random(4);
  const auto graph = random_products(random);
  const auto plan_of_products = [&](bool alone) {
    group::Groups groups = group::form_groups(*graph);
    group::mark_constants(groups, nullptr, alone);
    return plan_groups(groups, schedule::Target::cpu_v3());
  };
  const auto faults = [](const Plan& plan) { return faults_of(verify(plan)); };
  const auto has = [](const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; };
  const Plan prepared = plan_of_products(false), constant = plan_of_products(true);
  ASSERT_FALSE(prepared.preparations.empty()) << print(prepared);
  ASSERT_FALSE(constant.constants.empty()) << print(constant);
  Plan lacking = prepared;
  lacking.preparations.pop_back();
  EXPECT_TRUE(has(faults(lacking), "which is not there")) << faults(lacking);
  Plan twice = prepared;
  twice.preparations.push_back(twice.preparations.back());
  EXPECT_TRUE(has(faults(twice), "was made before")) << faults(twice);
  Plan every_run = prepared;
  every_run.launches.push_back(every_run.preparations.back());
  EXPECT_TRUE(has(faults(every_run), "which is only read")) << faults(every_run);
  Plan needed = constant;
  needed.launches.push_back(needed.constants.back());
  EXPECT_TRUE(has(faults(needed), "takes the place of")) << faults(needed);
}

INSTANTIATE_TEST_SUITE_P(Targets, RandomPlans, testing::Bool(), [](const auto& info) { return info.param ? "cuda" : "cpu"; });

}  // namespace
}  // namespace tcc::plan
