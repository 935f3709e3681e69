// The verifier finds each kind of fault and prints the node.

#include <gtest/gtest.h>

#include "tcc/graph/graph.h"
#include "tcc/rules/builder.h"
#include "tcc/rules/verify.h"

namespace tcc {
namespace {

std::unique_ptr<Graph> two_nodes() {
  return parse_graph(R"(graph @g(%x: f32[2]) -> (%y: f32[2]) {
    %a: f32[2] = neg(%x)
    %y: f32[2] = exp(%a)
  })",
                     "", {});
}

testing::AssertionResult has_fault(const Graph& graph, GraphStage stage, const std::string& text) {
  std::string all;
  for (const std::string& fault : verify(graph, stage)) {
    if (fault.find(text) != std::string::npos) return testing::AssertionSuccess();
    all += fault + "\n";
  }
  return testing::AssertionFailure() << "expected `" << text << "`, found\n" << all;
}

TEST(GraphVerifier, AcceptsWhatIsWellFormed) { EXPECT_EQ(verify(*two_nodes(), GraphStage::prims), std::vector<std::string>()); }

TEST(GraphVerifier, OrderAndCycles) {
  auto graph = two_nodes();
  std::swap(graph->body.nodes[0], graph->body.nodes[1]);
  EXPECT_TRUE(has_fault(*graph, GraphStage::imported,
                        "%a is used before it is defined: the nodes are out of order or form a cycle\n  %y: f32[2] = exp(%a)"));
  graph = two_nodes();
  graph->body.nodes[0]->operands[0] = graph->body.nodes[1]->result();
  EXPECT_TRUE(has_fault(*graph, GraphStage::imported, "%y is used before it is defined"));
}

TEST(GraphVerifier, Names) {
  auto graph = two_nodes();
  graph->body.nodes[0]->result()->name = "x";
  EXPECT_TRUE(has_fault(*graph, GraphStage::imported, "two values are named %x"));
  graph = two_nodes();
  graph->add_output(graph->body.results[0], "y");
  EXPECT_TRUE(has_fault(*graph, GraphStage::imported, "two outputs are named `y`"));
}

// Of every op whose number of results is free.
TEST(GraphVerifier, NumbersOfResults) {
  for (const std::string node :
       {"%y: f32[1, 2, 4, 4] = layer_norm(%x, %s) {axis=3, epsilon=0.1}",
        "%y: f32[1, 2, 3, 3] = max_pool(%x) {kernel=[2, 2], strides=[1, 1], dilations=[1, 1], pads=[0, 0, 0, 0], ceil_mode=false, "
        "auto_pad=\"NOTSET\", storage_order=0}",
        "%y: f32[*] = dynamic_split(%x) {axis=1, num_outputs=1}", "%y: f32[1, 2, 4, 4] = gradient(%x, %x)"}) {
    SCOPED_TRACE(node);
    const auto graph = parse_graph("graph @g(%x: f32[1, 2, 4, 4], %s: f32[4]) -> (%x: f32[1, 2, 4, 4]) {\n  " + node + "\n}", "", {});
    EXPECT_EQ(verify(*graph, GraphStage::imported), std::vector<std::string>());
    std::vector<Value*>& results = graph->body.nodes[0]->results;
    const Value first = *results[0];
    results.clear();
    EXPECT_TRUE(has_fault(*graph, GraphStage::imported, "has no results"));
    if (node.find("dynamic_split") != std::string::npos) continue;  // its pieces are counted when it is resolved
    for (int i = 0; i < 4; ++i) results.push_back(graph->make_value(Value::Kind::result, first.type, "z" + std::to_string(i)));
    EXPECT_TRUE(has_fault(*graph, GraphStage::imported, " has 4 results"));
  }
}

TEST(GraphVerifier, CountsAndAttributes) {
  auto graph = two_nodes();
  graph->body.nodes[0]->operands.push_back(graph->body.args[0]);
  EXPECT_TRUE(has_fault(*graph, GraphStage::imported, "`neg` has 2 operands, expected 1\n  %a: f32[2] = neg(%x, %x)"));
  graph = two_nodes();
  graph->body.nodes[0]->attrs.set("axis", int64_t{1});
  EXPECT_TRUE(has_fault(*graph, GraphStage::imported, "`neg` has no attribute `axis`"));
  graph = two_nodes();
  graph->body.nodes[0]->operands[0] = nullptr;
  EXPECT_TRUE(has_fault(*graph, GraphStage::imported, "an operand of the prim `neg` is absent"));
  graph = two_nodes();
  graph->output_names.push_back("z");
  EXPECT_TRUE(has_fault(*graph, GraphStage::imported, "2 output names, 1 outputs"));
}

TEST(GraphVerifier, Types) {
  auto graph = two_nodes();
  graph->body.nodes[0]->result()->type = Type(DType::f32, {3});
  EXPECT_TRUE(has_fault(*graph, GraphStage::imported, "%a is f32[3], expected f32[2]\n  %a: f32[3] = neg(%x)"));
  graph = two_nodes();
  graph->body.args[0]->type = Type(DType::i32, {2});
  EXPECT_TRUE(has_fault(*graph, GraphStage::imported, "%a is f32[2], expected i32[2]"));
}

TEST(GraphVerifier, Stages) {
  const auto graph = parse_graph(R"(graph @g(%x: f32[2, 3], %b: f32[3], %n: f32[n]) -> (%y: f32[2, 3]) {
    weight @s: i64[1] = [-1]
    %a: f32[2, 3] = add(%x, %b)
    %r: f32[*] = dynamic_reshape(%a, @s) {allowzero=false}
    %y: f32[2, 3] = relu(%a)
  })",
                                 "", {});
  EXPECT_EQ(verify(*graph, GraphStage::imported), std::vector<std::string>());
  EXPECT_TRUE(has_fault(*graph, GraphStage::resolved, "`dynamic_reshape` is not resolved"));
  EXPECT_TRUE(has_fault(*graph, GraphStage::resolved, "%n is f32[n], expected constant extents"));
  EXPECT_TRUE(has_fault(*graph, GraphStage::prims, "`relu` is not a prim"));
  EXPECT_TRUE(has_fault(*graph, GraphStage::prims, "operand %b is f32[3], expected the shape of the result: prims do not broadcast"));
}

TEST(GraphVerifier, OtherGraphs) {
  auto graph = two_nodes();
  Graph other("other");
  for (int i = 0; i < 10; ++i) other.add_input("x", Type(DType::f32, {2}));
  graph->body.nodes[0]->operands[0] = other.body.args[9];
  EXPECT_TRUE(has_fault(*graph, GraphStage::imported, "belongs to another graph"));
}

}  // namespace
}  // namespace tcc
