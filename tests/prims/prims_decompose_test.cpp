// The decompose pass: what it emits, which names and locations stay, dtypes narrower and wider than f32, empty extents, faults.

#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <limits>
#include <string>

#include "tcc/graph/builder.h"
#include "tcc/graph/graph.h"
#include "tcc/graph/passes.h"
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

void expect_becomes(const std::string& before, const std::string& after) {
  const std::unique_ptr<Graph> found = decomposed(before);
  std::string why;
  EXPECT_TRUE(equal(*found, *parse(after), &why)) << why << "\n" << print(*found);
}

TEST(PrimsDecompose, BroadcastsBecomeExplicit) {
  expect_becomes(R"(
    graph @g(%x: f32[2, 8], %b: f32[8]) -> (%z: f32[2, 8]) {
      %y: f32[2, 8] = relu(%x)
      %z: f32[2, 8] = add(%y, %b)
    })",
                 R"(
    graph @g(%x: f32[2, 8], %b: f32[8]) -> (%z: f32[2, 8]) {
      %0: f32[2, 8] = full() {dtype=f32, shape=[2, 8], value=0.0}
      %y: f32[2, 8] = max(%x, %0)
      %1: f32[2, 8] = broadcast_in_dim(%b) {dims=[1], shape=[2, 8]}
      %z: f32[2, 8] = add(%y, %1)
    })");
  // A scalar constant is made in the shape that is needed.
  expect_becomes(R"(
    graph @g(%x: f32[2, 8]) -> (%z: f32[2, 8]) {
      %0: f32[] = full() {dtype=f32, shape=[], value=2.0}
      %z: f32[2, 8] = mul(%x, %0)
    })",
                 R"(
    graph @g(%x: f32[2, 8]) -> (%z: f32[2, 8]) {
      %0: f32[2, 8] = full() {dtype=f32, shape=[2, 8], value=2.0}
      %z: f32[2, 8] = mul(%x, %0)
    })");
}

TEST(PrimsDecompose, SoftmaxIsTwoReductionsOverOneAxis) {
  expect_becomes(R"(
    graph @g(%x: f32[4, 16]) -> (%y: f32[4, 16]) {
      %y: f32[4, 16] = softmax(%x) {axis=1}
    })",
                 R"(
    graph @g(%x: f32[4, 16]) -> (%y: f32[4, 16]) {
      %m: f32[4] = reduce_max(%x) {axes=[1]}
      %mb: f32[4, 16] = broadcast_in_dim(%m) {dims=[0], shape=[4, 16]}
      %d: f32[4, 16] = sub(%x, %mb)
      %e: f32[4, 16] = exp(%d)
      %s: f32[4] = reduce_sum(%e) {axes=[1]}
      %i: f32[4] = recip(%s)
      %ib: f32[4, 16] = broadcast_in_dim(%i) {dims=[0], shape=[4, 16]}
      %y: f32[4, 16] = mul(%e, %ib)
    })");
}

TEST(PrimsDecompose, AWeightOnTheRightNeedsNoBatch) {
  expect_becomes(R"(
    graph @g(%x: f32[2, 3, 4], %w: f32[4, 5]) -> (%y: f32[2, 3, 5]) {
      %y: f32[2, 3, 5] = matmul(%x, %w)
    })",
                 R"(
    graph @g(%x: f32[2, 3, 4], %w: f32[4, 5]) -> (%y: f32[2, 3, 5]) {
      %y: f32[2, 3, 5] = dot_general(%x, %w) {dtype=f32, lhs_batch=[], lhs_contract=[2], rhs_batch=[], rhs_contract=[0]}
    })");
}

TEST(PrimsDecompose, WholeUpscaleIsAViewAndHalvingASlice) {
  const std::string attributes =
      "mode=\"nearest\", coordinate_transformation_mode=\"asymmetric\", nearest_mode=\"floor\", cubic_coeff_a=-0.75, "
      "exclude_outside=false, extrapolation_value=0.0, roi=[], antialias=false}";
  expect_becomes(
      "graph @g(%x: f32[1, 3]) -> (%y: f32[1, 6]) { %y: f32[1, 6] = resize(%x) {sizes=[1, 6], scales=[1.0, 2.0], " + attributes + " }", R"(
    graph @g(%x: f32[1, 3]) -> (%y: f32[1, 6]) {
      %0: f32[1, 3, 2] = broadcast_in_dim(%x) {dims=[0, 1], shape=[1, 3, 2]}
      %y: f32[1, 6] = reshape(%0) {shape=[1, 6]}
    })");
  expect_becomes(
      "graph @g(%x: f32[1, 6]) -> (%y: f32[1, 3]) { %y: f32[1, 3] = resize(%x) {sizes=[1, 3], scales=[1.0, 0.5], " + attributes + " }", R"(
    graph @g(%x: f32[1, 6]) -> (%y: f32[1, 3]) {
      %y: f32[1, 3] = slice(%x) {limits=[1, 5], starts=[0, 0], steps=[1, 2]}
    })");
}

