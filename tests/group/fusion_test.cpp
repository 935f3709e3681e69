// How long grouping takes; which units graphs become is in fusion.prims.

#include <gtest/gtest.h>

#include <ctime>

#include "tcc/group/group.h"
#include "tcc/rules/builder.h"

namespace tcc::group {
namespace {

TEST(Fusion, ALongChainIsCutAndTakesLinearTime) {
  auto time_of = [](int nodes) {
    Graph graph("chain");
    Value* v = graph.add_input("x", Type(DType::f32, {32, 32}));
    Builder builder(graph, graph.body, {});
    for (int i = 0; i < nodes; ++i) v = builder.emit(i % 2 ? Op::neg_ : Op::tanh_, {v});
    graph.add_output(v, "y");
    const std::clock_t start = std::clock();  // of this process: the machine may be busy
    const Groups groups = form_groups(graph);
    for (const Unit& unit : groups.units) lower(graph, unit);
    EXPECT_EQ(groups.units.size(), static_cast<size_t>((nodes + 63) / 64));
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  EXPECT_LT(time_of(4000), 1.0);
}

}  // namespace
}  // namespace tcc::group
