// What holds for passes beyond single cases: the interpreter's result stays, and the time grows linearly.

#include <gtest/gtest.h>

#include <chrono>

#include "tcc/graph/builder.h"
#include "tcc/graph/passes.h"

namespace tcc {
namespace {

std::string faults(const Graph& graph, GraphStage stage) {
  std::string text;
  for (const std::string& fault : verify(graph, stage)) text += fault + "\n";
  return text;
}

// x - (x + 1) with a rank-0 constant is -1, before and after every pass.
TEST(Passes, SubtractionOfASum) {
  const auto graph = parse_graph(R"(graph @g(%x: f32[1]) -> (%y: f32[1]) {
    weight @one: f32[] = [1]
    %s: f32[1] = add(%x, @one)
    %y: f32[1] = sub(%x, %s)
  })", "", {});
  Tensor x(DType::f32, {1});
  x.set_double(0, 2);
  const auto result = [&](bool f64) { return interpret(*graph, {{x}}, f64)[0].as_double(0); };
  EXPECT_EQ(result(false), -1);
  EXPECT_EQ(result(true), -1);
  canonicalize(*graph);
  fold_constants(*graph);
  eliminate_common_subexpressions(*graph);
  EXPECT_EQ(result(false), -1);
  Diagnostics diagnostics;
  decompose(*graph, diagnostics);
  EXPECT_EQ(faults(*graph, GraphStage::prims), "");
  EXPECT_EQ(result(false), -1);
}

TEST(Passes, ScalarParametersStayWhenAsked) {
  const auto graph = parse_graph(R"(graph @g(%x: f32[4]) -> (%y: f32[4]) {
    weight @scale: f32[] = [2]
    weight @shift: f32[] = [1]
    %k: f32[] = mul(@scale, @shift)
    %y: f32[4] = mul(%x, %k)
  })", "", {});
  const auto original = graph->clone();
  fold_constants(*graph, /*keep_parameters=*/true);
  canonicalize(*graph, /*keep_parameters=*/true);
  // shift is 1, but a parameter: nothing may be concluded from that.
  std::string why;
  EXPECT_TRUE(equal(*graph, *original, &why)) << why;
}

// A chain of pointwise ops, as long as asked, with views and constants between.
std::unique_ptr<Graph> chain(int length) {
  auto graph = std::make_unique<Graph>("chain");
  Value* x = graph->add_input("x", Type(DType::f32, {4, 8}));
  Builder builder(*graph, graph->body, {});
  for (int i = 0; i < length / 4; ++i) {
    x = builder.unary(Op::tanh_, x);
    x = builder.emit(Op::transpose_, {x}, {{"permutation", std::vector<int64_t>{1, 0}}});
    x = builder.emit(Op::mul_, {x, builder.full(DType::f32, {}, 1.0 + i)});
  }
  graph->add_output(x, "y");
  return graph;
}

double seconds_for(int length) {
  const auto start = std::chrono::steady_clock::now();
  const auto graph = chain(length);
  Diagnostics diagnostics;
  resolve(*graph, diagnostics);
  canonicalize(*graph);
  fold_constants(*graph);
  eliminate_common_subexpressions(*graph);
  eliminate_dead_code(*graph);
  EXPECT_EQ(faults(*graph, GraphStage::resolved), "");
  std::string why;
  EXPECT_TRUE(equal(*graph, *parse_graph(print(*graph), "", {}), &why)) << why;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(Passes, TimeIsLinearInNodes) {
  seconds_for(1000);   // warms up tables
  const double small = seconds_for(4000), large = seconds_for(32000);
  EXPECT_LT(large, 8 * small * 4 + 0.05) << small << " s for 4000 nodes, " << large << " s for 32000";
}

}  // namespace
}  // namespace tcc