TEST(PrimsDecompose, NamesAndLocationsStay) {
  const std::unique_ptr<Graph> graph = decomposed(R"(
    graph @g(%x: f32[4, 16]) -> (%out: f32[4, 16]) {
      %hidden: f32[4, 16] = gelu(%x) {approximate="none"}    loc("block/Gelu")
      %y: f32[4, 16] = identity(%hidden)    loc("block/Identity")
      %z: f32[4, 16] = silu(%y)    loc("block/Silu")
      return %z
    })");
  bool found = false;
  for (const Node* node : graph->body.nodes) {
    EXPECT_TRUE(node->loc.node == "block/Gelu" || node->loc.node == "block/Silu") << print(*node);
    found = found || node->result()->name == "hidden";
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(graph->body.results[0]->name, "z");
}

TEST(PrimsDecompose, OutputsThatArePassedThrough) {
  const std::unique_ptr<Graph> graph = decomposed(R"(
    graph @g(%x: f32[4]) -> (%y: f32[4]) {
      %y: f32[4] = identity(%x)
    })");
  EXPECT_TRUE(graph->body.nodes.empty());
  EXPECT_EQ(graph->body.results[0], graph->body.args[0]);
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

TEST(PrimsDecompose, EmptyExtents) {
  const std::pair<const char*, double> kCases[] = {
      {"graph @g(%x: f32[0, 3]) -> (%y: f32[0, 3]) { %y: f32[0, 3] = softmax(%x) {axis=1} }", 0},
      {"graph @g(%x: f32[3, 0]) -> (%y: f32[3, 0]) { %y: f32[3, 0] = softmax(%x) {axis=1} }", 0},
      {"graph @g(%x: f32[2, 0], %w: f32[0, 3]) -> (%y: f32[2, 3]) { %y: f32[2, 3] = matmul(%x, %w) }", 0},
      {"graph @g(%x: f32[0, 2, 4], %w: f32[4, 3]) -> (%y: f32[0, 2, 3]) { %y: f32[0, 2, 3] = matmul(%x, %w) }", 0},
      {"graph @g(%x: f32[0, 4], %w: f32[4]) -> (%y: f32[0, 4]) { %y: f32[0, 4] = layer_norm(%x, %w) {axis=-1, epsilon=1e-5} }", 0},
      {"graph @g(%x: f32[2, 0]) -> (%y: f32[2]) { %y: f32[2] = reduce(%x) {op=\"sum\", axes=[1], keepdims=false} }", 0},
      {"graph @g(%x: f32[2, 0]) -> (%y: f32[2]) { %y: f32[2] = reduce(%x) {op=\"prod\", axes=[1], keepdims=false} }", 1},
      {"graph @g(%x: f32[2, 0]) -> (%y: f32[2]) { %y: f32[2] = reduce(%x) {op=\"log_sum_exp\", axes=[1], keepdims=false} }",
       -std::numeric_limits<double>::infinity()},
      {"graph @g(%x: f32[0, 2, 4, 4], %w: f32[3, 2, 3, 3]) -> (%y: f32[0, 3, 2, 2]) { %y: f32[0, 3, 2, 2] = conv(%x, %w) {strides=[], "
       "dilations=[], pads=[], groups=1, "
       "auto_pad=\"NOTSET\", kernel=[3, 3]} }",
       0},
      {"graph @g(%x: f32[0, 2, 4, 4]) -> (%y: f32[0, 2, 1, 1]) { %y: f32[0, 2, 1, 1] = global_average_pool(%x) }", 0},
  };
  for (const auto& [text, expected] : kCases) {
    const std::unique_ptr<Graph> graph = decomposed(text);
    std::vector<Tensor> inputs;
    for (const Value* input : graph->body.args) inputs.emplace_back(input->type.dtype, input->type.shape());
    const Tensor y = interpret(*graph, inputs, false)[0];
    for (int64_t i = 0; i < y.count(); ++i) EXPECT_EQ(y.as_double(i), expected) << text;
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
