// Shape rules: the types they give and the messages with which they refuse.

#include <gtest/gtest.h>

#include "tcc/graph/builder.h"
#include "tcc/graph/graph.h"

namespace tcc {
namespace {

/// The type of the node `text` (without a result), given inputs, or what the rule says against it.
std::string infer(const std::string& inputs, const std::string& call) {
  const auto graph = parse_graph("graph @g(" + inputs + ") -> () {\n %y: f32[*] = " + call + "\n}", "", {});
  try {
    return to_string(infer_node_types(*graph->body.nodes[0])[0]);
  } catch (const RuleError& error) { return error.message; }
}

TEST(ShapeRules, Pointwise) {
  EXPECT_EQ(infer("%a: f32[2, 1], %b: f32[3]", "add(%a, %b)"), "f32[2, 3]");
  EXPECT_EQ(infer("%a: f32[n, 1], %b: f32[n, m]", "add(%a, %b)"), "f32[n, m]");
  EXPECT_EQ(infer("%a: f32[n], %b: f32[4]", "add(%a, %b)"), "f32[4]");
  EXPECT_EQ(infer("%a: f32[*], %b: f32[4]", "add(%a, %b)"), "f32[*]");
  EXPECT_EQ(infer("%a: f32[2], %b: f32[3]", "add(%a, %b)"), "operands are f32[2] and f32[3], which do not broadcast together");
  EXPECT_EQ(infer("%a: f32[2], %b: f16[2]", "add(%a, %b)"), "operand 1 of `add` is f16, expected f32 as operand 0");
  EXPECT_EQ(infer("%a: bool[2], %b: bool[2]", "add(%a, %b)"), "`add` of bool, expected a number");
  EXPECT_EQ(infer("%a: i32[2]", "sqrt(%a)"), "`sqrt` of i32, expected a float");
  EXPECT_EQ(infer("%a: i32[2], %b: i32[2]", "lt(%a, %b)"), "bool[2]");
  EXPECT_EQ(infer("%c: f32[2], %a: f32[2]", "select(%c, %a, %a)"), "the condition of `select` is f32, expected bool");
  EXPECT_EQ(infer("%a: f32[2]", "cast(%a) {dtype=f16}"), "f16[2]");
  EXPECT_EQ(infer("%a: f32[2]", "bitcast(%a) {dtype=f16}"), "`bitcast` from f32 to f16, expected dtypes of equal width");
}

TEST(ShapeRules, Views) {
  EXPECT_EQ(infer("%a: f32[2, 3]", "reshape(%a) {shape=[3, 2]}"), "f32[3, 2]");
  EXPECT_EQ(infer("%a: f32[2, 3]", "reshape(%a) {shape=[4]}"), "`reshape` from f32[2, 3] with 6 elements to f32[4] with 4");
  EXPECT_EQ(infer("%a: f32[2, n]", "transpose(%a) {permutation=[1, 0]}"), "f32[n, 2]");
  EXPECT_EQ(infer("%a: f32[2, 3]", "transpose(%a) {permutation=[1, 1]}"), "`permutation` is [1, 1], which names axis 1 twice");
  EXPECT_EQ(infer("%a: f32[2, 3]", "transpose(%a) {permutation=[0, 2]}"), "`permutation` is 2, rank is 2");
  EXPECT_EQ(infer("%a: f32[10]", "slice(%a) {starts=[1], limits=[10], steps=[4]}"), "f32[3]");
  EXPECT_EQ(infer("%a: f32[10]", "slice(%a) {starts=[1], limits=[11], steps=[1]}"),
            "the slice of axis 0 is 1 to 11 by 1, the operand is f32[10]");
  EXPECT_EQ(infer("%a: f32[3], %v: f32[]", "pad(%a, %v) {low=[1], high=[2], interior=[1]}"), "f32[8]");
  EXPECT_EQ(infer("%a: f32[3], %b: f32[4]", "concat(%a, %b) {axis=0}"), "f32[7]");
  EXPECT_EQ(infer("%a: f32[3, 2], %b: f32[4, 3]", "concat(%a, %b) {axis=0}"),
            "operands of `concat` along axis 0 are f32[3, 2] and f32[4, 3], which differ on axis 1");
  EXPECT_EQ(infer("%a: f32[3, 1]", "broadcast_in_dim(%a) {shape=[2, 3, 4], dims=[1, 2]}"), "f32[2, 3, 4]");
  EXPECT_EQ(infer("%a: f32[3]", "broadcast_in_dim(%a) {shape=[4], dims=[0]}"),
            "the operand is f32[3], whose axis 0 does not broadcast to axis 0 of f32[4]");
}

TEST(ShapeRules, ReductionsAndWindows) {
  EXPECT_EQ(infer("%a: f32[2, 3, 4]", "reduce_sum(%a) {axes=[0, 2]}"), "f32[3]");
  EXPECT_EQ(infer("%a: f32[2]", "reduce_sum(%a) {axes=[4]}"), "`axes` is 4, rank is 1");
  EXPECT_EQ(infer("%a: f32[2, 3]", "argmax(%a) {axis=1, last=false}"), "i64[2]");
  EXPECT_EQ(infer("%a: f32[2, 0]", "argmax(%a) {axis=1, last=false}"), "`argmax` over axis 1 of f32[2, 0], which is empty");
  EXPECT_EQ(
      infer("%a: f32[1, 7]", "reduce_window(%a) {op=\"max\", window=[1, 3], strides=[1, 2], low=[0, 1], high=[0, 1], dilations=[1, 1]}"),
      "f32[1, 4]");
  EXPECT_EQ(infer("%a: f32[2]", "reduce_window(%a) {op=\"max\", window=[3], strides=[1], low=[0], high=[0], dilations=[1]}"),
            "the padded extent is 2 on axis 0, the window needs at least 3");
  EXPECT_EQ(infer("%a: f32[4]", "topk(%a) {k=5, axis=0, largest=true}"), "`topk` has 1 results, expected 2");
}

TEST(ShapeRules, Contractions) {
  const char* dims = "{dtype=f32, lhs_batch=[0], rhs_batch=[0], lhs_contract=[2], rhs_contract=[1]}";
  EXPECT_EQ(infer("%a: f32[2, 3, 4], %b: f32[2, 4, 5]", std::string("dot_general(%a, %b) ") + dims), "f32[2, 3, 5]");
  EXPECT_EQ(infer("%a: f32[2, 3, 4], %b: f32[2, 6, 5]", std::string("dot_general(%a, %b) ") + dims),
            "contracted axis 2 of f32[2, 3, 4] has extent 4, axis 1 of f32[2, 6, 5] has 6");
  const char* conv = "{strides=[2], low=[1], high=[1], lhs_dilation=[1], rhs_dilation=[1], groups=2}";
  EXPECT_EQ(infer("%a: f32[1, 4, 9], %w: f32[6, 2, 3]", std::string("conv_general(%a, %w) ") + conv), "f32[1, 6, 5]");
  EXPECT_EQ(infer("%a: f32[1, 3, 9], %w: f32[6, 2, 3]", std::string("conv_general(%a, %w) ") + conv),
            "the operand has 3 channels, the kernel f32[6, 2, 3] in 2 groups needs 4");
}

TEST(ShapeRules, Indexed) {
  EXPECT_EQ(infer("%a: f32[5, 4], %i: i64[]", "gather(%a, %i) {axis=0}"), "f32[4]");
  EXPECT_EQ(infer("%a: f32[5, 4], %i: i64[2, 3]", "gather(%a, %i) {axis=1}"), "f32[5, 2, 3]");
  EXPECT_EQ(infer("%a: f32[5, 4], %i: f32[2]", "gather(%a, %i) {axis=1}"), "indices of f32, expected i32 or i64");
  EXPECT_EQ(infer("%a: f32[5, 4], %i: i64[6, 4]", "gather_elements(%a, %i) {axis=1}"),
            "indices are i64[6, 4], longer on axis 0 than the operand f32[5, 4]");
  EXPECT_EQ(infer("%a: f32[2, 5, 4], %i: i64[2, 3, 1]", "gather_nd(%a, %i) {batch_dims=1}"), "f32[2, 3, 4]");
  EXPECT_EQ(infer("%a: f32[3, 4], %i: i64[2, 2], %u: f32[2]", "scatter_nd(%a, %i, %u) {combiner=\"assign\"}"), "f32[3, 4]");
  EXPECT_EQ(infer("%a: f32[3, 4], %i: i64[2, 1], %u: f32[2]", "scatter_nd(%a, %i, %u) {combiner=\"assign\"}"),
            "updates are f32[2], expected f32[2, 4]");
}

TEST(ShapeRules, Composites) {
  EXPECT_EQ(infer("%a: f32[2, 3], %b: f32[3, 4]", "matmul(%a, %b)"), "f32[2, 4]");
  EXPECT_EQ(infer("%a: f32[2, n], %b: f32[3, 4]", "matmul(%a, %b)"), "f32[*]");
  EXPECT_EQ(infer("%a: f32[2, 3, 4]", "flatten(%a) {axis=2}"), "f32[6, 4]");
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
