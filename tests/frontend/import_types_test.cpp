// Element types of ONNX in the graph: those that others carry, and weights of another type than the data beside them.
#include <fstream>

#include "frontend/import_onnx.h"

namespace tcc {
namespace {

TEST_F(ImportOnnx, WeightsOfAnotherFloatTypeAreConverted) {
  ModelBuilder model;
  model.input("x", pb::TensorProto::BFLOAT16, {1, 2, 4, 4});
  model.floats("w", {3, 2, 1, 1}, std::vector<float>(6, 1));
  model.floats("b", {3}, {1, 2, 3});
  model.node("Conv", {"x", "w", "b"}, {"y"}, {}, "conv");
  model.output("y", pb::TensorProto::BFLOAT16);
  model.save((folder_ / "net.onnx").string());
  Diagnostics diagnostics;
  const auto graph = import_model((folder_ / "net.onnx").string(), {}, diagnostics);
  EXPECT_EQ(verify(*graph, GraphStage::imported), std::vector<std::string>());
  ASSERT_EQ(graph->body.nodes.size(), 3U);
  EXPECT_EQ(graph->body.nodes[0]->op, Op::cast_);
  EXPECT_EQ(graph->body.nodes[2]->result()->type.dtype, DType::bf16);
  ASSERT_EQ(diagnostics.all().size(), 1U);
  EXPECT_EQ(diagnostics.all()[0].kind, "mixed-dtypes");
  EXPECT_EQ(diagnostics.all()[0].message, "the weight `w` is f32, `x` beside it is bf16: it is converted, as 1 more operand is");
}

TEST_F(ImportOnnx, TypesThatTheGraphLacksAreCarriedByOthers) {
  ModelBuilder model(28);
  model.input("x", pb::TensorProto::UINT2, {4});
  model.input("e", pb::TensorProto::FLOAT8E8M0, {4});
  model.node("Transpose", {"x"}, {"t"});
  model.node("CastLike", {"e", "t"}, {"y"});  // the operand's type is remembered
  model.output("t", pb::TensorProto::UINT2);
  model.output("y", pb::TensorProto::UINT2);
  const auto graph = import(model);
  EXPECT_EQ(graph->body.args[0]->type.dtype, DType::u4);
  EXPECT_EQ(graph->body.args[1]->type.dtype, DType::bf16);
  EXPECT_EQ(graph->body.results[1]->type.dtype, DType::u4);
  EXPECT_NE(text(model).find("and("), std::string::npos) << text(model);
}

TEST_F(ImportOnnx, EveryFormOfNarrowTensor) {
  ModelBuilder model(28);
  auto add = [&](const std::string& name, int type, int64_t count) -> pb::TensorProto& {
    auto& tensor = *model.graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(type);
    tensor.add_dims(count);
    model.node("Identity", {name}, {name + "_out"});
    model.output(name + "_out", type);
    return tensor;
  };
  auto& pairs = add("pairs", pb::TensorProto::INT2, 5);
  pairs.add_int32_data(0b11'10'01'00);                         // 0, 1, -2, -1
  pairs.add_int32_data(0b01);                                  // 1
  auto& sixes = add("sixes", pb::TensorProto::FLOAT6E2M3, 2);  // the one form in which an entry is one element
  sixes.add_int32_data(0b0'01'000);
  sixes.add_int32_data(0b1'11'111);
  add("packed_sixes", pb::TensorProto::FLOAT6E3M2, 3).set_raw_data(std::string("\xcc\x07\x02", 3));  // 001100, 011111, 100000
  std::ofstream(folder_ / "codes.bin", std::ios::binary) << std::string("\x00\x2f\x01", 3);
  auto& outside = add("outside", pb::TensorProto::FLOAT4E2M1, 3);
  outside.set_data_location(pb::TensorProto::EXTERNAL);
  for (const auto& [key, text] : {std::pair("location", "codes.bin"), {"offset", "1"}}) {
    outside.add_external_data()->set_key(key);
    outside.mutable_external_data()->rbegin()->set_value(text);
  }

  const auto graph = import(model);
  const auto numbers = [&](const char* name) {
    std::vector<double> all;
    const Tensor tensor = graph->find_weight(name)->weight->tensor;
    for (int64_t i = 0; i < tensor.count(); ++i) all.push_back(tensor.as_double(i));
    return all;
  };
  EXPECT_EQ(numbers("pairs"), (std::vector<double>{0, 1, -2, -1, 1}));
  EXPECT_EQ(numbers("sixes"), (std::vector<double>{1, -7.5}));
  EXPECT_EQ(numbers("packed_sixes"), (std::vector<double>{1, 28, -0.0}));
  EXPECT_EQ(numbers("outside"), (std::vector<double>{-6, 1, 0.5}));
}

}  // namespace
}  // namespace tcc
