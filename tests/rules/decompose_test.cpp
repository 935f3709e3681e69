// The decompose pass: dtypes narrower than f32, faults, time. What it emits is in *.graph.

#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <limits>
#include <string>

#include "tcc/graph/graph.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/builder.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/verify.h"
#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

std::unique_ptr<Graph> parse(const std::string& text) { return parse_graph(text, "test.graph", {}); }

std::unique_ptr<Graph> decomposed(const std::string& text) {
  std::unique_ptr<Graph> graph = parse(text);
  Diagnostics diagnostics;
  decompose(*graph, diagnostics);
  diagnostics.checkpoint();
  eliminate_dead_code(*graph);
  EXPECT_EQ(verify(*graph, GraphStage::prims), std::vector<std::string>());
  return graph;
}

// The same composites in f16 and bf16, against f32: only the operands and the last step are rounded.
TEST(PrimsDecompose, SixteenBitFloatsAreComputedInF32) {
  const char* const kOps[] = {"softmax(%x) {axis=1}",
                              "log_softmax(%x) {axis=1}",
                              "sigmoid(%x)",
                              "gelu(%x) {approximate=\"none\"}",
                              "gelu(%x) {approximate=\"tanh\"}",
                              "softplus(%x)",
                              "mish(%x)",
                              "elu(%x) {alpha=1.0}",
                              "layer_norm(%x, %w) {axis=1, epsilon=1e-5}",
                              "rms_norm(%x, %w) {axis=1, epsilon=1e-5}",
                              "lp_norm(%x) {axis=1, p=2}",
                              "reduce(%x) {op=\"mean\", axes=[0], keepdims=true}",
                              "reduce(%x) {op=\"l2\", axes=[0], keepdims=true}"};
  for (const std::string dtype : {"f16", "bf16"}) {
    for (const std::string op : kOps) {
      const std::string shape = op.rfind("reduce", 0) == 0 ? "[1, 32]" : "[8, 32]";
      auto text = [&](const std::string& type) {
        return "graph @g(%x: " + type + "[8, 32], %w: " + type + "[32]) -> (%y: " + type + shape + ") { %y: " + type + shape + " = " + op +
               " }";
      };
      Tensor x(DType::f32, {8, 32}), w(DType::f32, {32});
      for (int64_t i = 0; i < 256; ++i) x.set_double(i, static_cast<double>(i * 37 % 101 - 50) / 16);  // exact in bf16
      for (int64_t i = 0; i < 32; ++i) w.set_double(i, static_cast<double>(i % 7) / 4);
      const DType narrow = *parse_dtype(dtype);
      const Tensor exact = interpret(*decomposed(text("f32")), std::vector{x, w}, false)[0];
      const Tensor rounded = interpret(*decomposed(text(dtype)), std::vector{x.cast_to(narrow), w.cast_to(narrow)}, false)[0];
      EXPECT_TRUE(rounded.same_bytes(exact.cast_to(narrow))) << dtype << " " << op;
    }
  }
}

TEST(PrimsDecompose, EveryFaultIsReported) {
  // Built without the shape rules, which would refuse these before the pass sees them.
  Graph graph;
  graph.file = "m.onnx";
  Value* x = graph.add_input("x", Type(DType::f32, {2, 3}));
  Value* last = nullptr;
  for (const char* mode : {"sideways", "upside-down"}) {
    Node* node =
        graph.make_node(Op::gelu_, {x}, {{"approximate", std::string(mode)}}, {x->type}, Location{"", std::string("act/") + mode, ""}, "y");
    graph.body.nodes.push_back(node);
    last = node->result();
  }
  graph.add_output(last, "y");
  Diagnostics diagnostics;
  decompose(graph, diagnostics);
  ASSERT_EQ(diagnostics.num_errors(), 2);
  EXPECT_EQ(diagnostics.all()[0].where, "m.onnx:act/sideways");
  EXPECT_EQ(diagnostics.all()[0].message, "`approximate` is \"sideways\", known are \"none\" and \"tanh\"");
}

TEST(PrimsDecompose, TakesLinearTime) {
  auto seconds = [](int length) {
    Graph graph;
    Value* x = graph.add_input("x", Type(DType::f32, {8, 8}));
    Builder builder(graph, graph.body, {});
    for (int i = 0; i < length; ++i) x = builder.emit(i % 2 == 0 ? Op::silu_ : Op::relu_, {x});
    graph.add_output(x, "y");
    Diagnostics diagnostics;
    const std::clock_t start = std::clock();  // of this process: the machine may be busy
    decompose(graph, diagnostics);
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  seconds(1000);
  // Eight times the nodes; quadratic time would be 64 times.
  EXPECT_LT(seconds(16000), 32 * seconds(2000) + 0.05);
}

}  // namespace
}  // namespace tcc
