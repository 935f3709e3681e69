// One number a row for what the backward half computes again of a softmax: the same weights, zeros for rows that are NaN, and where nothing may change.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "residuals/log_sums.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/verify.h"

namespace tcc::residuals {
namespace {

/// A softmax, and the weights once more in the backward half. `dtype`: that they are rounded to; `phase`: of the copy; `maximum`: which one that takes.
std::unique_ptr<Graph> graph_of(const std::string& dtype, const std::string& phase = " grad", const std::string& maximum = "%m") {
  const std::string text = "graph @g(%x: f32[3, 8]) -> (%p: f32[3, 8], %w: " + dtype + "[3, 8]) {\n" +
                           "  %m: f32[3] = reduce_max(%x) {axes=[1]}    loc(\"s\")\n" +
                           "  %ms: f32[3, 8] = broadcast_in_dim(%m) {dims=[0], shape=[3, 8]}    loc(\"s\")\n" +
                           "  %d: f32[3, 8] = sub(%x, %ms)    loc(\"s\")\n" + "  %e: f32[3, 8] = exp(%d)    loc(\"s\")\n" +
                           "  %l: f32[3] = reduce_sum(%e) {axes=[1]}    loc(\"s\")\n" + "  %r: f32[3] = recip(%l)    loc(\"s\")\n" +
                           "  %rs: f32[3, 8] = broadcast_in_dim(%r) {dims=[0], shape=[3, 8]}    loc(\"s\")\n" +
                           "  %p: f32[3, 8] = mul(%e, %rs)    loc(\"s\")\n" + "  %other: f32[3] = neg(%m)    loc(\"s\")\n" +
                           "  %m1: f32[3, 8] = broadcast_in_dim(" + maximum + ") {dims=[0], shape=[3, 8]}    loc(\"s\")" + phase + "\n" +
                           "  %d1: f32[3, 8] = sub(%x, %m1)    loc(\"s\")" + phase + "\n" + "  %e1: f32[3, 8] = exp(%d1)    loc(\"s\")" +
                           phase + "\n" + "  %r1: f32[3, 8] = broadcast_in_dim(%r) {dims=[0], shape=[3, 8]}    loc(\"s\")" + phase + "\n" +
                           "  %p1: f32[3, 8] = mul(%e1, %r1)    loc(\"s\")" + phase + "\n" + "  %c: " + dtype +
                           "[3, 8] = cast(%p1) {dtype=" + dtype + "}    loc(\"s\")" + phase + "\n" +
                           "  %nan: bool[3, 8] = isnan(%c)    loc(\"s\")" + phase + "\n" + "  %zero: " + dtype +
                           "[3, 8] = full() {dtype=" + dtype + ", shape=[3, 8], value=0}    loc(\"s\")" + phase + "\n" + "  %w: " + dtype +
                           "[3, 8] = select(%nan, %zero, %c)    loc(\"s\")" + phase + "\n}\n";
  return parse_graph(text, "test", {});
}

int64_t num(const Graph& graph, Op op) {
  return std::ranges::count_if(graph.body.nodes, [&](const Node* node) { return node->op == op; });
}

TEST(LogSums, TheSameWeights) {
  const std::unique_ptr<Graph> graph = graph_of("bf16"), changed = graph->clone();
  fold_log_sums(*changed);
  for (const std::string& fault : verify(*changed, GraphStage::prims)) FAIL() << fault;
  EXPECT_EQ(num(*changed, Op::log_), 1);
  EXPECT_EQ(num(*changed, Op::mul_), 1);  // that of the forward half
  std::mt19937 random(5);
  std::normal_distribution<double> normal(0, 20);
  Tensor x(DType::f32, {3, 8});
  for (int64_t i = 0; i < x.count(); ++i) x.set_double(i, i >= 16 ? -std::numeric_limits<double>::infinity() : normal(random));
  const std::vector<Tensor> inputs{x}, expected = interpret(*graph, inputs, false), found = interpret(*changed, inputs, false);
  for (int64_t i = 0; i < x.count(); ++i) {
    EXPECT_EQ(std::isnan(found[0].as_double(i)), i >= 16);
    EXPECT_NEAR(found[1].as_double(i), expected[1].as_double(i), 0.01 * expected[1].as_double(i)) << i;
  }
}

TEST(LogSums, WhereNothingChanges) {
  for (const std::unique_ptr<Graph>& graph : {graph_of("f32"), graph_of("bf16", ""), graph_of("bf16", " grad", "%other")}) {
    const std::string before = print(*graph);
    fold_log_sums(*graph);
    EXPECT_EQ(print(*graph), before);
  }
}

}  // namespace
}  // namespace tcc::residuals
