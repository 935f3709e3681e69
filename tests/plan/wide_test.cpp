// Concats of many operands and values of many slices: few kinds of kernels, and what they compute.

#include <gtest/gtest.h>

#include <random>
#include <regex>

#include "group/run_units.h"
#include "plan/plan_graph.h"
#include "tcc/graph/rule_error.h"
#include "tcc/rules/builder.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/verify.h"
#include "tcc/support/diagnostics.h"

namespace tcc::plan {
namespace {

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  int64_t below(int64_t end) { return static_cast<int64_t>(engine_() % static_cast<uint32_t>(end)); }
  template <class T> T pick(std::initializer_list<T> list) { return list.begin()[below(static_cast<int64_t>(list.size()))]; }
  Shape shape(int64_t rank) {
    Shape shape;
    for (int64_t i = 0; i < rank; ++i) shape.push_back(pick<int64_t>({1, 1, 2, 3, 5, 8}));
    return shape;
  }

 private:
  std::mt19937 engine_;
};

Value* some_unary(Builder& b, Random& random, Value* x) {
  const int64_t kind = random.below(3);
  return kind == 0 ? b.unary(Op::neg_, x) : kind == 1 ? b.unary(Op::abs_, x) : b.add(x, x);
}

/// A concat of `count` pieces: inputs, the same one again and again, computed ones, empty ones; of one extent or of several.
std::unique_ptr<Graph> wide_concat(Random& random, int64_t count) {
  auto graph = std::make_unique<Graph>("concat");
  Builder b(*graph, graph->body, {});
  const DType dtype = random.pick({DType::f32, DType::f16, DType::i64, DType::u8});
  Shape shape = random.shape(1 + random.below(3));
  const int64_t axis = random.below(static_cast<int64_t>(shape.size()));
  const int64_t kind = random.below(4);
  std::vector<Value*> pieces;
  for (int64_t i = 0; i < count; ++i) {
    if (kind == 3) shape[static_cast<size_t>(axis)] = random.below(4);
    if (kind == 1 && i > 0) {
      pieces.push_back(pieces[0]);
      continue;
    }
    Value* x = graph->add_input("x" + std::to_string(i), Type(dtype, shape));
    pieces.push_back(kind == 2 && dtype != DType::u8 ? some_unary(b, random, x) : x);
  }
  Value* y = b.concat(pieces, axis);
  if (random.below(2) == 0) y = b.add(y, y);
  graph->add_output(y, "y");
  if (random.below(3) == 0) graph->add_output(pieces[1], "piece");
  return graph;
}

/// `count` slices of a value, outputs, some of them through a reshape, some read by another node too.
std::unique_ptr<Graph> many_slices(Random& random, int64_t count) {
  auto graph = std::make_unique<Graph>("slices");
  Builder b(*graph, graph->body, {});
  Shape shape = random.shape(1 + random.below(3));
  const size_t axis = static_cast<size_t>(random.below(static_cast<int64_t>(shape.size())));
  const int64_t extent = 1 + random.below(4);
  const bool even = random.below(2) == 0;
  shape[axis] = count * extent;
  Value* x = graph->add_input("x", Type(random.pick({DType::f32, DType::f16, DType::i64}), shape));
  if (random.below(2) == 0) x = some_unary(b, random, x);
  std::vector<int64_t> starts(shape.size(), 0), limits = shape;
  for (int64_t i = 0; i < count; ++i) {
    starts[axis] = i * extent;
    limits[axis] = starts[axis] + (even ? extent : random.below(extent + 1));
    Value* piece = b.slice(x, starts, limits);
    if (random.below(5) == 0) piece = b.reshape(piece, {piece->type.count()});
    graph->add_output(piece, "y" + std::to_string(i));
    if (random.below(20) == 0) graph->add_output(b.unary(Op::neg_, piece), "n" + std::to_string(i));
  }
  return graph;
}

std::vector<Tensor> inputs_for(const Graph& graph, Random& random) {
  std::vector<Tensor> inputs;
  for (const Value* input : graph.body.args) {
    inputs.emplace_back(input->type.dtype, input->type.shape());
    for (int64_t i = 0; i < inputs.back().count(); ++i)
      inputs.back().set_int64(i, random.below(60) - (input->type.dtype == DType::u8 ? 0 : 30));
  }
  return inputs;
}

std::string joined(const std::vector<std::string>& faults) {
  std::string text;
  for (const std::string& fault : faults) text += fault + "\n";
  return text;
}

class WideNodes : public testing::TestWithParam<bool> {
 protected:
  schedule::Target target() const { return GetParam() ? schedule::Target::cuda_sm80() : schedule::Target::cpu_v3(); }

