// Branches and loops of ONNX: values and gradients of small models built here, through the interpreter.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "frontend/model_builder.h"
#include "tcc/autograd/autograd.h"
#include "tcc/frontend/import.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/verify.h"

namespace tcc {
namespace {

namespace fs = std::filesystem;
namespace pb = onnx::pb;
using onnx::make_node;
using onnx::ModelBuilder;
constexpr int kFloat = pb::TensorProto::FLOAT, kInt64 = pb::TensorProto::INT64, kBool = pb::TensorProto::BOOL;

Tensor numbers(const Shape& shape, const std::vector<double>& values) {
  Tensor tensor(DType::f32, shape);
  for (size_t i = 0; i < values.size(); ++i) tensor.set_double(static_cast<int64_t>(i), values[i]);
  return tensor;
}

std::vector<double> values_of(const Tensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.count(); ++i) values.push_back(tensor.as_double(i));
  return values;
}

pb::ValueInfoProto typed(const std::string& name, int type) { return onnx::make_value_info(name, type, nullptr); }

pb::TensorProto scalar(const std::string& name, float value) {
  pb::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(kFloat);
  tensor.add_float_data(value);
  return tensor;
}

/// A body of inputs, constants, nodes and outputs.
pb::GraphProto body_of(const std::vector<pb::ValueInfoProto>& inputs, const std::vector<pb::TensorProto>& constants,
                       const std::vector<pb::NodeProto>& nodes, const std::vector<std::string>& outputs) {
  pb::GraphProto body;
  body.set_name("body");
  for (const auto& input : inputs) *body.add_input() = input;
  for (const auto& constant : constants) *body.add_initializer() = constant;
  for (const auto& node : nodes) *body.add_node() = node;
  for (const auto& output : outputs) body.add_output()->set_name(output);
  return body;
}

class OnnxControl : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("tcc_onnx_control_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<Graph> resolved(const ModelBuilder& model) const {
    const std::string path = (folder_ / "net.onnx").string();
    model.save(path);
    Diagnostics diagnostics;
    auto graph = import_model(path, {}, diagnostics);
    resolve(*graph, diagnostics, nullptr);
    diagnostics.checkpoint(ExitCode::model);
    EXPECT_EQ(verify(*graph, GraphStage::resolved), std::vector<std::string>());
    return graph;
  }

  std::vector<std::vector<double>> run(const ModelBuilder& model, const std::vector<Tensor>& inputs) const {
    std::vector<std::vector<double>> results;
    for (const Tensor& tensor : interpret(*resolved(model), inputs, true)) results.push_back(values_of(tensor));
    return results;
  }

  /// The gradients of the sum of all outputs, by input or parameter.
  std::map<std::string, std::vector<double>> gradients(const ModelBuilder& model, std::vector<Tensor> inputs) const {
    const auto graph = resolved(model);
    GradOptions options;
    options.wrt = {"*"};
    Diagnostics diagnostics;
    const auto joint = build_joint(*graph, options, diagnostics);
    for (size_t i = inputs.size(); i < joint->body.args.size(); ++i) {
      Tensor ones(DType::f64, joint->body.args[i]->type.shape());
      for (int64_t k = 0; k < ones.count(); ++k) ones.set_double(k, 1);
      inputs.push_back(ones);
    }
    const auto outputs = interpret(*joint, inputs, true);
    std::map<std::string, std::vector<double>> result;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (joint->output_names[i].starts_with("grad.")) result[joint->output_names[i].substr(5)] = values_of(outputs[i]);
    }
    return result;
  }

  fs::path folder_;
};

/// y = root of x where the sum of x is positive, else 3 w x.
ModelBuilder branch_on_data() {
  ModelBuilder model;
  model.input("x", kFloat, {2});
  model.floats("w", {2}, {2, 5});
  model.floats("zero", {}, {0});
  model.node("ReduceSum", {"x"}, {"sum"}, {onnx::int_attribute("keepdims", 0)});
  model.node("Greater", {"sum", "zero"}, {"is_positive"});
  const auto holds = body_of({}, {}, {make_node("Sqrt", {"x"}, {"t"})}, {"t"});
  const auto fails =
      body_of({}, {scalar("three", 3)}, {make_node("Mul", {"x", "w"}, {"e0"}), make_node("Mul", {"e0", "three"}, {"e"})}, {"e"});
  model.node("If", {"is_positive"}, {"y"}, {onnx::graph_attribute("then_branch", holds), onnx::graph_attribute("else_branch", fails)},
             "if");
  model.output("y", kFloat);
  return model;
}

