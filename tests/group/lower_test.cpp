// Units of random graphs compute what the graph does, fused and not, bit for bit: the values are small integers.

#include <gtest/gtest.h>

#include "group/random_graph.h"
#include "group/run_units.h"

namespace tcc::group {
namespace {

class RandomGraphs : public testing::TestWithParam<bool> {};

TEST_P(RandomGraphs, UnitsComputeWhatTheGraphDoes) {
  const bool fuse = GetParam();
  for (uint32_t seed = 1; seed <= 600; ++seed) {
    RandomGraph random(seed);
    const auto graph = random.make(4 + static_cast<int>(seed % 14));
    const std::vector<Tensor> inputs = random.inputs_for(*graph);
    const Groups groups = form_groups(*graph, fuse);
    ASSERT_EQ(run_units(*graph, groups, inputs, {}), "") << "seed " << seed << "\n" << print(*graph) << print(groups);
    const std::string text = print(groups);
    std::string why;
    ASSERT_TRUE(equal(parse_groups(text, "groups", *graph), groups, &why)) << "seed " << seed << ": " << why << "\n" << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Fusion, RandomGraphs, testing::Bool(), [](const auto& info) { return info.param ? "fused" : "apart"; });

}  // namespace
}  // namespace tcc::group
