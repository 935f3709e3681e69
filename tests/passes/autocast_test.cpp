// What autocast promises for every op: it runs in what ops.def says, computes the same as before up to rounding, and so do its gradients.
#include <gtest/gtest.h>

#include <unordered_map>

#include "autograd/op_families.h"
#include "tcc/driver/tolerance.h"
#include "tcc/rules/builder.h"

namespace tcc {
namespace {

bool takes_part(const Value* value) {
  return value != nullptr && (value->type.dtype == DType::f32 || value->type.dtype == DType::f16 || value->type.dtype == DType::bf16);
}

/// Float inputs go through a `prelu` of slope 1 first: it changes nothing and runs in the low precision, so that its readers see operands in it.
std::unique_ptr<Graph> behind_low_precision(const Case& c) {
  auto graph = parse(c.graph);
  std::vector<Node*> nodes;
  nodes.swap(graph->body.nodes);
  Builder b(*graph, graph->body, {});
  std::unordered_map<Value*, Value*> behind;
  for (Value* input : graph->body.args) {
    if (is_float(input->type.dtype)) behind[input] = b.emit(Op::prelu_, {input, b.full(DType::f32, {}, 1)});
  }
  for (Node* node : nodes) {
    for (Value*& operand : node->operands) {
      if (const auto found = behind.find(operand); found != behind.end()) operand = found->second;
    }
    graph->body.nodes.push_back(node);
  }
  return graph;
}

/// Values that the low precision holds, spaced so that no two are equal and none is near a kink.
std::vector<Tensor> inputs_of(const Graph& graph, const Case& c, DType low) {
  std::vector<Tensor> inputs;
  uint64_t seed = 1;
  for (const Value* input : graph.body.args) {
    const Shape shape = input->type.shape();
    ++seed;
    if (input->type.dtype == DType::boolean) inputs.push_back(random_integers(DType::boolean, shape, {seed, 0, 0}, 0, 2));
    else if (!is_float(input->type.dtype)) inputs.push_back(random_integers(input->type.dtype, shape, {seed, 0, 0}, -c.indices, c.indices));
    else inputs.push_back(spaced_values(shape, c.low, c.high, seed).cast_to(low).cast_to(DType::f32));
  }
  return inputs;
}

void expect_near(const Graph& graph, const std::vector<Tensor>& found, const std::vector<Tensor>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].dtype(), expected[i].dtype());
    const driver::Comparison comparison = driver::compare(found[i], expected[i], {tolerance, tolerance, tolerance});
    EXPECT_EQ(comparison.num_wrong, 0) << graph.output_names[i] << " at " << comparison.worst << ": " << comparison.found << ", expected "
                                       << comparison.expected;
  }
}

/// Operands of a node that come out of it in the low precision.
void expect_precision(const Node& node, DType low) {
  const OpInfo& op = info(node.op);
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Value* operand = node.operands[i];
    if (!takes_part(operand)) continue;
    const DType dtype = operand->type.dtype;
    switch (op.precision) {
      case Precision::low: EXPECT_EQ(dtype, low) << print(node); break;
      case Precision::f32: EXPECT_EQ(dtype, DType::f32) << print(node); break;
      case Precision::written: EXPECT_EQ(dtype, DType::f32) << print(node); break;
      case Precision::widest: EXPECT_EQ(dtype, node.operands.back()->type.dtype) << print(node); break;
      case Precision::keep: break;
      case Precision::by_op: {
        const std::string& kind = node.attrs.get_string("op");
        EXPECT_EQ(dtype, kind == "mean" || kind == "max" || kind == "min" ? low : DType::f32) << print(node);
      }
    }
  }
}

std::vector<Tensor> with_cotangents(const Graph& joint, std::vector<Tensor> inputs) {
  for (size_t i = inputs.size(); i < joint.body.args.size(); ++i)
    inputs.push_back(spaced_values(joint.body.args[i]->type.shape(), -1, 1.5, 100 + i).cast_to(DType::f32));
  return inputs;
}

void check_case(const Case& c, const char* op, DType low, double tolerance) {
  SCOPED_TRACE(c.graph);
  const auto graph = behind_low_precision(c);
  const auto mixed = graph->clone();
  autocast(*mixed, low);
  SCOPED_TRACE(print(*mixed));
  ASSERT_EQ(verify(*mixed, GraphStage::resolved), std::vector<std::string>());
  for (const Node* node : mixed->body.nodes) {
    if (name_of(node->op) == op) expect_precision(*node, low);
  }
  for (size_t i = 0; i < graph->body.results.size(); ++i) EXPECT_EQ(mixed->body.results[i]->type, graph->body.results[i]->type);
  const std::vector<Tensor> inputs = inputs_of(*graph, c, low);
  expect_near(*mixed, interpret(*mixed, inputs, false), interpret(*graph, inputs, false), tolerance);

  const auto twice = mixed->clone();
  autocast(*twice, low);
  std::string why;
  EXPECT_TRUE(equal(*twice, *mixed, &why)) << "a second time: " << why;

  const auto joint = joint_of(*graph), mixed_joint = joint_of(*mixed);
  ASSERT_EQ(mixed_joint->output_names, joint->output_names);
  const std::vector<Tensor> all = with_cotangents(*joint, inputs);
  for (size_t i = 0; i < joint->body.results.size(); ++i) EXPECT_EQ(mixed_joint->body.results[i]->type, joint->body.results[i]->type);
  expect_near(*mixed_joint, interpret(*mixed_joint, all, false), interpret(*joint, all, false), 4 * tolerance);
}

TEST(Autocast, EveryOpComputesTheSameUpToRounding) {
  constexpr int kTrials = 12;  // every sixth with an extent of zero
  uint64_t seed = 500;
  for (const OpFamily& family : op_families()) {
    for (const char* op : family.ops) {
      for (int trial = 0; trial < kTrials; ++trial) {
        Draw draw(++seed, trial % 6 == 0);
        const Case c = family.write(draw, op);
        if (trial % 2 == 0) check_case(c, op, DType::bf16, 0.06);
        else check_case(c, op, DType::f16, 0.008);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace tcc
