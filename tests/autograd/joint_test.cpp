// What build_joint makes: which outputs, which nodes, what trains, what it refuses.
#include <gtest/gtest.h>

#include <ctime>

#include "tcc/autograd/autograd.h"
#include "tcc/graph/builder.h"
#include "tcc/graph/passes.h"

namespace tcc {
namespace {

std::unique_ptr<Graph> parse(const std::string& text) {
  auto graph = parse_graph(text, "net.graph", {}, true);
  for (const auto& weight : graph->weights()) weight->from_model = weight->name.rfind("const", 0) != 0;
  return graph;
}

std::unique_ptr<Graph> joint_of(const std::string& text, const GradOptions& options = {}, GradReport* report = nullptr) {
  const auto graph = parse(text);
  EXPECT_EQ(verify(*graph, GraphStage::resolved), std::vector<std::string>());
  Diagnostics diagnostics;
  auto joint = build_joint(*graph, options, diagnostics, report);
  EXPECT_EQ(verify(*joint, GraphStage::resolved), std::vector<std::string>());
  return joint;
}

void expect_joint(const std::string& forward, const std::string& expected, const GradOptions& options = {}) {
  const auto joint = joint_of(forward, options);
  std::string why;
  EXPECT_TRUE(equal(*joint, *parse(expected), &why)) << why << "\n" << print(*joint);
}

int count(const Graph& graph, Op op) {
  int found = 0;
  for (const Node* node : graph.body.nodes) found += node->op == op;
  return found;
}

std::string message_of(const std::string& text, const GradOptions& options = {}) {
  const auto graph = parse(text);
  Diagnostics diagnostics;
  try {
    build_joint(*graph, options, diagnostics);
  } catch (const Error& error) { return error.what(); }
  return "";
}

const char* const kLinear = R"(
  graph @g(%x: f32[8, 4]) -> (%y: f32[8, 2]) {
    weight @w: f32[2, 4]
    weight @b: f32[2]
    %h: f32[8, 2] = gemm(%x, @w, @b) {alpha=1, beta=1, transpose_a=false, transpose_b=true}    loc("fc")
    %y: f32[8, 2] = relu(%h)    loc("act")
  })";

/// relu reads its result; the bias is summed over the batch; no cotangent of %x is built.
TEST(BuildJoint, OfALinearLayer) {
  expect_joint(kLinear, R"(
    graph @g(%x: f32[8, 4], %cotangent.y: f32[8, 2]) -> (%y: f32[8, 2], %grad.w: f32[2, 4], %grad.b: f32[2]) {
      weight @w: f32[2, 4]
      weight @b: f32[2]
      %p: f32[8, 2] = dot_general(%x, @w) {dtype=f32, lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[1]}    loc("fc")
      %c: f32[8, 2] = broadcast_in_dim(@b) {dims=[1], shape=[8, 2]}    loc("fc")
      %h: f32[8, 2] = add(%p, %c)    loc("fc")
      %y: f32[8, 2] = relu(%h)    loc("act")
      %zero: f32[8, 2] = full() {dtype=f32, shape=[8, 2], value=0.0}    loc("act") grad
      %off: bool[8, 2] = le(%y, %zero)    loc("act") grad
      %dh: f32[8, 2] = select(%off, %zero, %cotangent.y)    loc("act") grad
      %grad.b: f32[2] = reduce_sum(%dh) {axes=[0]}    loc("fc") grad
      %dw: f32[2, 4] = dot_general(%dh, %x) {dtype=f32, lhs_batch=[], lhs_contract=[0], rhs_batch=[], rhs_contract=[0]}    loc("fc") grad
      return %y, %dw, %grad.b
    })");
}

TEST(BuildJoint, NodesOfGradientsSayWhichNodeTheyAreOf) {
  const auto joint = joint_of(kLinear);
  int of_fc = 0, of_act = 0;
  for (const Node* node : joint->body.nodes) {
    of_fc += node->loc.phase == "grad" && node->loc.node == "fc";
    of_act += node->loc.phase == "grad" && node->loc.node == "act";
  }
  EXPECT_GE(of_fc, 2);
  EXPECT_GE(of_act, 2);
}

TEST(BuildJoint, IsDeterministicAndLeavesTheForwardGraphAlone) {
  const auto graph = parse(kLinear);
  const std::string before = print(*graph);
  Diagnostics diagnostics;
  const std::string first = print(*build_joint(*graph, {}, diagnostics));
  EXPECT_EQ(first, print(*build_joint(*graph, {}, diagnostics)));
  EXPECT_EQ(before, print(*graph));
}

TEST(BuildJoint, WrtNamesInputsAndParameters) {
  GradOptions options;
  options.wrt = {"x"};
  EXPECT_EQ(joint_of(kLinear, options)->output_names, (std::vector<std::string>{"y", "grad.x"}));
  options.wrt = {"*"};
  EXPECT_EQ(joint_of(kLinear, options)->output_names, (std::vector<std::string>{"y", "grad.x", "grad.w", "grad.b"}));
  options.wrt = {"z*"};
  EXPECT_EQ(message_of(kLinear, options), "tcc: error: --wrt=z* matches no float input or parameter [unknown-input]");
}

const char* const kNormed = R"(
  graph @g(%x: f32[2, 3, 4]) -> (%y: f32[2, 3, 4], %n: i64[]) {
    weight @bn.weight: f32[3]
    weight @bn.bias: f32[3]
    weight @bn.running_mean: f32[3]
    weight @bn.running_var: f32[3]
    weight @rope.inv_freq: f32[4]
    weight @temperature: f32[]
    weight @unused: f32[5]
    weight @const: f32[4]
    %h: f32[2, 3, 4] = batch_norm(%x, @bn.weight, @bn.bias, @bn.running_mean, @bn.running_var) {epsilon=1e-05}
    %f: f32[2, 3, 4] = mul(%h, @rope.inv_freq)
    %t: f32[2, 3, 4] = mul(%f, @temperature)
    %y: f32[2, 3, 4] = add(%t, @const)
    %u: f32[5] = exp(@unused)
    %m: i64[] = argmax(%u) {axis=0, last=false}
    return %y, %m
  })";

