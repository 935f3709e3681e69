// Text of graphs that are built: what is printed reads back, bit for bit. Graphs that are texts are in text.graph, what is refused in fail_syntax.graph.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tcc/graph/graph.h"
#include "tcc/rules/builder.h"
#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

void expect_round_trip(const Graph& graph) {
  const std::string text = print(graph);
  const auto back = parse_graph(text, graph.file, {}, true);
  EXPECT_EQ(print(*back), text);
  std::map<std::string, Tensor> weights;
  for (const auto& weight : graph.weights()) weights[weight->name] = weight->tensor;
  std::string why;
  EXPECT_TRUE(equal(graph, *parse_graph(text, graph.file, weights), &why)) << why << "\n" << text;
}

TEST(GraphText, NamesHoldAnyCharacter) {
  Graph graph("a b/c:0\"\\");
  Value* x = graph.add_input("in put:0", Type(DType::f32, {2}));
  Value* w = graph.add_weight("layer.0/weight\n", Tensor(DType::f32, {2}));
  Builder builder(graph, graph.body, {"", "näme with \"quotes\"", ""});
  builder.set_name_hint("%odd, (name) = {x}");
  graph.add_output(builder.emit(Op::add_, {x, w}), "out/put");
  graph.add_output(w, "@w");
  graph.add_output(x, "");
  expect_round_trip(graph);
}

TEST(GraphText, FloatsKeepTheirBits) {
  Graph graph("g");
  Builder builder(graph, graph.body, {});
  const double payload = std::bit_cast<double>(0x7ff8000000abcdefull);
  for (const double value :
       std::initializer_list<double>{0.1, -0.0, 1.0, 5e-324, INFINITY, -INFINITY, std::nan(""), -std::nan(""), payload, 1.0 / 3, 1e300}) {
    graph.add_output(builder.full(DType::f64, {}, value), "o" + std::to_string(graph.body.results.size()));
  }
  graph.add_output(builder.full_int(DType::i64, {2}, std::numeric_limits<int64_t>::min()), "least");
  graph.add_output(builder.emit(Op::leaky_relu_, {graph.body.results[0]}, {{"alpha", 3.0}}), "whole");
  expect_round_trip(graph);
}

TEST(GraphText, EqualityNamesTheFirstDifference) {
  const auto graph = [](const char* body) {
    return parse_graph(std::string("graph @g(%x: f32[2]) -> (%y: f32[2]) {\n") + body + "\n}", "", {});
  };
  std::string why;
  EXPECT_TRUE(equal(*graph("%a: f32[2] = neg(%x)\n%y: f32[2] = exp(%a)"), *graph("%b: f32[2] = neg(%x)\n%y: f32[2] = exp(%b)"), &why))
      << why;
  EXPECT_FALSE(equal(*graph("%a: f32[2] = neg(%x)\n%y: f32[2] = exp(%a)"), *graph("%a: f32[2] = neg(%x)\n%y: f32[2] = exp(%x)"), &why));
  EXPECT_EQ(why, "node 1 differs:\n  %y: f32[2] = exp(%a)\n  %y: f32[2] = exp(%x)");
}

}  // namespace
}  // namespace tcc
