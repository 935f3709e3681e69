// How ONNX's forms arrive in the graph: small models built here, the printed graph compared.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "frontend/import_onnx.h"
#include "tcc/frontend/import.h"
#include "tcc/frontend/tensor_file.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/verify.h"

namespace tcc {
namespace {

namespace fs = std::filesystem;

TEST_F(ImportOnnx, ValuesHaveTheModelsNames) {
  ModelBuilder model;
  model.input("x", kFloat, {2, 4});
  model.floats("w", {4, 3}, std::vector<float>(12, 1));
  model.node("MatMul", {"x", "w"}, {"h/0"}, {}, "fc/MatMul");
  model.node("Split", {"h/0"}, {"left", "right"}, {onnx::int_attribute("axis", -1), onnx::int_attribute("num_outputs", 2)});
  model.output("left", kFloat);
  model.output("right", kFloat);
  const auto graph = import(model);
  ASSERT_EQ(graph->body.nodes.size(), 2U);
  EXPECT_EQ(graph->body.nodes[0]->result()->name, "h/0");
  EXPECT_EQ(graph->body.nodes[0]->loc.node, "fc/MatMul");
  EXPECT_EQ(graph->body.nodes[1]->result(0)->name, "left");
  EXPECT_EQ(graph->body.nodes[1]->result(1)->name, "right");
  EXPECT_EQ(graph->body.nodes[1]->loc.node, "Split(left)");
  EXPECT_EQ(graph->output_names, (std::vector<std::string>{"left", "right"}));
}

TEST_F(ImportOnnx, NodesSayTheirModule) {
  const std::pair<const char*, const char*> cases[] = {
      {"['', 'encoder', 'encoder.layer.0', 'linear_3']", "encoder.layer.0/node_Linear_3"},
      {"['', 'relu']", "node_Linear_3"},  // in the model itself
      {R"(["", "a'b", "relu"])", "a'b/node_Linear_3"},
      // No list: the name alone.
      {"", "node_Linear_3"},
      {"[]", "node_Linear_3"},
      {"['', 'a', 'b'", "node_Linear_3"},
      {"['', 'a\\'', 'b']", "node_Linear_3"},
      {"['' 'a' 'b']", "node_Linear_3"},
      {"[', ']", "node_Linear_3"},
      {"['', a, 'b']", "node_Linear_3"},
  };
  for (const auto& [scopes, name] : cases) {
    ModelBuilder model;
    model.input("x", kFloat, {2});
    auto* property = model.node("Relu", {"x"}, {"y"}, {}, "node_Linear_3").add_metadata_props();
    property->set_key("pkg.torch.onnx.name_scopes");
    property->set_value(scopes);
    model.output("y", kFloat);
    EXPECT_EQ(import(model)->body.nodes[0]->loc.node, name) << scopes;
  }
}

TEST_F(ImportOnnx, NodesInAnyOrder) {
  ModelBuilder model;
  model.input("x", kFloat, {2});
  model.node("Neg", {"b"}, {"c"});
  model.node("Exp", {"a"}, {"b"});
  model.node("Relu", {"x"}, {"a"});
  model.output("c", kFloat);
  EXPECT_EQ(text(model),
            "graph @g(%x: f32[2]) -> (%c: f32[2]) {\n"
            "  %a: f32[2] = relu(%x)\n"
            "  %b: f32[2] = exp(%a)\n"
            "  %c: f32[2] = neg(%b)\n"
            "}\n");
}

TEST_F(ImportOnnx, InitializersListedAsInputsAreConstants) {
  ModelBuilder model(8);
  model.input("x", kFloat, {2});
  model.input("w", kFloat, {2});
  model.floats("w", {2}, {1, 2});
  model.node("Mul", {"x", "w"}, {"y"});
  model.output("y", kFloat);
  const auto graph = import(model);
  ASSERT_EQ(graph->body.args.size(), 1U);
  EXPECT_NE(graph->find_weight("w"), nullptr);
}

// `axis` counts where the right operand's axes stand under the left one's; without it they stand at the end.
TEST_F(ImportOnnx, Opset6Broadcast) {
  ModelBuilder model(6);
  model.input("x", kFloat, {2, 3, 4});
  model.floats("c", {3}, {1, 2, 3});
  model.node("Add", {"x", "c"}, {"y"}, {onnx::int_attribute("broadcast", 1), onnx::int_attribute("axis", 1)}, "add");
  model.output("y", kFloat);
  EXPECT_EQ(text(model),
            "graph @g(%x: f32[2, 3, 4]) -> (%y: f32[*]) {\n"
            "  %dynamic_unsqueeze: f32[*] = dynamic_unsqueeze(@c, @add.axes)\n"
            "  %y: f32[*] = add(%x, %dynamic_unsqueeze)\n"
            "}\n");
}

TEST_F(ImportOnnx, SoftmaxFlattensBeforeOpset13) {
  ModelBuilder model(11);
  model.input("x", kFloat, {2, 3, 4});
  model.node("Softmax", {"x"}, {"y"});
  model.node("Softmax", {"x"}, {"z"}, {onnx::int_attribute("axis", 2)});
  model.output("y", kFloat);
  model.output("z", kFloat);
  EXPECT_EQ(text(model),
            "graph @g(%x: f32[2, 3, 4]) -> (%y: f32[*], %z: f32[2, 3, 4]) {\n"
            "  %flatten: f32[2, 12] = flatten(%x) {axis=1}\n"
            "  %softmax: f32[2, 12] = softmax(%flatten) {axis=1}\n"
            "  %shape_of: i64[3] = shape_of(%x) {start=0}\n"
            "  %y: f32[*] = dynamic_reshape(%softmax, %shape_of) {allowzero=true}\n"
            "  %z: f32[2, 3, 4] = softmax(%x) {axis=-1}\n"
            "}\n");
}

TEST_F(ImportOnnx, ClipBoundsWereAttributes) {
  ModelBuilder model(6);
  model.input("x", kFloat, {2});
  model.node("Clip", {"x"}, {"y"}, {onnx::float_attribute("min", -1)});
  model.output("y", kFloat);
  EXPECT_EQ(text(model),
            "graph @g(%x: f32[2]) -> (%y: f32[2]) {\n"
            "  %full: f32[] = full() {dtype=f32, shape=[], value=-1}\n"
            "  %y: f32[2] = clip(%x, %full)\n"
            "}\n");
}

TEST_F(ImportOnnx, DropoutKeepsEverything) {
  ModelBuilder model;
  model.input("x", kFloat, {2, 3});
  model.node("Dropout", {"x"}, {"y", "mask"});
  model.output("y", kFloat);
  model.output("mask", kBool);
  EXPECT_EQ(text(model),
            "graph @g(%x: f32[2, 3]) -> (%y: f32[2, 3], %mask: bool[*]) {\n"
            "  %y: f32[2, 3] = identity(%x)\n"
            "  %shape_of: i64[2] = shape_of(%x) {start=0}\n"
            "  %mask: bool[*] = constant_of_shape(%shape_of) {dtype=bool, value=1}\n"
            "}\n");
}

// Random ops read one run-time input behind the model's own; each has a stream of its own, above it the bits of the attribute `seed`.
TEST_F(ImportOnnx, RandomOpsReadTheSeed) {
  ModelBuilder model;
  model.input("x", kFloat, {2, 3});
  model.floats("ratio", {}, {0.25F});
  model.node("Constant", {}, {"training"}).add_attribute()->CopyFrom([] {
    pb::AttributeProto attribute;
    attribute.set_name("value");
    attribute.set_type(pb::AttributeProto::TENSOR);
    attribute.mutable_t()->set_data_type(kBool);
    attribute.mutable_t()->add_int32_data(1);
    return attribute;
  }());
  model.node("Dropout", {"x", "ratio", "training"}, {"d", "mask"});
  model.node("Dropout", {"d", "", "training"}, {"e"}, {onnx::int_attribute("seed", 3)});
  model.node("RandomUniform", {}, {"u"}, {onnx::ints_attribute("shape", {2, 3}), onnx::float_attribute("high", 2)});
  model.node("RandomNormalLike", {"x"}, {"n"}, {onnx::int_attribute("dtype", pb::TensorProto::FLOAT16), onnx::float_attribute("mean", 1)});
  model.node("Bernoulli", {"x"}, {"b"}, {onnx::int_attribute("dtype", kBool)});
  model.node("Multinomial", {"x"}, {"m"}, {onnx::int_attribute("sample_size", 5), onnx::int_attribute("dtype", kInt64)});
  for (const char* name : {"e", "u"}) model.output(name, kFloat);
  model.output("n", pb::TensorProto::FLOAT16);
  for (const char* name : {"b", "mask"}) model.output(name, kBool);
  model.output("m", kInt64);
  EXPECT_EQ(text(model),
            "graph @g(%x: f32[2, 3], %seed: i64[]) -> (%e: f32[2, 3], %u: f32[2, 3], %n: f16[2, 3], %b: bool[2, 3], %mask: bool[2, 3], %m: "
            "i64[2, 5]) {\n"
            "  %d: f32[2, 3], %mask: bool[2, 3] = dropout(%x, %seed) {ratio=0.25, stream=0}\n"
            "  %e: f32[2, 3], %e_1: bool[2, 3] = dropout(%d, %seed) {ratio=0.5, stream=12884901889}\n"
            "  %u: f32[2, 3] = random_uniform(%seed) {dtype=f32, high=2, low=0, shape=[2, 3], stream=2}\n"
            "  %n: f16[2, 3] = random_normal(%seed, %x) {dtype=f16, mean=1, scale=1, shape=[], stream=3}\n"
            "  %b: bool[2, 3] = bernoulli(%x, %seed) {dtype=bool, stream=4}\n"
            "  %m: i64[2, 5] = multinomial(%x, %seed) {dtype=i64, sample_size=5, stream=5}\n"
            "}\n");
}

TEST_F(ImportOnnx, DropoutOfOpset6TrainsWhereItSaysSo) {
  ModelBuilder model(6);
  model.input("x", kFloat, {4});
  model.node("Dropout", {"x"}, {"y", "mask"}, {onnx::float_attribute("ratio", 0.1F), onnx::int_attribute("is_test", 0)});
  model.node("Dropout", {"y"}, {"z"}, {onnx::float_attribute("ratio", 0.1F), onnx::int_attribute("is_test", 1)});
  model.output("z", kFloat);
  model.output("mask", kFloat);
  const std::string found = text(model);
  EXPECT_NE(found.find("= dropout(%x, %seed) {ratio="), std::string::npos) << found;
  EXPECT_NE(found.find("%mask: f32[4] = cast("), std::string::npos) << found;
  EXPECT_NE(found.find("%z: f32[4] = identity(%y)"), std::string::npos) << found;
}

TEST_F(ImportOnnx, AnotherValueCalledSeedIsRefused) {
  ModelBuilder model;
  model.input("seed", kFloat, {2});
  model.node("RandomUniformLike", {"seed"}, {"y"});
  model.output("y", kFloat);
  EXPECT_THROW(import(model), Error);
}

pb::AttributeProto texts_attribute(const std::string& name, const std::vector<std::string>& values) {
  pb::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(pb::AttributeProto::STRINGS);
  for (const std::string& value : values) attribute.add_strings(value);
  return attribute;
}

pb::AttributeProto text_attribute(const std::string& name, const std::string& value) {
  pb::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(pb::AttributeProto::STRING);
  attribute.set_s(value);
  return attribute;
}

// The models of ONNX's own tests, test_gradient_of_add_and_mul among them; the node may stand before what it differentiates.
TEST_F(ImportOnnx, GradientNamesTensors) {
  ModelBuilder model(12);
  model.import_domain("ai.onnx.preview.training", 1);
  model.input("a", kFloat, {});
  model.input("b", kFloat, {});
  model.node("Gradient", {"a", "b"}, {"dd_da", "dd_db"}, {texts_attribute("xs", {"a", "b"}), text_attribute("y", "d")}, "grad",
             "ai.onnx.preview.training");
  model.node("Add", {"a", "b"}, {"c"});
  model.node("Mul", {"c", "a"}, {"d"});
  for (const char* name : {"d", "dd_da", "dd_db"}) model.output(name, kFloat);
  EXPECT_EQ(text(model),
            "graph @g(%a: f32[], %b: f32[]) -> (%d: f32[], %dd_da: f32[], %dd_db: f32[]) {\n"
            "  %c: f32[] = add(%a, %b)\n"
            "  %d: f32[] = mul(%c, %a)\n"
            "  %dd_da: f32[], %dd_db: f32[] = gradient(%d, %a, %b)\n"
            "}\n");
}

// Operands other than the tensors named are another point: what lies between is there again, from them.
TEST_F(ImportOnnx, GradientElsewhere) {
  ModelBuilder model(12);
  model.import_domain("ai.onnx.preview.training", 1);
  model.input("a", kFloat, {2});
  model.input("b", kFloat, {2});
  model.input("p", kFloat, {2});
  model.node("Exp", {"b"}, {"e"});
  model.node("Mul", {"a", "e"}, {"y"});
  model.node("Gradient", {"p", "e"}, {"g"}, {texts_attribute("xs", {"a"}), texts_attribute("zs", {"e"}), text_attribute("y", "y")}, "grad",
             "ai.onnx.preview.training");
  model.output("y", kFloat);
  model.output("g", kFloat);
  EXPECT_EQ(text(model),
            "graph @g(%a: f32[2], %b: f32[2], %p: f32[2]) -> (%y: f32[2], %g: f32[2]) {\n"
            "  %e: f32[2] = exp(%b)\n"
            "  %y: f32[2] = mul(%a, %e)\n"
            "  %identity: f32[2] = identity(%p)\n"
            "  %identity_1: f32[2] = identity(%e)\n"
            "  %mul: f32[2] = mul(%identity, %identity_1)\n"
            "  %g: f32[2] = gradient(%mul, %identity, %identity_1)\n"
            "}\n");
}

// Attributes of the call reach the body, defaults where the call has none, an operand that is not passed is absent inside.
TEST_F(ImportOnnx, FunctionsAreInlined) {
  ModelBuilder model;
  model.import_domain("local", 1);
  auto& inner = *model.proto.add_functions();
  inner.set_domain("local");
  inner.set_name("Inner");
  inner.add_input("a");
  inner.add_input("low");
  inner.add_output("c");
  inner.add_attribute("slope");
  *inner.add_attribute_proto() = onnx::float_attribute("scale", 2);
  *inner.add_node() =
      onnx::make_node("LeakyRelu", {"a"}, {"b"}, {onnx::attribute_of_call("alpha", "slope", pb::AttributeProto::FLOAT)}, "leaky");
  *inner.add_node() = onnx::make_node("Elu", {"b"}, {"e"}, {onnx::attribute_of_call("alpha", "scale", pb::AttributeProto::FLOAT)}, "elu");
  *inner.add_node() = onnx::make_node("Clip", {"e", "low"}, {"c"}, {}, "clip");
  auto* opset = inner.add_opset_import();
  opset->set_domain("");
  opset->set_version(16);
  auto& outer = *model.proto.add_functions();
  outer.set_domain("local");
  outer.set_name("Outer");
  outer.add_input("a");
  outer.add_output("b");
  *outer.add_node() = onnx::make_node("Inner", {"a"}, {"b"}, {onnx::float_attribute("slope", 0.25F)}, "inner", "local");
  model.input("x", kFloat, {2});
  model.node("Outer", {"x"}, {"y"}, {}, "block", "local");
  model.output("y", kFloat);
  EXPECT_EQ(text(model),
            "graph @g(%x: f32[2]) -> (%y: f32[2]) {\n"
            "  %b: f32[2] = leaky_relu(%x) {alpha=0.25}\n"
            "  %e: f32[2] = elu(%b) {alpha=2}\n"
            "  %y: f32[2] = clip(%e)\n"
            "}\n");
  EXPECT_EQ(import(model)->body.nodes[0]->loc.node, "block/inner/leaky");
}

ModelBuilder branch_model() {
  pb::GraphProto then_branch, else_branch;
  *then_branch.add_node() = onnx::make_node("Neg", {"x"}, {"t"});
  then_branch.add_output()->set_name("t");
  *else_branch.add_node() = onnx::make_node("Mystery", {"x"}, {"e"});  // not taken: may hold what nobody knows
  else_branch.add_output()->set_name("e");
  ModelBuilder model;
  model.input("x", kFloat, {2, 3});
  model.node("Shape", {"x"}, {"s"});
  model.node("Size", {"s"}, {"n"});
  model.int64s("two", {}, {2});
  model.node("Equal", {"n", "two"}, {"is_matrix"});
  model.node("If", {"is_matrix"}, {"y"},
             {onnx::graph_attribute("then_branch", then_branch), onnx::graph_attribute("else_branch", else_branch)});
  model.output("y", kFloat);
  return model;
}

// The condition is computed from a shape: known, so the branch is taken while importing.
TEST_F(ImportOnnx, KnownBranchesAreTaken) {
  const auto graph = import(branch_model());
  ASSERT_EQ(graph->body.results.size(), 1U);
  EXPECT_EQ(print(*graph->body.results[0]->producer).substr(0, 22), "%y: f32[2, 3] = neg(%x");
}

// What a model declares for its inner values is only a claim: the nodes say what they are.
TEST_F(ImportOnnx, DeclarationsThatContradictTheNodesAreWarnedOf) {
  const auto warnings = [&](std::vector<std::pair<std::string, int>> declared) {
    ModelBuilder model;
    model.input("x", kFloat, {2, 3});
    model.node("Relu", {"x"}, {"h"}, {}, "act");
    model.node("Cast", {"h"}, {"c"}, {onnx::int_attribute("to", pb::TensorProto::DOUBLE)}, "widen");
    model.node("Shape", {"x"}, {"s"});
    model.node("Neg", {"c"}, {"y"});
    model.output("y", pb::TensorProto::DOUBLE);
    for (const auto& [name, type] : declared) *model.graph().add_value_info() = onnx::make_value_info(name, type, nullptr);
    const std::string path = (folder_ / "net.onnx").string();
    model.save(path);
    Diagnostics diagnostics;
    import_model(path, {}, diagnostics);
    std::string text;
    for (const Diagnostic& diagnostic : diagnostics.all()) text += diagnostic.where.substr(path.size()) + " " + diagnostic.message + "\n";
    return text;
  };
  EXPECT_EQ(warnings({{"h", kFloat}, {"c", pb::TensorProto::DOUBLE}, {"s", pb::TensorProto::INT64}, {"absent", kFloat}}), "");
  EXPECT_EQ(warnings({{"h", pb::TensorProto::FLOAT16}}), ":act `h` is f32, the model declares it as f16: what the nodes make is taken\n");
  EXPECT_EQ(warnings({{"c", kFloat}, {"s", pb::TensorProto::INT32}, {"h", pb::TensorProto::BFLOAT16}}),
            ":widen `c` is f64, the model declares it as f32, and 2 more values otherwise than they are: what the nodes make is taken\n");
}

TEST_F(ImportOnnx, ConditionsKnownFromBindings) {
  ModelBuilder model = branch_model();
  model.graph().clear_initializer();
  model.input("two", kInt64, {});
  ImportOptions options;
  options.known.inputs["two"] = Tensor::from_ints({2}).reshaped({});
  const auto graph = import(model, options);
  EXPECT_EQ(graph->body.args.size(), 2U);  // binding is not the importer's
  EXPECT_EQ(graph->body.results[0]->producer->op, Op::neg_);
}

// What the condition does not depend on may be open: here the sizes of another input.
TEST_F(ImportOnnx, ConditionsBesideOpenSizes) {
  ModelBuilder model = branch_model();
  auto& other = *model.graph().add_input() = onnx::make_value_info("z", kFloat, nullptr);
  other.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_param("n");
  EXPECT_EQ(import(model)->body.results[0]->producer->op, Op::neg_);
}

// A condition is computed from what it reads, not from the model before it: a second, where it was minutes.
TEST_F(ImportOnnx, ManyConditionsInARow) {
  ModelBuilder model;
  model.input("x", kFloat, {2, 3});
  std::string value = "x";
  for (int i = 0; i < 4000; ++i) {
    const std::string number = std::to_string(i), next = "y" + number;
    pb::GraphProto branches[2];
    for (const bool taken : {false, true}) {
      branches[taken].set_name("branch");
      const std::string result = (taken ? "t" : "e") + number;
      *branches[taken].add_node() = onnx::make_node(taken ? "Neg" : "Exp", {value}, {result});
      *branches[taken].add_output() = onnx::make_value_info(result, kFloat, nullptr);
    }
    model.node("Size", {value}, {"s" + number});
    model.node("Cast", {"s" + number}, {"c" + number}, {onnx::int_attribute("to", kBool)});
    model.node("If", {"c" + number}, {next},
               {onnx::graph_attribute("then_branch", branches[1]), onnx::graph_attribute("else_branch", branches[0])});
    value = next;
  }
  model.output(value, kFloat);
  const auto graph = import(model);
  EXPECT_EQ(std::count_if(graph->body.nodes.begin(), graph->body.nodes.end(), [](const Node* node) { return node->op == Op::neg_; }), 4000);
}

// Each condition is computed from sizes that were computed before: what is known of them is kept. 12000 nodes: a second, where it was half a minute.
TEST_F(ImportOnnx, SizesComputedFromSizesInARow) {
  constexpr int kLayers = 2000;
  ModelBuilder model;
  model.input("x", kFloat, {4, 6});
  model.int64s("zero", {1}, {0});
  model.int64s("rest", {1}, {-1});
  model.int64s("four", {1}, {4});
  std::string value = "x";
  for (int i = 0; i < kLayers; ++i) {
    const std::string number = std::to_string(i), next = "y" + number, reshaped = "r" + number;
    pb::GraphProto branches[2];
    for (const bool taken : {false, true}) {
      branches[taken].set_name("branch");
      const std::string result = (taken ? "t" : "e") + number;
      *branches[taken].add_node() = onnx::make_node(taken ? "Neg" : "Exp", {reshaped}, {result});
      *branches[taken].add_output() = onnx::make_value_info(result, kFloat, nullptr);
    }
    model.node("Shape", {value}, {"s" + number});
    model.node("Gather", {"s" + number, "zero"}, {"g" + number}, {onnx::int_attribute("axis", 0)});
    model.node("Concat", {"rest", "g" + number}, {"c" + number}, {onnx::int_attribute("axis", 0)});  // [4, 6] becomes [6, 4]
    model.node("Reshape", {value, "c" + number}, {reshaped});
    model.node("Equal", {"g" + number, "four"}, {"is_four" + number});
    model.node("If", {"is_four" + number}, {next},
               {onnx::graph_attribute("then_branch", branches[1]), onnx::graph_attribute("else_branch", branches[0])});
    value = next;
  }
  model.output(value, kFloat);
  const auto graph = import(model);
  const auto count = [&](Op op) { return std::ranges::count_if(graph->body.nodes, [&](const Node* node) { return node->op == op; }); };
  EXPECT_EQ(count(Op::neg_), kLayers / 2);
  EXPECT_EQ(count(Op::exp_), kLayers / 2);
}

/// x: f32[2, 12] reshaped to [2, 4, 3] by sizes that are computed from its own: the graph doesn't say the rank of `r`.
ModelBuilder reshaped_model(int64_t opset) {
  ModelBuilder model(opset);
  model.input("x", kFloat, {2, 12});
  model.int64s("one", {1}, {1});
  model.int64s("rest", {2}, {4, -1});
  model.int64s("zero", {1}, {0});
  model.node("Shape", {"x"}, {"s"});
  model.node("Gather", {"s", "zero"}, {"batch"}, {onnx::int_attribute("axis", 0)});
  model.node("Concat", {"batch", "rest"}, {"sizes"}, {onnx::int_attribute("axis", 0)});
  model.node("Reshape", {"x", "sizes"}, {"r"});
  model.output("y", kFloat);
  return model;
}

// What an op needs to know of an operand's sizes may follow from shape arithmetic.
TEST_F(ImportOnnx, RanksThatFollowFromSizes) {
  const auto type_of_result = [&](const ModelBuilder& model) {
    const auto graph = import(model);
    Diagnostics diagnostics;
    resolve(*graph, diagnostics);
    diagnostics.checkpoint();
    return to_string(graph->body.results.at(0)->type);
  };
  ModelBuilder reversed = reshaped_model(18);
  reversed.int64s("lengths", {2}, {4, 2});
  reversed.node("ReverseSequence", {"r", "lengths"}, {"y"}, {onnx::int_attribute("time_axis", 1), onnx::int_attribute("batch_axis", 0)});
  EXPECT_EQ(type_of_result(reversed), "f32[2, 4, 3]");

  ModelBuilder blocks = reshaped_model(21);  // a scale for each 2 elements of axis 1
  blocks.floats("scale", {2, 2, 3}, std::vector<float>(12, 0.5F));
  blocks.node("QuantizeLinear", {"r", "scale"}, {"y"}, {onnx::int_attribute("axis", 1), onnx::int_attribute("block_size", 2)});
  blocks.graph().mutable_output()->Clear();
  blocks.output("y", pb::TensorProto::UINT8);
  EXPECT_EQ(type_of_result(blocks), "u8[2, 4, 3]");

  ModelBuilder slopes = reshaped_model(6);  // one per channel
  slopes.floats("slope", {4}, {1, 2, 3, 4});
  slopes.node("PRelu", {"r", "slope"}, {"y"});
  EXPECT_EQ(type_of_result(slopes), "f32[2, 4, 3]");

  ModelBuilder computed = reshaped_model(6);  // the rank of the slopes is computed, too
  computed.floats("slope", {2, 2}, {1, 2, 3, 4});
  computed.int64s("all", {1}, {-1});
  computed.node("Reshape", {"slope", "all"}, {"flat"});
  computed.node("PRelu", {"r", "flat"}, {"y"});
  EXPECT_EQ(type_of_result(computed), "f32[2, 4, 3]");
}

TEST_F(ImportOnnx, RanksThatDependOnData) {
  ModelBuilder model;
  model.input("x", kFloat, {2, 12});
  model.input("sizes", kInt64, {3});
  model.int64s("lengths", {2}, {4, 2});
  model.node("Reshape", {"x", "sizes"}, {"r"});
  model.node("ReverseSequence", {"r", "lengths"}, {"y"}, {onnx::int_attribute("time_axis", 1), onnx::int_attribute("batch_axis", 0)});
  model.output("y", kFloat);
  try {
    import(model);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the rank of operand `r` is not known while importing [unknown-value]"), std::string::npos)
        << error.what();
  }
  ImportOptions options;
  options.known.inputs["sizes"] = Tensor::from_ints({2, 4, 3});
  EXPECT_EQ(import(model, options)->body.results.size(), 1U);
}

TEST_F(ImportOnnx, EveryFormOfTensor) {
  ModelBuilder model;
  auto add = [&](const std::string& name, int type, std::vector<int64_t> shape) -> pb::TensorProto& {
    auto& tensor = *model.graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(type);
    for (const int64_t extent : shape) tensor.add_dims(extent);
    model.node("Identity", {name}, {name + "_out"});
    model.output(name + "_out", type);
    return tensor;
  };
  auto& half = add("half", pb::TensorProto::FLOAT16, {2});
  half.add_int32_data(0x3c00);
  half.add_int32_data(0xc000);
  auto& brain = add("brain", pb::TensorProto::BFLOAT16, {1});
  brain.add_int32_data(0x4049);
  auto& f8 = add("f8", pb::TensorProto::FLOAT8E4M3FN, {1});
  f8.add_int32_data(0x38);
  auto& nibbles = add("nibbles", pb::TensorProto::INT4, {3});
  nibbles.add_int32_data(0xF1);  // 1, -1
  nibbles.add_int32_data(0x07);  // 7
  auto& flags = add("flags", kBool, {2});
  flags.add_int32_data(1);
  flags.add_int32_data(0);
  auto& wide = add("wide", pb::TensorProto::UINT32, {1});
  wide.add_uint64_data(4000000000U);
  auto& raw = add("raw", kInt64, {1});
  raw.set_raw_data(std::string("\x05\0\0\0\0\0\0\0", 8));
  add("scalar", kFloat, {}).add_float_data(2.5F);

  const auto graph = import(model);
  auto tensor = [&](const char* name) { return graph->find_weight(name)->weight->tensor; };
  EXPECT_EQ(tensor("half").as_double(0), 1);
  EXPECT_EQ(tensor("half").as_double(1), -2);
  EXPECT_NEAR(tensor("brain").as_double(0), 3.14, 0.01);
  EXPECT_EQ(tensor("f8").as_double(0), 1);
  EXPECT_EQ(tensor("nibbles").as_int64(0), 1);
  EXPECT_EQ(tensor("nibbles").as_int64(1), -1);
  EXPECT_EQ(tensor("nibbles").as_int64(2), 7);
  EXPECT_EQ(tensor("flags").as_int64(0), 1);
  EXPECT_EQ(tensor("wide").as_int64(0), 4000000000);
  EXPECT_EQ(tensor("raw").as_int64(0), 5);
  EXPECT_EQ(tensor("scalar").rank(), 0);
}

TEST_F(ImportOnnx, SparseConstantsBecomeDense) {
  ModelBuilder model;
  auto& sparse = *model.graph().add_sparse_initializer();
  sparse.mutable_values()->set_name("s");
  sparse.mutable_values()->set_data_type(kFloat);
  sparse.mutable_values()->add_dims(2);
  sparse.mutable_values()->add_float_data(5);
  sparse.mutable_values()->add_float_data(7);
  sparse.mutable_indices()->set_data_type(kInt64);
  for (const int64_t extent : {2, 2}) sparse.mutable_indices()->add_dims(extent);
  for (const int64_t index : {0, 1, 1, 2}) sparse.mutable_indices()->add_int64_data(index);
  for (const int64_t extent : {2, 3}) sparse.add_dims(extent);
  model.node("Identity", {"s"}, {"y"});
  model.output("y", kFloat);
  const auto graph = import(model);
  const Tensor dense = graph->find_weight("s")->weight->tensor;
  ASSERT_EQ(dense.shape(), (Shape{2, 3}));
  for (int i = 0; i < 6; ++i) EXPECT_EQ(dense.as_double(i), i == 1 ? 5 : i == 5 ? 7 : 0);
}

TEST_F(ImportOnnx, ExternalDataIsMapped) {
  const float values[] = {1, 2, 3, 4};
  std::ofstream(folder_ / "w.bin", std::ios::binary).write(reinterpret_cast<const char*>(values), sizeof values);
  ModelBuilder model;
  model.external("a", {2}, "w.bin", "8", "8");
  model.external("b", {1}, "w.bin", "2");  // no element lies aligned there: copied
  model.node("Identity", {"a"}, {"y"});
  model.node("Identity", {"b"}, {"z"});
  model.output("y", kFloat);
  model.output("z", kFloat);
  const auto graph = import(model);
  EXPECT_EQ(graph->find_weight("a")->weight->tensor.as_double(0), 3);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(graph->find_weight("b")->weight->tensor.bytes()) % 4, 0U);
}

TEST_F(ImportOnnx, FilesReadAndBindingsAskedFor) {
  std::ofstream(folder_ / "w.bin", std::ios::binary) << std::string(16, '\0');
  ModelBuilder model = branch_model();
  model.graph().clear_initializer();
  model.input("two", kInt64, {});
  model.external("a", {2}, "w.bin", "8", "8");
  model.external("b", {2}, "w.bin", "0", "8");
  ImportOptions options;
  std::vector<std::string> files;
  options.files_read = &files;
  options.bindings = [](const Graph& signature, const std::vector<std::string>&) {
    EXPECT_EQ(signature.body.args.size(), 2U);
    Bindings known;
    known.inputs["two"] = Tensor::from_ints({2}).reshaped({});
    return known;
  };
  EXPECT_EQ(import(model, options)->body.results[0]->producer->op, Op::neg_);
  EXPECT_EQ(files, std::vector<std::string>{(folder_ / "w.bin").string()});
}

TEST_F(ImportOnnx, TensorFiles) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    Tensor tensor(dtype, {3});
    for (int64_t k = 0; k < 3; ++k) tensor.set_int64(k, k == 1 ? 1 : 0);
    const std::string path = (folder_ / "t.pb").string();
    write_tensor_proto(path, tensor, "t");
    EXPECT_TRUE(read_tensor_proto(path).same_bytes(tensor)) << name_of(dtype);
  }
}

TEST_F(ImportOnnx, EqualSymbolsAndUnknownRanks) {
  ModelBuilder model;
  auto& x = *model.graph().add_input() = onnx::make_value_info("x", kFloat, nullptr);
  auto* shape = x.mutable_type()->mutable_tensor_type()->mutable_shape();
  shape->add_dim()->set_dim_param("batch");
  shape->add_dim()->set_dim_value(3);
  shape->add_dim();
  *model.graph().add_input() = onnx::make_value_info("u", kFloat, nullptr);
  model.node("Relu", {"x"}, {"y"});
  model.node("Relu", {"u"}, {"v"});
  model.output("y", kFloat);
  model.output("v", kFloat);
  const auto graph = import(model);
  EXPECT_EQ(graph->body.args[0]->type.dims[0], Dim(std::string("batch")));
  EXPECT_EQ(graph->body.args[0]->type.dims[1], Dim(3));
  EXPECT_FALSE(graph->body.args[0]->type.dims[2].is_constant());
  EXPECT_FALSE(graph->body.args[1]->type.ranked);
}

}  // namespace
}  // namespace tcc