/// Not running statistics, rotary frequencies, scalars, constants that a pass made, nor what only an index depends on.
TEST(BuildJoint, WhatTrains) {
  GradReport report;
  joint_of(kNormed, {}, &report);
  EXPECT_EQ(report.trained, (std::vector<std::string>{"bn.weight", "bn.bias"}));
  EXPECT_EQ(report.frozen, (std::vector<std::string>{"bn.running_mean", "bn.running_var", "rope.inv_freq", "temperature", "unused"}));
  GradOptions options;
  options.train = {"temp*", "bn.*"};
  options.freeze = {"*.running_var", "bn.bias"};
  joint_of(kNormed, options, &report);
  EXPECT_EQ(report.trained, (std::vector<std::string>{"bn.weight", "bn.running_mean", "temperature"}));
}

TEST(BuildJoint, EveryRefusedNodeIsNamedWithWhatDependsOnIt) {
  EXPECT_EQ(message_of(R"(
    graph @g(%x: f32[4]) -> (%y: f32[4]) {
      weight @a: f32[4]
      weight @b: f32[4]
      %0: f32[4] = mul(%x, @a)    loc("first")
      %1: f32[4] = bitcast(%0) {dtype=f32}    loc("second")
      %2: f32[4] = mul(%1, @b)    loc("third")
      %3: i32[4] = bitcast(%2) {dtype=i32}    loc("fourth")
      %4: f32[4] = bitcast(%2) {dtype=f32}    loc("fifth")
      %y: f32[4] = exp(%4)    loc("sixth")
    })"),
            "net.graph:fifth: error: not supported yet: the gradient of `bitcast` is not known [unsupported-gradient]\n"
            "  %4: f32[4] = bitcast(%2) {dtype=f32}\n"
            "net.graph:fifth: note: the gradients of `a`, `b` depend on it\n"
            "net.graph:second: error: not supported yet: the gradient of `bitcast` is not known [unsupported-gradient]\n"
            "  %1: f32[4] = bitcast(%0) {dtype=f32}\n"
            "net.graph:second: note: the gradient of `a` depends on it");
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

TEST(BuildJoint, MergedAndRenamedParametersAreWarnedOf) {
  const auto graph = parse(R"(
    graph @g(%x: f32[2, 4]) -> (%y: f32[2, 4]) {
      weight @fc1.bias: f32[4]
      weight @val_12: f32[4, 4]
      %0: f32[2, 4] = add(%x, @fc1.bias)    loc("fc1")
      %1: f32[2, 4] = matmul(%0, @val_12)    loc("fc2")
      %y: f32[2, 4] = add(%1, @fc1.bias)    loc("fc3")
    })");
  Diagnostics diagnostics;
  build_joint(*graph, {}, diagnostics);
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics.all()) text += to_string(diagnostic) + "\n";
  EXPECT_EQ(
      text,
      "net.graph: warning: `fc1.bias` is read in several places: parameters that were equal when the model was exported are one now, and "
      "train as one [merged-parameters]\n"
      "net.graph: warning: `val_12` has no name of the model: the export has folded other tensors into parameters [merged-parameters]\n"
      "net.graph: help: export for training: torch.onnx.export(..., dynamo=True, optimize=False) keeps every parameter under its name\n");
}

