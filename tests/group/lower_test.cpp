// Units of random graphs compute what the graph does, fused and not, bit for bit: the values are small integers.

#include <gtest/gtest.h>

#include <set>

#include "group/random_graph.h"
#include "group/run_units.h"
#include "tcc/group/lower_units.h"

namespace tcc::group {
namespace {

class RandomGraphs : public testing::TestWithParam<bool> {};

TEST_P(RandomGraphs, UnitsComputeWhatTheGraphDoes) {
  const bool fuse = GetParam();
  for (uint32_t seed = 1; seed <= 600; ++seed) {
    RandomGraph random(seed);
    const auto graph = random.make(4 + static_cast<int>(seed % 14));
    const std::vector<Tensor> inputs = random.inputs_for(*graph);
    const Groups groups = form_groups(*graph, {.fuse = fuse});
    ASSERT_EQ(run_units(*graph, groups, inputs, {}), "") << "seed " << seed << "\n" << print(*graph) << print(groups);
    const std::string text = print(groups);
    std::string why;
    ASSERT_TRUE(equal(parse_groups(text, "groups", *graph), groups, &why)) << "seed " << seed << ": " << why << "\n" << text;
  }
}

/// Units are found again by their structure, in other graphs too. What is found is what lowering makes.
TEST_P(RandomGraphs, UnitsOfOneStructureAreLoweredOnce) {
  LoweringCache cache;
  std::vector<std::shared_ptr<const loop::Unit>> made;  // kept, so that no other unit gets the address of one
  std::set<const loop::Unit*> known;
  int found_again = 0;
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    const auto graph = RandomGraph(seed).make(4 + static_cast<int>(seed % 14));
    const Groups groups = form_groups(*graph, {.fuse = GetParam()});
    const LoweredUnits lowered = lower_units(groups, &cache);
    for (size_t i = 0; i < groups.units.size(); ++i) {
      const loop::FirstForm& form = lowered.forms[static_cast<size_t>(lowered.form_of_unit[i])];
      std::vector<IndexCheck> checks;
      ASSERT_EQ(form.key, loop::first_form(lower(*graph, groups.units[i], &checks)).key) << "seed " << seed << "\n" << print(groups);
      ASSERT_EQ(lowered.checks[i].size(), checks.size()) << "seed " << seed << "\n" << print(groups);
    }
    for (const loop::FirstForm& form : lowered.forms) {
      found_again += known.count(form.unit.get()) != 0;
      known.insert(form.unit.get());
      made.push_back(form.unit);
    }
  }
  EXPECT_GT(found_again, 100);
}

INSTANTIATE_TEST_SUITE_P(Fusion, RandomGraphs, testing::Bool(), [](const auto& info) { return info.param ? "fused" : "apart"; });

/// Whether an index is checked depends on where it comes from, which is outside of the unit.
TEST(Lowering, ChecksOfIndicesAreNotTakenFromAnotherUnit) {
  LoweringCache cache;
  const auto checks = [&](const std::string& inputs, const std::string& weight, const std::string& index) {
    const std::string text =
        "graph @g(" + inputs + ") -> (%y: f32[2, 3]) {\n" + weight + "  %y: f32[2, 3] = gather(%x, " + index + ") {axis=0}\n}\n";
    const auto graph = parse_graph(text, "test", {});
    return lower_units(form_groups(*graph), &cache).checks.at(0).size();
  };
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(checks("%x: f32[4, 3]", "  weight @i: i64[2] = [2, 3]\n", "@i"), 0u);
    EXPECT_EQ(checks("%x: f32[4, 3], %i: i64[2]", "", "%i"), 1u);
  }
}

}  // namespace
}  // namespace tcc::group
