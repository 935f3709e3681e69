// Shape rules where sizes are not known yet, and the builder. Those of known sizes are in shape_rules.graph, what they refuse in fail_shape_rules.graph.

#include <gtest/gtest.h>

#include "tcc/graph/graph.h"
#include "tcc/graph/rule_error.h"
#include "tcc/rules/builder.h"
#include "tcc/rules/infer.h"
#include "tcc/rules/verify.h"

namespace tcc {
namespace {

/// The type of the node `call` (without a result), given inputs.
std::string infer(const std::string& inputs, const std::string& call) {
  const auto graph = parse_graph("graph @g(" + inputs + ") -> () {\n %y: f32[*] = " + call + "\n}", "", {});
  return to_string(infer_node_types(*graph->body.nodes[0])[0]);
}

TEST(ShapeRules, OfSizesThatAreNotKnown) {
  EXPECT_EQ(infer("%a: f32[n, 1], %b: f32[n, m]", "add(%a, %b)"), "f32[n, m]");
  EXPECT_EQ(infer("%a: f32[n], %b: f32[4]", "add(%a, %b)"), "f32[4]");
  EXPECT_EQ(infer("%a: f32[*], %b: f32[4]", "add(%a, %b)"), "f32[*]");
  EXPECT_EQ(infer("%a: f32[2, n]", "transpose(%a) {permutation=[1, 0]}"), "f32[n, 2]");
  EXPECT_EQ(infer("%a: f32[2, n], %b: f32[3, 4]", "matmul(%a, %b)"), "f32[*]");
}

TEST(Builder, BroadcastsExplicitly) {
  Graph graph("g");
  Value* a = graph.add_input("a", Type(DType::f32, {2, 1}));
  Value* b = graph.add_input("b", Type(DType::f32, {3}));
  Builder builder(graph, graph.body, {});
  graph.add_output(builder.mul(builder.add(a, b), builder.full(DType::f32, {}, 2)), "y");
  EXPECT_EQ(verify(graph, GraphStage::prims), std::vector<std::string>());
  EXPECT_EQ(to_string(graph.body.results[0]->type), "f32[2, 3]");
  EXPECT_EQ(builder.cast(a, DType::f32), a);
  EXPECT_EQ(builder.reshape(a, {2, 1}), a);
  EXPECT_EQ(builder.transpose(a, {0, 1}), a);
  EXPECT_EQ(to_string(builder.reduce_keep(Op::reduce_max_, a, {0})->type), "f32[1, 1]");
  EXPECT_THROW(builder.add(a, graph.add_input("c", Type(DType::f32, {4, 5, 6}))), RuleError);
}

}  // namespace
}  // namespace tcc
