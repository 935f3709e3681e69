// Plans of small graphs: what they launch, where buffers lie, and that running them gives what the graph gives.

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>

#include "group/random_graph.h"
#include "group/run_units.h"
#include "plan/arena.h"
#include "plan/plan_graph.h"

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
  return plan;
}

std::unique_ptr<Graph> parse(const std::string& text) { return parse_graph(text, "test", {}, true); }

int copies(const Plan& plan) {
  int count = 0;
  for (const Launch& launch : plan.launches) count += launch.kind == Launch::Kind::copy;
  return count;
}

TEST(Plan, ReusesMemoryAlongAChain) {
  std::string text = "graph @chain(%x: f32[64, 64], %w: f32[64, 64]) -> (%y: f32[64, 64]) {\n";
  std::string value = "x";
  for (int i = 0; i < 8; ++i) {
    const std::string next = i == 7 ? "y" : "v" + std::to_string(i);
    text += "  %" + next + ": f32[64, 64] = dot_general(%" + value +
            ", %w) {dtype=f32, lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]}\n";
    value = next;
  }
  const auto graph = parse(text + "  return %y\n}\n");
  const Plan plan = plan_of(*graph);
  int64_t values = 0, scratch = 0;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.kind == Buffer::Kind::arena) (buffer.scratch ? scratch : values) += buffer.size_bytes;
  }
  EXPECT_EQ(values, 7 * 64 * 64 * 4);                      // the eighth is the output
  EXPECT_LE(plan.arena_bytes, 2 * 64 * 64 * 4 + scratch);  // two of them live at a time
  EXPECT_LT(plan.arena_bytes, plan.total_bytes);
  EXPECT_EQ(group::lower_units(group::form_groups(*graph)).forms.size(), 1u);  // eight equal units
  EXPECT_LT(plan.kernels.size(), plan.launches.size());
}

TEST(Plan, OutputsAreWrittenInPlaceOrCopied) {
  // %y is computed into the caller's buffer; %y again, the input and the weight are copied; the reshape of %z lies in an output too.
  const auto graph = parse(R"(
graph @outputs(%x: f32[4, 8]) -> (%y: f32[4, 8], %again: f32[4, 8], %given: f32[4, 8], %known: f32[8], %flat: f32[32]) {
  weight @w: f32[8]
  %y: f32[4, 8] = neg(%x)
  %z: f32[4, 8] = tanh(%x)
  %r: f32[32] = reshape(%z) {shape=[32]}
  return %y, %y, %x, @w, %r
}
)");
  const Plan plan = plan_of(*graph);
  EXPECT_EQ(copies(plan), 3) << print(plan);
  EXPECT_EQ(plan.arena_bytes, 0) << print(plan);
}

TEST(Plan, PiecesOfAConcatAreWrittenInPlace) {
  const auto graph = parse(R"(
graph @pieces(%x: f32[1, 4, 8], %w: f32[4, 4], %v: f32[1, 8, 8]) -> (%y: f32[1, 8, 8]) {
  %a: f32[4, 1, 8] = dot_general(%w, %x) {dtype=f32, lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[1]}
  %at: f32[1, 4, 8] = reshape(%a) {shape=[1, 4, 8]}
  %m: f32[1, 4, 8] = reduce_window(%x) {dilations=[1, 1, 1], high=[0, 0, 1], low=[0, 0, 1], op="max", strides=[1, 1, 1], window=[1, 1, 3]}
  %c: f32[1, 8, 8] = concat(%at, %m) {axis=1}
  %y: f32[1, 8, 8] = dot_general(%c, %v) {dtype=f32, lhs_batch=[0], lhs_contract=[2], rhs_batch=[0], rhs_contract=[1]}
  return %y
}
)");
  const Plan plan = plan_of(*graph);
  std::vector<int64_t> offsets;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.kind == Buffer::Kind::alias) offsets.push_back(buffer.offset);
  }
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 128})) << print(plan);
}

TEST(Plan, VerifierSeesOverlapsAndEarlyReads) {
  const auto graph = parse(R"(
graph @two(%x: f32[64, 64], %w: f32[64, 64]) -> (%y: f32[64, 64]) {
  %a: f32[64, 64] = dot_general(%x, %w) {dtype=f32, lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]}
  %b: f32[64, 64] = dot_general(%a, %w) {dtype=f32, lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]}
  %y: f32[64, 64] = dot_general(%b, %a) {dtype=f32, lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]}
  return %y
}
)");
  Plan overlapping = plan_of(*graph);
  for (Buffer& buffer : overlapping.buffers) {
    if (buffer.kind == Buffer::Kind::arena) buffer.offset = 0;
  }
  EXPECT_NE(faults_of(verify(overlapping)), "");
  Plan reversed = plan_of(*graph);
  std::reverse(reversed.launches.begin(), reversed.launches.end());
  EXPECT_NE(faults_of(verify(reversed)), "");
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

INSTANTIATE_TEST_SUITE_P(Targets, RandomPlans, testing::Bool(), [](const auto& info) { return info.param ? "cuda" : "cpu"; });

}  // namespace
}  // namespace tcc::plan
