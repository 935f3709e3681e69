// The op `gradient`, resolved: derivatives inside a model.
#include <gtest/gtest.h>

#include "tcc/graph/passes.h"

namespace tcc {
namespace {

std::unique_ptr<Graph> resolved(const std::string& text) {
  auto graph = parse_graph(text, "net", {});
  Diagnostics diagnostics;
  resolve(*graph, diagnostics);
  diagnostics.checkpoint();
  EXPECT_EQ(verify(*graph, GraphStage::resolved), std::vector<std::string>()) << print(*graph);
  return graph;
}

/// The outputs for scalar inputs.
std::vector<double> values(const std::string& text, std::initializer_list<double> inputs) {
  std::vector<Tensor> tensors;
  for (const double value : inputs) {
    Tensor tensor(DType::f32, {});
    tensor.set_double(0, value);
    tensors.push_back(tensor);
  }
  std::vector<double> results;
  for (const Tensor& output : interpret(*resolved(text), tensors, false)) results.push_back(output.as_double(0));
  return results;
}

using Values = std::vector<double>;

TEST(GradientOp, OfAddAndMul) {
  EXPECT_EQ(values(R"(graph @g(%a: f32[], %b: f32[]) -> (%d: f32[], %da: f32[], %db: f32[]) {
                        %c: f32[] = add(%a, %b)
                        %d: f32[] = mul(%c, %a)
                        %da: f32[], %db: f32[] = gradient(%d, %a, %b)
                      })",
                   {3, 5}),
            (Values{24, 11, 3}));
}

TEST(GradientOp, OfAGradient) {
  EXPECT_EQ(values(R"(graph @g(%x: f32[]) -> (%first: f32[], %second: f32[]) {
                        %square: f32[] = mul(%x, %x)
                        %y: f32[] = mul(%square, %x)
                        %first: f32[] = gradient(%y, %x)
                        %second: f32[] = gradient(%first, %x)
                      })",
                   {2}),
            (Values{12, 12}));
}

TEST(GradientOp, HeldValuesAndThoseThatDoNotMatter) {
  // %s depends on %a, but is held; %b does not matter; %y of itself is one.
  EXPECT_EQ(values(R"(graph @g(%a: f32[], %b: f32[]) -> (%da: f32[], %db: f32[], %dy: f32[]) {
                        %s: f32[] = mul(%a, %a)
                        %y: f32[] = mul(%s, %a)
                        %da: f32[], %db: f32[] = gradient(%y, %a, %b, %s)
                        %dy: f32[] = gradient(%y, %y)
                      })",
                   {3, 5}),
            (Values{9, 0, 1}));
}

TEST(GradientOp, MergesWithTheForwardPass) {
  const auto graph = resolved(R"(graph @g(%x: f32[3], %w: f32[3]) -> (%y: f32[3], %g: f32[*]) {
                                   %e: f32[3] = exp(%x)
                                   %y: f32[3] = tanh(%e)
                                   %g: f32[*] = gradient(%y, %x)
                                 })");
  eliminate_common_subexpressions(*graph);
  int functions = 0;
  for (const Node* node : graph->body.nodes) functions += node->op == Op::exp_ || node->op == Op::tanh_;
  EXPECT_EQ(functions, 2) << print(*graph);
}

TEST(GradientOp, SaysWhatHasNone) {
  try {
    resolved(R"(graph @g(%x: f16[3]) -> (%g: f16[3]) {
                  %y: bf16[3] = bitcast(%x) {dtype=bf16}    loc("bits")
                  %g: f16[3] = gradient(%y, %x)             loc("grad")
                })");
    FAIL() << "expected a fault";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("[unsupported-gradient]"), std::string::npos) << text;
    EXPECT_NE(text.find("bits"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tcc