// The root of what is negative is NaN, and so is its gradient: neither reaches the result.
TEST_F(OnnxControl, BranchesOnDataAreChosen) {
  EXPECT_EQ(run(branch_on_data(), {numbers({2}, {4, 9})}), (std::vector<std::vector<double>>{{2, 3}}));
  EXPECT_EQ(run(branch_on_data(), {numbers({2}, {-4, -1})}), (std::vector<std::vector<double>>{{-24, -15}}));
  auto of_then = gradients(branch_on_data(), {numbers({2}, {4, 16})});
  EXPECT_EQ(of_then["x"], (std::vector<double>{0.25, 0.125}));
  EXPECT_EQ(of_then["w"], (std::vector<double>{0, 0}));
  auto of_else = gradients(branch_on_data(), {numbers({2}, {-4, 0})});
  EXPECT_EQ(of_else["x"], (std::vector<double>{6, 15}));
  EXPECT_EQ(of_else["w"], (std::vector<double>{-12, 0}));
}

// A float of the model that says a size is known behind its gate.
TEST_F(OnnxControl, BranchesReadSizesFromAround) {
  ModelBuilder model;
  model.input("x", kFloat, {1, 1, 1, 2});
  model.floats("scales", {4}, {1, 1, 1, 2});
  model.floats("zero", {}, {0});
  model.node("ReduceSum", {"x"}, {"sum"}, {onnx::int_attribute("keepdims", 0)});
  model.node("Greater", {"sum", "zero"}, {"is_positive"});
  const auto resized = [](const std::string& name) {
    return make_node("Resize", {"x", "", "scales"}, {name}, {onnx::text_attribute("mode", "nearest")});
  };
  const auto holds = body_of({}, {}, {resized("t")}, {"t"}),
             fails = body_of({}, {}, {resized("e0"), make_node("Neg", {"e0"}, {"e"})}, {"e"});
  model.node("If", {"is_positive"}, {"y"}, {onnx::graph_attribute("then_branch", holds), onnx::graph_attribute("else_branch", fails)},
             "if");
  model.output("y", kFloat);
  EXPECT_EQ(run(model, {numbers({1, 1, 1, 2}, {3, 1})})[0], (std::vector<double>{3, 3, 1, 1}));
  EXPECT_EQ(run(model, {numbers({1, 1, 1, 2}, {-3, 1})})[0], (std::vector<double>{3, 3, -1, -1}));
}

/// Adds w / (v - 1) to a sum, then takes 1 from v, as long as v is above 1. `bound`: the trip count, "" for none.
ModelBuilder loop_on_data(const std::string& bound, bool collects = false) {
  ModelBuilder model;
  model.input("v", kFloat, {});
  model.input("w", kFloat, {});
  model.int64s("five", {}, {5});
  model.int64s("endless", {}, {INT64_MAX});
  model.floats("unit", {}, {1});
  model.floats("zero", {}, {0});
  model.node("Greater", {"v", "unit"}, {"runs"});
  const auto body = body_of(
      {typed("i", kInt64), typed("runs_in", kBool), typed("v_in", kFloat), typed("sum_in", kFloat)}, {scalar("one", 1)},
      {make_node("Sub", {"v_in", "one"}, {"v_out"}), make_node("Div", {"w", "v_out"}, {"part"}),
       make_node("Add", {"sum_in", "part"}, {"sum_out"}), make_node("Greater", {"v_out", "one"}, {"goes_on"})},
      collects ? std::vector<std::string>{"goes_on", "v_out", "sum_out", "part"} : std::vector<std::string>{"goes_on", "v_out", "sum_out"});
  model.node("Loop", {bound, "runs", "v", "zero"},
             collects ? std::vector<std::string>{"", "y", "parts"} : std::vector<std::string>{"", "y"},
             {onnx::graph_attribute("body", body)}, "loop");
  model.output(collects ? "parts" : "y", kFloat);
  return model;
}

// The third step would divide by 0: its value and its gradients are infinite, and thrown away.
TEST_F(OnnxControl, StepsBehindTheEndChangeNothing) {
  const ModelBuilder model = loop_on_data("five");
  EXPECT_EQ(run(model, {numbers({}, {3}), numbers({}, {8})})[0], (std::vector<double>{12}));
  EXPECT_EQ(run(model, {numbers({}, {1}), numbers({}, {8})})[0], (std::vector<double>{0}));
  EXPECT_NEAR(run(model, {numbers({}, {7}), numbers({}, {60})})[0][0], 60 / 6. + 60 / 5. + 60 / 4. + 60 / 3. + 60 / 2.,
              1e-9);  // five of six
  auto slopes = gradients(model, {numbers({}, {3}), numbers({}, {8})});
  EXPECT_EQ(slopes["w"], (std::vector<double>{1.5}));
  EXPECT_EQ(slopes["v"], (std::vector<double>{-10}));
  slopes = gradients(model, {numbers({}, {1}), numbers({}, {8})});
  EXPECT_EQ(slopes["w"], (std::vector<double>{0}));
  EXPECT_EQ(slopes["v"], (std::vector<double>{0}));
}

