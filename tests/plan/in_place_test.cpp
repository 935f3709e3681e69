// Which results may lie where an operand did: random graphs, and networks with their gradients. Single graphs are in in_place.prims.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "group/random_graph.h"
#include "overwrite.h"
#include "residuals/nets.h"
#include "tcc/group/lower_units.h"
#include "tcc/loop/overwrite.h"
#include "tcc/schedule/schedule_units.h"

namespace tcc::plan {
namespace {

/// How many results may overwrite an operand; what changes then fails the test.
int try_all(const Graph& graph, const schedule::Target& target) {
  const Overwrites found = try_overwrites(graph, target);
  EXPECT_EQ(found.faults, std::vector<std::string>());
  return static_cast<int>(found.allowed.size());
}

class InPlace : public testing::TestWithParam<bool> {
 protected:
  schedule::Target target() const { return GetParam() ? schedule::Target::cuda_sm80() : schedule::Target::cpu_v3(); }
};

TEST_P(InPlace, RandomGraphs) {
  int allowed = 0;
  for (uint32_t seed = 1; seed < 300; ++seed) {
    group::RandomGraph random(seed);
    allowed += try_all(*random.make(4 + static_cast<int>(seed % 16)), target());
  }
  EXPECT_GT(allowed, 200);
}

TEST_P(InPlace, Networks) {
  for (const int64_t width : {6, 20}) {
    residuals::Net net(2, width == 6 ? 3 : 12, width);
    for (const char* layer : {"linear", "gelu", "block", "norm"}) net.add(layer);
    const TrainingGraphs graphs = net.training("adam");
    residuals::to_prims(*graphs.step);
    group::copy_concat_pieces(*graphs.step);
    EXPECT_GT(try_all(*graphs.step, target()), 10);
  }
}

/// A scatter over the operand that it begins as a copy of: random shapes, axes, combiners and dtypes. What stays is not stored again.
TEST_P(InPlace, ScattersMoveWhatChangesAlone) {
  std::mt19937 random(5);
  const auto below = [&](int64_t bound) { return static_cast<int64_t>(random() % static_cast<uint32_t>(bound)); };
  for (int i = 0; i < 60; ++i) {
    const int64_t rank = 1 + below(4), axis = below(rank);
    Shape shape, updates;
    for (int64_t k = 0; k < rank; ++k) {
      shape.push_back(1 + below(k == rank - 1 ? 70 : 6));
      updates.push_back(k == axis ? 1 + below(shape.back()) : shape.back());
    }
    const DType dtype = std::array{DType::f32, DType::f16, DType::i64, DType::f64}[static_cast<size_t>(below(4))];
    const char* combiner = std::array{"assign", "add", "max", "mul"}[static_cast<size_t>(below(4))];
    Graph graph("scatter");
    Builder b(graph, graph.body, Location{});
    Value *x = graph.add_input("x", Type(dtype, shape)),
          *at = graph.add_input("at", Type(DType::i64, {updates[static_cast<size_t>(axis)]})),
          *u = graph.add_input("u", Type(dtype, updates));
    // Equal indices of an assignment: any of them may win. So one index only, or what doesn't depend on the order.
    if (std::string(combiner) == "assign" || dtype == DType::f16) {
      for (Value* value : {at, u}) value->type.dims[value == at ? 0 : static_cast<size_t>(axis)] = Dim(1);
      updates[static_cast<size_t>(axis)] = 1;
    }
    Value* spread = b.emit(Op::broadcast_in_dim_, {at}, {{"dims", std::vector<int64_t>{axis}}, {"shape", updates}});
    if (below(2) == 0) u = b.unary(Op::neg_, u);
    const bool plain = below(3) > 0;
    Value* from = plain ? x : b.add(x, x);
    graph.add_output(b.emit(Op::scatter_elements_, {from, spread, u}, {{"axis", axis}, {"combiner", std::string(combiner)}}), "y");
    EXPECT_GE(try_all(graph, target()), 1) << print(graph);
    const group::Groups groups = group::form_groups(graph);
    const schedule::ScheduledUnits scheduled = schedule::schedule_units(group::lower_units(groups).forms, target());
    if (!plain || groups.units.size() != 1) continue;
    const std::vector<loop::Param>& params = scheduled.units[0]->form.unit->params;
    const auto kernels = loop::overwrite(scheduled.units[0]->kernels, {{params[0].buffer->name, params.back().buffer->name}});
    const auto is_empty = [](const loop::Kernel& kernel) { return kernel.body.empty(); };
    EXPECT_EQ(std::count_if(kernels.begin(), kernels.end(), is_empty), 1) << loop::print(kernels[0], "k");
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, InPlace, testing::Bool(), [](const auto& info) { return info.param ? "cuda" : "cpu"; });

}  // namespace
}  // namespace tcc::plan
