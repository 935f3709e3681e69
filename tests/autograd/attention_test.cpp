// Attention as ONNX has it: gradients by finite differences, and softmax's from its result, which stays finite where the scores do not.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "autograd/differences.h"
#include "frontend/model_builder.h"
#include "tcc/autograd/gradient_op.h"
#include "tcc/frontend/import.h"
#include "tcc/rules/interpret.h"

namespace tcc {
namespace {

namespace pb = onnx::pb;
using onnx::ModelBuilder;
constexpr int kFloat = pb::TensorProto::FLOAT;

/// A model of one Attention node, resolved.
std::unique_ptr<Graph> attention(int64_t opset, const std::vector<std::pair<std::string, std::vector<int64_t>>>& inputs,
                                 std::vector<std::string> operands, std::vector<std::string> results,
                                 std::vector<pb::AttributeProto> attributes) {
  ModelBuilder model(opset);
  for (const auto& [name, shape] : inputs) model.input(name, name == "mask" ? pb::TensorProto::BOOL : kFloat, shape);
  for (const std::string& result : results) model.output(result, kFloat);
  model.node("Attention", std::move(operands), std::move(results), std::move(attributes));
  const std::string path = (std::filesystem::path(testing::TempDir()) / ("tcc_attention_" + std::to_string(getpid()) + ".onnx")).string();
  model.save(path);
  Diagnostics diagnostics;
  auto graph = import_model(path, {}, diagnostics);
  std::filesystem::remove(path);
  resolve(*graph, diagnostics, expand_gradient);
  diagnostics.checkpoint();
  return graph;
}

void check(const Graph& graph) { check_by_differences({print(graph, {.locations = false, .small_weights = 64}), -1.5, 1.5}); }

TEST(AttentionGradient, OfHeadsThatShareKeys) {
  check(*attention(23, {{"q", {1, 4, 3, 2}}, {"k", {1, 2, 4, 2}}, {"v", {1, 2, 4, 3}}}, {"q", "k", "v"}, {"y"}, {}));
}

TEST(AttentionGradient, CausalPackedWithSoftcapAndBias) {
  check(*attention(23, {{"q", {2, 3, 4}}, {"k", {2, 3, 4}}, {"v", {2, 3, 4}}, {"bias", {3, 3}}}, {"q", "k", "v", "bias"}, {"y"},
                   {onnx::int_attribute("q_num_heads", 2), onnx::int_attribute("kv_num_heads", 2), onnx::int_attribute("is_causal", 1),
                    onnx::float_attribute("softcap", 2), onnx::float_attribute("scale", 0.7F)}));
}

TEST(AttentionGradient, WithAPastAndAllResults) {
  check(*attention(23, {{"q", {1, 1, 2, 3}}, {"k", {1, 1, 2, 3}}, {"v", {1, 1, 2, 2}}, {"pk", {1, 1, 2, 3}}, {"pv", {1, 1, 2, 2}}},
                   {"q", "k", "v", "", "pk", "pv"}, {"y", "present_k", "present_v", "weights"},
                   {onnx::int_attribute("is_causal", 1), onnx::int_attribute("qk_matmul_output_mode", 3)}));
}

/// A row that may look at nothing: its result and its gradients are zeros, those of the others untouched by it.
TEST(AttentionGradient, OfARowWithoutKeys) {
  const auto graph =
      attention(23, {{"q", {1, 1, 2, 2}}, {"k", {1, 1, 3, 2}}, {"v", {1, 1, 3, 2}}, {"mask", {2, 3}}}, {"q", "k", "v", "mask"}, {"y"}, {});
  const auto joint = joint_of(*graph);
  Tensor mask(DType::boolean, {2, 3});
  for (int64_t i = 0; i < 6; ++i) mask.set_int64(i, i >= 3 && i != 4);
  const auto outputs = interpret(*joint,
                                 std::vector<Tensor>{spaced_values({1, 1, 2, 2}, -1, 1, 1), spaced_values({1, 1, 3, 2}, -1, 1, 2),
                                                     spaced_values({1, 1, 3, 2}, -1, 1, 3), mask, spaced_values({1, 1, 2, 2}, 0.5, 1, 4)},
                                 true);
  for (const Tensor& output : outputs) {
    for (int64_t i = 0; i < output.count(); ++i) ASSERT_TRUE(std::isfinite(output.as_double(i)));
  }
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(outputs[0].as_double(i), 0);      // the row
    EXPECT_EQ(outputs[1].as_double(i), 0);      // grad.q of it
    EXPECT_EQ(outputs[2].as_double(2 + i), 0);  // grad.k and grad.v of the key that nobody sees
    EXPECT_EQ(outputs[3].as_double(2 + i), 0);
    EXPECT_NE(outputs[1].as_double(2 + i), 0);
  }
}

/// The backward pass of a softmax reads its result alone: no exponential is in it, and its operand may die.
TEST(SoftmaxGradient, ReadsTheResult) {
  const auto graph = parse("graph @g(%x: f32[2, 4]) -> (%y: f32[*]) { %y: f32[*] = softmax(%x) {axis=1} }");
  const auto joint = joint_of(*graph);
  for (const Node* node : joint->body.nodes) {
    if (node->loc.phase != "grad") continue;
    EXPECT_NE(node->op, Op::exp_);
    for (const Value* operand : node->operands) EXPECT_NE(operand->name, "x") << print(*node);
  }
  // Scores whose exponentials overflow, in f32: the derivative is that of the differences.
  Tensor x(DType::f32, {2, 4}), ones(DType::f32, {2, 4});
  for (int64_t i = 0; i < 8; ++i) {
    x.set_double(i, i < 4 ? 1e4 + static_cast<double>(i) * 0.5 : static_cast<double>(i - 4) * 0.5);
    ones.set_double(i, static_cast<double>(i % 4 == 2));
  }
  const auto outputs = interpret(*joint, std::vector<Tensor>{x, ones}, false);
  for (int64_t i = 0; i < 4; ++i) {
    const double y = outputs[0].as_double(4 + i), y2 = outputs[0].as_double(6);
    EXPECT_NEAR(outputs[1].as_double(i), outputs[1].as_double(4 + i), 1e-6);
    EXPECT_NEAR(outputs[1].as_double(4 + i), y2 * ((i == 2 ? 1 : 0) - y), 1e-6);
  }
}

}  // namespace
}  // namespace tcc