TEST(BuildJoint, ALossIsTheOnlyOtherOutput) {
  GradOptions options;
  options.loss = parse_loss("cross_entropy");
  const auto joint = joint_of(kLinear, options);
  EXPECT_EQ(joint->output_names, (std::vector<std::string>{"loss", "grad.w", "grad.b"}));
  ASSERT_EQ(joint->body.args.size(), 2u);
  EXPECT_EQ(joint->body.args[1]->name, "target");
  EXPECT_EQ(to_string(joint->body.args[1]->type), "i64[8]");
  // No scatter, and one log-softmax: its gradient reads its result.
  EXPECT_EQ(count(*joint, Op::scatter_elements_) + count(*joint, Op::scatter_nd_), 0);
  EXPECT_EQ(count(*joint, Op::log_softmax_), 1);
  options.loss = parse_loss("output:y");
  EXPECT_EQ(message_of(kLinear, options),
            "tcc: error: --loss: the output `y` is f32[8, 2], a float of one element is needed [invalid-argument]");
}

TEST(BuildJoint, ASharedSubexpressionIsBuiltOnce) {
  const auto joint = joint_of(R"(
    graph @g(%x: f32[4, 8]) -> (%y: f32[4, 8]) {
      weight @s: f32[8]
      weight @t: f32[8]
      %a: f32[4, 8] = mul(%x, @s)
      %e: f32[4, 8] = exp(%a)
      %f: f32[4, 8] = add(%e, @t)
      %y: f32[4, 8] = mul(%e, %f)
    })");
  EXPECT_EQ(count(*joint, Op::exp_), 1);
}

/// An embedding whose table is the output layer's too: its gradient is added to that of the layer.
TEST(BuildJoint, TiedEmbeddingsAddToTheGradientOfTheLayer) {
  GradOptions options;
  options.loss = parse_loss("cross_entropy");
  const auto joint = joint_of(R"(
    graph @g(%i: i64[3]) -> (%y: f32[3, 5]) {
      weight @table: f32[5, 2]
      %h: f32[3, 2] = gather(@table, %i) {axis=0}
      %t: f32[3, 2] = tanh(%h)
      %y: f32[3, 5] = gemm(%t, @table, none) {alpha=1, beta=1, transpose_a=false, transpose_b=true}
    })",
                              options);
  const Node* gradient = joint->body.results[1]->producer;
  ASSERT_EQ(gradient->op, Op::scatter_nd_) << print(*joint);
  EXPECT_EQ(gradient->operand(0)->producer->op, Op::dot_general_);
  EXPECT_EQ(count(*joint, Op::scatter_nd_), 1);
}

TEST(ParseLoss, ReadsOptionsAndRefusesOthers) {
  const LossOptions loss = parse_loss("cross_entropy:axis=-1,ignore_index=0,label_smoothing=0.1,reduction=sum,of=logits");
  EXPECT_EQ(loss.axis, -1);
  EXPECT_EQ(loss.ignore_index, 0);
  EXPECT_EQ(loss.label_smoothing, 0.1);
  EXPECT_EQ(loss.reduction, "sum");
  EXPECT_EQ(loss.output, "logits");
  EXPECT_EQ(parse_loss("output:a:b,c").output, "a:b,c");
  auto fault = [](const char* text) {
    try {
      parse_loss(text);
    } catch (const Error& error) { return std::string(error.what()); }
    return std::string();
  };
  EXPECT_EQ(fault("hinge"),
            "tcc: error: --loss=hinge: known are cross_entropy, nll, mse, l1, huber, bce and output:NAME [invalid-argument]");
  EXPECT_EQ(fault("mse:axis=1"),
            "tcc: error: --loss=mse:axis=1: `axis` is no option of it, known are reduction and of (the output) [invalid-argument]");
  EXPECT_EQ(fault("nll:axis=x"), "tcc: error: --loss=nll:axis=x: `x` is no integer [invalid-argument]");
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