/// For i below 3: for k below i + 1: x = x * 2 + i + k, of which the results of the inner loop are collected. `w` is a weight of the inner body.
ModelBuilder nested_loops() {
  ModelBuilder model;
  model.input("x", kFloat, {2});
  model.int64s("three", {}, {3});
  model.int64s("one", {}, {1});
  const auto inner = body_of({typed("k", kInt64), typed("c2", kBool), typed("z", kFloat)}, {scalar("w", 2)},
                             {make_node("Mul", {"z", "w"}, {"z1"}), make_node("Add", {"i", "k"}, {"ik"}),
                              make_node("Cast", {"ik"}, {"f"}, {onnx::int_attribute("to", kFloat)}), make_node("Add", {"z1", "f"}, {"z2"}),
                              make_node("Identity", {"c2"}, {"c3"})},
                             {"c3", "z2"});
  const auto outer = body_of({typed("i", kInt64), typed("c0", kBool), typed("y", kFloat)}, {},
                             {make_node("Add", {"i", "one"}, {"count"}),
                              make_node("Loop", {"count", "", "y"}, {"y1"}, {onnx::graph_attribute("body", inner)}, "inner"),
                              make_node("Identity", {"c0"}, {"c1"})},
                             {"c1", "y1", "y1"});
  model.node("Loop", {"three", "", "x"}, {"last", "all"}, {onnx::graph_attribute("body", outer)}, "outer");
  model.output("last", kFloat);
  model.output("all", kFloat);
  return model;
}

TEST_F(OnnxControl, LoopsAreNested) {
  std::vector<double> expected, all;
  for (double x : {1.0, -3.0}) {
    std::vector<double> steps;
    for (int i = 0; i < 3; ++i) {
      for (int k = 0; k <= i; ++k) x = x * 2 + i + k;
      steps.push_back(x);
    }
    expected.push_back(x);
    all.insert(all.end(), steps.begin(), steps.end());
  }
  const auto results = run(nested_loops(), {numbers({2}, {1, -3})});
  EXPECT_EQ(results[0], expected);
  EXPECT_EQ(results[1], (std::vector<double>{all[0], all[3], all[1], all[4], all[2], all[5]}));
  // The weight of the inner body is one parameter, of which each step has its part.
  const auto slopes = gradients(nested_loops(), {numbers({2}, {1, -3})});
  EXPECT_EQ(slopes.size(), 2U);
  EXPECT_TRUE(slopes.contains("w"));
}

/// state = state + a element of x along axis 1 from behind, and of y along axis 0; collects what it adds in front, along a new last axis.
TEST_F(OnnxControl, ScansGoAlongAxesInBothDirections) {
  ModelBuilder model;
  model.input("x", kFloat, {2, 3});
  model.input("y", kFloat, {3, 2});
  model.input("s", kFloat, {2});
  const auto body = body_of(
      {typed("s_in", kFloat), typed("xe", kFloat), typed("ye", kFloat)}, {},
      {make_node("Sub", {"xe", "ye"}, {"d"}), make_node("Add", {"s_in", "d"}, {"s_out"}), make_node("Identity", {"s_out"}, {"seen"})},
      {"s_out", "seen", "d"});
  model.node("Scan", {"s", "x", "y"}, {"last", "a", "b"},
             {onnx::graph_attribute("body", body), onnx::int_attribute("num_scan_inputs", 2),
              onnx::ints_attribute("scan_input_axes", {-1, 0}), onnx::ints_attribute("scan_input_directions", {1, 0}),
              onnx::ints_attribute("scan_output_axes", {-1, 0}), onnx::ints_attribute("scan_output_directions", {0, 1})},
             "scan");
  for (const char* name : {"last", "a", "b"}) model.output(name, kFloat);
  const auto results =
      run(model, {numbers({2, 3}, {1, 2, 3, 4, 5, 6}), numbers({3, 2}, {10, 20, 30, 40, 50, 60}), numbers({2}, {100, 200})});
  // Differences: 3 - 10, 6 - 20; 2 - 30, 5 - 40; 1 - 50, 4 - 60.
  EXPECT_EQ(results[0], (std::vector<double>{100 - 7 - 28 - 49, 200 - 14 - 35 - 56}));
  EXPECT_EQ(results[1], (std::vector<double>{93, 65, 16, 186, 151, 95}));
  EXPECT_EQ(results[2], (std::vector<double>{-49, -56, -28, -35, -7, -14}));
}