  Plan plan_of(Graph& graph) const {
    EXPECT_EQ(joined(verify(graph, GraphStage::prims)), "");
    group::split_wide_nodes(graph);
    EXPECT_EQ(joined(verify(graph, GraphStage::prims)), "");
    const auto once = graph.clone();
    group::split_wide_nodes(graph);
    EXPECT_TRUE(equal(*once, graph)) << "not the same when it is done again";
    const group::Groups groups = group::form_groups(graph);
    EXPECT_EQ(joined(group::verify(groups)), "");
    const Plan plan = plan_groups(groups, target());
    EXPECT_EQ(joined(verify(plan)), "");
    return plan;
  }
};

TEST_P(WideNodes, ComputeWhatTheirGraphsDo) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const int64_t count = random.pick<int64_t>({2, 16, 31, 32, 33, 34, 48, 100});
    const auto graph = seed % 2 == 0 ? wide_concat(random, count) : many_slices(random, count);
    const auto before = graph->clone();
    const std::vector<Tensor> inputs = inputs_for(*graph, random);
    const Plan plan = plan_of(*graph);
    const std::vector<Tensor> expected = interpret(*before, inputs, false), found = interpret(plan, inputs);
    ASSERT_EQ(found.size(), expected.size()) << "seed " << seed;
    for (size_t i = 0; i < found.size(); ++i)
      ASSERT_EQ(group::differences(found[i], expected[i], {}), "") << "seed " << seed << " output " << i << "\n"
                                                                   << print(*before) << print(plan);
  }
}

/// Statements of all distinct kernels, roughly: what code generation has to do.
size_t text_size(const Plan& plan) {
  size_t size = 0;
  for (const loop::Kernel& kernel : plan.kernels) size += loop::print(kernel, "k").size();
  return size;
}

