// Which results may lie where an operand did: kernels that overwrite give the same bits as kernels that don't.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "group/random_graph.h"
#include "residuals/nets.h"
#include "tcc/group/lower_units.h"
#include "tcc/loop/overwrite.h"
#include "tcc/schedule/schedule_units.h"

namespace tcc::plan {
namespace {

using TensorsByName = std::map<std::string, Tensor>;

Tensor copy_of(const Tensor& tensor, Shape shape) {
  Tensor copy(tensor.dtype(), std::move(shape));
  std::memcpy(copy.mutable_bytes(), tensor.bytes(), static_cast<size_t>(copy.size_bytes()));
  return copy;
}

/// Runs kernels one after the other on tensors by parameter name; what is missing is made.
void run(const std::vector<loop::Kernel>& kernels, TensorsByName& tensors) {
  for (const loop::Kernel& kernel : kernels) {
    std::vector<Tensor> params;
    for (const loop::Param& param : kernel.params) params.push_back(tensors[param.buffer->name]);
    loop::interpret(kernel, params);
    for (size_t i = 0; i < params.size(); ++i) tensors[kernel.params[i].buffer->name] = params[i];
  }
}

/// Tries every pair of an operand and a result of one type; returns how many are allowed.
int try_all(const Graph& graph, const schedule::Target& target) {
  std::mt19937 random(3);
  const group::Groups groups = group::form_groups(graph);
  const schedule::ScheduledUnits scheduled = schedule::schedule_units(group::lower_units(groups).forms, target);
  int allowed = 0;
  for (const auto& unit : scheduled.units) {
    const std::string text = loop::print(*unit->form.unit);
    const std::vector<loop::Param>& params = unit->form.unit->params;
    TensorsByName inputs;
    for (const loop::Param& param : params) {
      if (!param.written) inputs[param.buffer->name] = residuals::random_tensor(Type(param.buffer->dtype, param.buffer->extents), random);
    }
    TensorsByName expected = inputs;
    run(unit->kernels, expected);
    for (const loop::Param& old : params) {
      for (const loop::Param& result : params) {
        if (old.written || !result.written || old.buffer->dtype != result.buffer->dtype || old.buffer->count() != result.buffer->count())
          continue;
        if (result.buffer->count() == 0 || !loop::can_overwrite(unit->kernels, old.buffer->name, result.buffer->name)) continue;
        ++allowed;
        const std::vector<loop::Kernel> kernels = loop::overwrite(unit->kernels, {{old.buffer->name, result.buffer->name}});
        TensorsByName found = inputs;
        found[result.buffer->name] = copy_of(inputs[old.buffer->name], result.buffer->extents);
        for (const loop::Kernel& kernel : kernels) {
          if (kernel.body.empty()) continue;  // is not launched
          EXPECT_EQ(loop::verify_kernel(kernel), std::vector<std::string>()) << loop::print(kernel, "k");
        }
        EXPECT_NO_THROW(run(kernels, found)) << text << loop::print(kernels[0], "k");
        for (const loop::Param& param : params) {
          if (!param.written || param.buffer->count() == 0) continue;
          EXPECT_TRUE(found[param.buffer->name].same_bytes(expected[param.buffer->name]))
              << old.buffer->name << " -> " << result.buffer->name << " changes " << param.buffer->name << "\n"
              << text << loop::print(kernels[0], "k");
        }
      }
    }
  }
  return allowed;
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

/// A softmax of long rows, over its operand: each row is read by reductions before it is written.
TEST_P(InPlace, Rows) {
  for (const int64_t columns : {16, 33, 64, 200, 1000, 5000}) {
    const std::string type = "f32[3, " + std::to_string(columns) + "]", shape = "shape=[3, " + std::to_string(columns) + "]";
    const auto graph = parse_graph("graph @softmax(%x: " + type + ") -> (%y: " + type + R"() {
  %m: f32[3] = reduce_max(%x) {axes=[1]}
  %mb: )" + type + R"( = broadcast_in_dim(%m) {dims=[0], )" +
                                       shape + R"(}
  %c: )" + type + R"( = sub(%x, %mb)
  %e: )" + type + R"( = exp(%c)
  %s: f32[3] = reduce_sum(%e) {axes=[1]}
  %sb: )" + type + R"( = broadcast_in_dim(%s) {dims=[0], )" +
                                       shape + R"(}
  %y: )" + type + R"( = div(%e, %sb)
  return %y
}
)",
                                   "test", {}, true);
    EXPECT_EQ(try_all(*graph, target()), 1) << columns;
  }
}

/// A normalisation of groups of channels: rows are read in one shape and written in another.
TEST_P(InPlace, RowsOfAnotherShape) {
  for (const int64_t columns : {16, 40, 512, 2048, 8192}) {
    const std::string read = "[2, 3, " + std::to_string(columns) + "]", written = "[2, 12, " + std::to_string(columns / 4) + "]";
    const auto graph = parse_graph("graph @groups(%x: f32" + read + ", %w: f32[12]) -> (%y: f32" + written + R"() {
  %m: f32[2, 3] = reduce_sum(%x) {axes=[2]}
  %mb: f32)" + read +
                                       " = broadcast_in_dim(%m) {dims=[0, 1], shape=" + read + "}\n  %c: f32" + read +
                                       " = sub(%x, %mb)\n  %r: f32" + written + " = reshape(%c) {shape=" + written + "}\n  %wb: f32" +
                                       written + " = broadcast_in_dim(%w) {dims=[1], shape=" + written + "}\n  %y: f32" + written +
                                       " = mul(%r, %wb)\n  return %y\n}\n",
                                   "test", {}, true);
    try_all(*graph, target());
    // Where a row is kept in registers, the loops that read it are those that write it.
    if (target().kind == schedule::Target::Kind::cuda && columns == 8192) { EXPECT_EQ(try_all(*graph, target()), 1) << columns; }
  }
}

/// A transposed operand, and a sum that every thread reads all of.
TEST_P(InPlace, NotWhatOthersRead) {
  const auto graph = parse_graph(R"(
graph @others(%x: f32[64, 64], %b: f32[64]) -> (%y: f32[64, 64], %z: f32[64]) {
  %t: f32[64, 64] = transpose(%x) {permutation=[1, 0]}
  %y: f32[64, 64] = add(%x, %t)
  %r: f32[64] = reverse(%b) {axes=[0]}
  %z: f32[64] = add(%r, %b)
  return %y, %z
}
)",
                                 "test", {}, true);
  EXPECT_EQ(try_all(*graph, target()), 0);
}

INSTANTIATE_TEST_SUITE_P(Targets, InPlace, testing::Bool(), [](const auto& info) { return info.param ? "cuda" : "cpu"; });

}  // namespace
}  // namespace tcc::plan