// Of opset 8: a batch, each of its sequences of its own length and from its own end; what is behind it is zero.
TEST_F(OnnxControl, OldScansHaveABatch) {
  ModelBuilder model(8);
  model.input("x", kFloat, {2, 3, 1});
  model.input("s", kFloat, {2, 1});
  model.int64s("lengths", {2}, {2, 3});
  const auto body = body_of({typed("s_in", kFloat), typed("xe", kFloat)}, {},
                            {make_node("Add", {"s_in", "xe"}, {"s_out"}), make_node("Identity", {"s_out"}, {"seen"})}, {"s_out", "seen"});
  model.node("Scan", {"lengths", "s", "x"}, {"last", "all"},
             {onnx::graph_attribute("body", body), onnx::int_attribute("num_scan_inputs", 1), onnx::ints_attribute("directions", {1})},
             "scan");
  model.output("last", kFloat);
  model.output("all", kFloat);
  const auto results = run(model, {numbers({2, 3, 1}, {1, 2, 3, 4, 5, 6}), numbers({2, 1}, {10, 20})});
  EXPECT_EQ(results[0], (std::vector<double>{13, 35}));
  EXPECT_EQ(results[1], (std::vector<double>{12, 13, 0, 26, 31, 35}));
}

/// An LSTM of size 2 over x[3, 1, 2]; `is_quantized`: its weights are bytes around 128, in steps of 1/64.
ModelBuilder lstm_model(bool is_quantized) {
  ModelBuilder model;
  model.import_domain("com.microsoft", 1);
  model.input("x", kFloat, {3, 1, 2});
  const auto byte_of = [](int row, int column) { return (row * 37 + column * 11 + 5) % 256; };
  for (const char* name : {"w", "r"}) {
    std::vector<float> values;
    pb::TensorProto bytes;
    bytes.set_name(name);
    bytes.set_data_type(pb::TensorProto::UINT8);
    for (const int64_t extent : {1, 2, 8}) bytes.add_dims(extent);
    for (int column = 0; column < 2; ++column) {
      for (int row = 0; row < 8; ++row) bytes.add_int32_data(byte_of(row, column));
    }
    for (int row = 0; row < 8; ++row) {  // [gates, size], not [size, gates]
      for (int column = 0; column < 2; ++column) values.push_back(static_cast<float>(byte_of(row, column) - 128) / 64);
    }
    if (is_quantized) *model.graph().add_initializer() = bytes;
    else model.floats(name, {1, 8, 2}, values);
  }
  if (is_quantized) {
    model.floats("scale", {1}, {1.0F / 64});
    auto& zero = *model.graph().add_initializer();
    zero.set_name("zero");
    zero.set_data_type(pb::TensorProto::UINT8);
    zero.add_dims(1);
    zero.add_int32_data(128);
    model.node("DynamicQuantizeLSTM", {"x", "w", "r", "", "", "", "", "", "scale", "zero", "scale", "zero"}, {"y"},
               {onnx::int_attribute("hidden_size", 2)}, "lstm", "com.microsoft");
  } else {
    model.node("LSTM", {"x", "w", "r"}, {"y"}, {onnx::int_attribute("hidden_size", 2)}, "lstm");
  }
  model.output("y", kFloat);
  return model;
}

TEST_F(OnnxControl, QuantizedWeightsAreTheFloatsThatTheyStandFor) {
  const std::vector<Tensor> inputs{numbers({3, 1, 2}, {0.5, -1, 2, 0.25, -0.75, 1})};
  EXPECT_EQ(run(lstm_model(true), inputs), run(lstm_model(false), inputs));
}

// No steps: what is collected has none, of the type that a step would make.
TEST_F(OnnxControl, LoopsWithoutSteps) {
  ModelBuilder model;
  model.input("x", kFloat, {2});
  model.int64s("none", {}, {0});
  const auto body = body_of({typed("i", kInt64), typed("c", kBool), typed("y", kFloat)}, {},
                            {make_node("Neg", {"y"}, {"y1"}), make_node("Identity", {"c"}, {"c1"})}, {"c1", "y1", "y1"});
  model.node("Loop", {"none", "", "x"}, {"last", "all"}, {onnx::graph_attribute("body", body)}, "loop");
  model.output("last", kFloat);
  model.output("all", kFloat);
  const auto graph = resolved(model);
  EXPECT_EQ(to_string(graph->body.results[1]->type), "f32[0, 2]");
  EXPECT_EQ(run(model, {numbers({2}, {1, -3})})[0], (std::vector<double>{1, -3}));
}

}  // namespace
}  // namespace tcc
