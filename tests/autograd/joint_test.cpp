// What build_joint reports, its time, and what a loss reads. What it makes and refuses is in *.graph.
#include <gtest/gtest.h>

#include <ctime>

#include "tcc/autograd/autograd.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/builder.h"
#include "tcc/rules/verify.h"

namespace tcc {
namespace {

TEST(BuildJoint, LeavesTheForwardGraphAloneAndSaysWhatTrains) {
  const auto graph = parse_graph(
      "graph @g(%x: f32[8, 4]) -> (%y: f32[8, 4]) { weight @w: f32[4]  weight @rope.inv_freq: f32[4]  weight @scale: f32[]\n"
      "%a: f32[8, 4] = mul(%x, @w)  %b: f32[8, 4] = mul(%a, @rope.inv_freq)  %y: f32[8, 4] = mul(%b, @scale) }",
      "net.graph", {}, true);
  const std::string before = print(*graph);
  Diagnostics diagnostics;
  GradReport report;
  const std::string first = print(*build_joint(*graph, {}, diagnostics, &report));
  EXPECT_EQ(first, print(*build_joint(*graph, {}, diagnostics)));
  EXPECT_EQ(before, print(*graph));
  EXPECT_EQ(report.trained, std::vector<std::string>{"w"});
  EXPECT_EQ(report.frozen, (std::vector<std::string>{"rope.inv_freq", "scale"}));
}

/// All of them at once, in linear time: each names the first few of what depends on it.
TEST(BuildJoint, ThousandsOfRefusedNodesAreListed) {
  const int n = 4000;
  auto graph = std::make_unique<Graph>("g");
  Builder b(*graph, graph->body, {"net.graph", "layer", ""});
  Value* x = graph->add_input("x", Type(DType::f32, {4}));
  for (int i = 0; i < n; ++i)
    x = b.emit(Op::bitcast_, {b.mul(x, graph->add_weight("w" + std::to_string(i), Tensor(DType::f32, {4})))}, {{"dtype", DType::f32}});
  graph->add_output(x, "y");
  Diagnostics diagnostics;
  const std::clock_t begin = std::clock();
  EXPECT_THROW(build_joint(*graph, {}, diagnostics), Error);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 5);
  int errors = 0;
  std::vector<std::string> notes;
  for (const Diagnostic& diagnostic : diagnostics.all()) {
    errors += diagnostic.severity == Diagnostic::Severity::not_supported;
    if (diagnostic.severity == Diagnostic::Severity::note) notes.push_back(diagnostic.message);
  }
  EXPECT_EQ(errors, n);
  ASSERT_EQ(notes.size(), static_cast<size_t>(n));
  EXPECT_EQ(notes.front(), "the gradients of `w0`, `w1`, `w2` and others depend on it");
  EXPECT_EQ(notes[static_cast<size_t>(n) - 2], "the gradients of `w0`, `w1` depend on it");
  EXPECT_EQ(notes.back(), "the gradient of `w0` depends on it");
}

TEST(ParseLoss, ReadsOptions) {
  const LossOptions loss = parse_loss("cross_entropy:axis=-1,ignore_index=0,label_smoothing=0.1,reduction=sum,of=logits");
  EXPECT_EQ(loss.axis, -1);
  EXPECT_EQ(loss.ignore_index, 0);
  EXPECT_EQ(loss.label_smoothing, 0.1);
  EXPECT_EQ(loss.reduction, "sum");
  EXPECT_EQ(loss.output, "logits");
  EXPECT_EQ(parse_loss("output:a:b,c").output, "a:b,c");
}

TEST(Globs, MatchWholeNames) {
  EXPECT_TRUE(glob_matches("layer?.*.weight", "layer1.conv.weight"));
  EXPECT_FALSE(glob_matches("layer?.*.weight", "layer12.conv.weight"));
  EXPECT_FALSE(glob_matches("bn", "bn1"));
  EXPECT_TRUE(glob_matches("*a*b*", "xxaxaxbxb"));
  EXPECT_TRUE(glob_matches("*", ""));
}

}  // namespace
}  // namespace tcc