// A thousand operands are as many kernels at most, of a few kinds; not one that chooses among a thousand.
TEST_P(WideNodes, CodeIsBounded) {
  for (const char* form : {"same", "inputs", "columns", "rows"}) {
    SCOPED_TRACE(form);
    const std::string kind = form;
    Graph graph("wide");
    Builder b(graph, graph.body, {});
    if (kind == "same" || kind == "inputs") {
      std::vector<Value*> pieces;
      for (int i = 0; i < 1000; ++i)
        pieces.push_back(kind == "same" && i > 0 ? pieces[0] : graph.add_input("x" + std::to_string(i), Type(DType::f32, {3, 5})));
      graph.add_output(b.concat(pieces, 1), "y");
    } else {
      const int64_t axis = kind == "columns";
      Shape shape{3, 3};
      shape[static_cast<size_t>(axis)] = 2000;
      Value* x = graph.add_input("x", Type(DType::f32, shape));
      for (int64_t i = 0; i < 1000; ++i) {
        std::vector<int64_t> starts{0, 0}, limits = shape;
        starts[static_cast<size_t>(axis)] = 2 * i;
        limits[static_cast<size_t>(axis)] = 2 * i + 2;
        graph.add_output(b.slice(x, starts, limits), "y" + std::to_string(i));
      }
    }
    const Plan plan = plan_of(graph);
    EXPECT_LE(plan.kernels.size(), 12u);
    EXPECT_LE(text_size(plan), 100'000u);
    if (kind == "rows") {
      EXPECT_EQ(plan.kernels.size(), 0u);  // all of them are copied
    }
  }
}

// Transposes and reshapes that do not become one: an index of bounded size, or an error.
TEST_P(WideNodes, ViewsInARowAreBounded) {
  for (const int count : {4, 10, 200}) {
    Graph graph("views");
    Builder b(graph, graph.body, {});
    Value* x = graph.add_input("x", Type(DType::f32, {4, 6}));
    for (int i = 0; i < count; ++i) x = b.reshape(b.transpose(x, {1, 0}), {4, 6});
    graph.add_output(x, "y");
    std::string kind;
    try {
      plan_of(graph);
    } catch (const RuleError& error) { kind = error.kind; }
    EXPECT_EQ(kind, count < 100 ? "" : "too-complex");
  }
}

// Nothing divides a long prime extent: looking for what does ends soon.
TEST_P(WideNodes, LongPrimeExtents) {
  Graph graph("prime");
  Builder b(graph, graph.body, {});
  Value* x = graph.add_input("x", Type(DType::f32, {68'719'476'731}));  // the largest prime below 2^36
  graph.add_output(b.unary(Op::neg_, x), "y");
  EXPECT_EQ(plan_of(graph).launches.size(), 1u);
}

// What no device can hold or launch is an error of the model, which names the tensors.
TEST_P(WideNodes, ImpossibleSizesAreRefused) {
  const auto message = [&](const char* text) {
    const auto graph = parse_graph(text, "net", {}, true);
    EXPECT_EQ(joined(verify(*graph, GraphStage::prims)), "");
    try {
      plan_graph(*graph, target());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::model);
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string grid = message(R"(
graph @grid(%x: f32[]) -> (%y: f32[16777216, 1048575]) {
  %w: f32[16777216, 1048575] = broadcast_in_dim(%x) {shape=[16777216, 1048575], dims=[]}
  %y: f32[16777216, 1048575] = neg(%w)    loc("negate")
  return %y
})");
  const std::string blocks = "net: error: \"negate\", which makes %y: f32[16777216, 1048575], takes ";
  EXPECT_EQ(grid.substr(0, blocks.size()), GetParam() ? blocks : "");
  const std::string arena = message(R"(
graph @arena(%x: f32[4194304]) -> (%y: f32[4194304]) {
  %a: f32[4194304, 1048576] = broadcast_in_dim(%x) {shape=[4194304, 1048576], dims=[0]}
  %b: f32[4194304, 1048576] = cumulative(%a) {op="sum", axis=0, reverse=false, exclusive=false}
  %c: f32[4194304, 1048576] = cumulative(%b) {op="sum", axis=1, reverse=false, exclusive=false}
  %d: f32[4194304, 1048576] = cumulative(%c) {op="sum", axis=0, reverse=false, exclusive=false}
  %e: f32[4194304, 1048576] = cumulative(%d) {op="sum", axis=1, reverse=false, exclusive=false}
  %f: f32[4194304, 1048576] = cumulative(%e) {op="sum", axis=0, reverse=false, exclusive=false}
  %g: f32[4194304, 1048576] = cumulative(%f) {op="sum", axis=1, reverse=false, exclusive=false}
  %t0: f32[4194304, 1048576] = mul(%g, %f)
  %t1: f32[4194304, 1048576] = mul(%t0, %e)
  %t2: f32[4194304, 1048576] = mul(%t1, %d)
  %t3: f32[4194304, 1048576] = mul(%t2, %c)
  %t4: f32[4194304, 1048576] = mul(%t3, %b)
  %y: f32[4194304] = reduce_sum(%t4) {axes=[1]}
  return %y
})");
  EXPECT_TRUE(std::regex_search(
      arena, std::regex("^net: error: the values that live at a time take [0-9]+ TiB, the most is 64 TiB; the largest are `.*"
                        "`: f32\\[4194304, 1048576\\] of 16 TiB, .* \\[too-large\\]$")))
      << arena;
}

INSTANTIATE_TEST_SUITE_P(Targets, WideNodes, testing::Bool(), [](const auto& info) { return info.param ? "cuda" : "cpu"; });

}  // namespace
}  // namespace tcc::plan
