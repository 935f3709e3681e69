// Text of graphs: what print writes, parse reads back; and what parse refuses.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tcc/graph/builder.h"
#include "tcc/graph/graph.h"
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

TEST(GraphText, IsWhatTheHeaderShows) {
  Graph graph("net");
  graph.file = "net.onnx";
  Value* x = graph.add_input("x", Type(DType::f32, {32, 784}));
  Value* weight = graph.add_weight("fc1.weight", Tensor(DType::f32, {784, 10}));
  Builder builder(graph, graph.body, {"net.onnx", "fc1/Gemm", ""});
  builder.set_name_hint("h");
  Value* h = builder.emit(Op::transpose_, {weight}, {{"permutation", std::vector<int64_t>{1, 0}}});
  builder.set_loc({"net.onnx", "relu/Relu", "grad"});
  builder.set_name_hint("z");
  graph.add_output(builder.unary(Op::relu_, x), "z");
  graph.add_output(h, "transposed");
  EXPECT_EQ(print(graph), R"(graph @net(%x: f32[32, 784]) -> (%z: f32[32, 784], %transposed: f32[10, 784]) {
  weight @fc1.weight: f32[784, 10]
  %h: f32[10, 784] = transpose(@fc1.weight) {permutation=[1, 0]}    loc("fc1/Gemm")
  %z: f32[32, 784] = relu(%x)    loc("relu/Relu") grad
  return %z, %h
}
)");
  expect_round_trip(graph);
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

TEST(GraphText, TypesOfAllKinds) {
  const char* text = R"(graph @g(%a: f32[*], %b: bf16[n, m<=8, "x + 1"<=9], %c: bool[], %d: i4[3]) -> (%o: f32[*]) {
  %o: f32[*] = relu(%a)
}
)";
  EXPECT_EQ(print(*parse_graph(text, "", {})), text);
  Graph graph("g");
  Type type(DType::f32, {4, 8});
  type.layout = std::make_shared<Layout>(Layout{{1, 0}, {{0, 16}}, {16, 8}});
  graph.add_output(graph.add_input("x", type), "y");
  EXPECT_EQ(to_string(type), "f32[4, 8] layout(order [1, 0], tiles [0 x 16], padded [16, 8])");
  expect_round_trip(graph);
}

TEST(GraphText, AbsentOperandsAndState) {
  const char* text = R"(graph @step(%x: f32[4]) -> (%y: f32[4]) {
  weight @w: f32[4] made
  weight @b: f32[] buffer state
  %y: f32[4] = clip(%x, none, @b)    loc("clip", "other.onnx")
  return %y, state(@w = %y)
}
)";
  const auto graph = parse_graph(text, "net.onnx", {}, true);
  EXPECT_EQ(print(*graph), text);
  EXPECT_EQ(graph->body.nodes[0]->operand(1), nullptr);
  EXPECT_EQ(graph->state_updates.size(), 1u);
}

TEST(GraphText, RegionsNest) {
  // No op has regions yet; the data structure and the text do.
  Graph graph("g");
  Value* x = graph.add_input("x", Type(DType::f32, {2}));
  Node* node = graph.make_node(Op::relu_, {x}, {}, {x->type}, {}, "y");
  node->regions.push_back(std::make_unique<Region>());
  Region& region = *node->regions[0];
  region.args.push_back(graph.make_value(Value::Kind::region_arg, x->type, "arg"));
  Builder inner(graph, region, {});
  region.results = {inner.emit(Op::add_, {region.args[0], x})};
  graph.body.nodes.push_back(node);
  graph.add_output(node->result(), "y");
  EXPECT_EQ(print(graph), R"(graph @g(%x: f32[2]) -> (%y: f32[2]) {
  %y: f32[2] = relu(%x) region(%arg: f32[2]) {
    %add: f32[2] = add(%arg, %x)
    yield %add
  }
}
)");
  expect_round_trip(graph);
}

TEST(GraphText, ErrorsSayWhere) {
  const auto message = [](const char* text) -> std::string {
    try {
      parse_graph(text, "f.graph", {});
    } catch (const Error& error) { return std::string(error.what()).substr(0, std::string(error.what()).find('\n')); }
    return "";
  };
  EXPECT_EQ(message("graph @g(%x: f32[2]) -> (%y: f32[2]) {\n  %y: f32[2] = frobnicate(%x)\n}"),
            "f.graph:2:16: error: found `frobnicate`, expected an operation [syntax]");
  EXPECT_EQ(message("graph @g(%x: f32[2]) -> (%y: f32[2]) {\n  %y: f32[2] = neg(%z)\n}"),
            "f.graph:2:20: error: `%z` is not defined above [syntax]");
  EXPECT_EQ(message("graph @g(%x: f32[2]) -> (%y: f32[2]) {\n  %y: f32[2] = neg(%x) {alpha=1}\n}"),
            "f.graph:2:25: error: `neg` has no attribute `alpha` [syntax]");
  EXPECT_EQ(message("graph @g(%x: f32[2], %x: f32[2]) -> () {\n}"), "f.graph:1:32: error: `%x` is defined twice [syntax]");
  EXPECT_EQ(message("graph @g(%x: f31[2]) -> () {\n}"), "f.graph:1:14: error: found `f31`, expected a dtype such as `f32` [syntax]");
  EXPECT_EQ(message("graph @g() -> (%y: f32[2]) {\n  return @w\n}"),
            "f.graph:2:10: error: `@w` is neither declared nor among the weights given [syntax]");
  EXPECT_EQ(message("graph @g(%x: f32[2]) -> (%y: f32[3]) {\n  return %x\n}"),
            "f.graph:3:2: error: output `y` is declared f32[3], its value is f32[2] [syntax]");
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
