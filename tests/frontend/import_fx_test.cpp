// Captured programs: what each operator computes (fx_cases.json and fx_training_cases.json, written by make_fx_cases.py, hold what the framework
// computed), and what is refused.
#include <gtest/gtest.h>
#include <minizip/zip.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "frontend/fx/importer.h"
#include "frontend/fx_cases.h"
#include "frontend/import_text.h"
#include "tcc/frontend/import.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/verify.h"
#include "tcc/support/files.h"
#include "unit/scratch.h"

namespace tcc {
namespace {

using Json = nlohmann::json;

using testing::compare;
using testing::tensor_of;

const Json& cases() { return testing::fx_cases(); }

using testing::import_text;

class FxCases : public ::testing::TestWithParam<size_t> {};

TEST_P(FxCases, ComputeWhatTheFrameworkComputes) {
  const Json& one = cases().at(GetParam());
  for (const Json& program : one.at("programs")) {
    std::unique_ptr<Graph> graph;
    try {
      graph = import_text(program.dump());
    } catch (const Error& error) { FAIL() << error.what(); }
    EXPECT_EQ(verify(*graph, GraphStage::resolved), std::vector<std::string>());
    ASSERT_EQ(graph->body.results.size(), one.at("outputs").size());
    const std::vector<Tensor> outputs = interpret(*graph, testing::inputs_of(one, *graph), true);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Tensor expected = tensor_of(one.at("outputs")[i]);
      EXPECT_EQ(graph->body.results[i]->type.dtype, expected.dtype());
      EXPECT_EQ(outputs[i].shape(), expected.shape());
      compare(outputs[i], expected, "output " + std::to_string(i));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, FxCases, ::testing::Range<size_t>(0, cases().size()), [](const auto& info) {
  std::string name = cases().at(info.param).at("name").template get<std::string>();
  std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

// ---- what is refused

/// One small program, to be changed: y = relu(x) with x: f32[s0, 3].
Json small_program() {
  return Json::parse(R"json({
    "graph_module": {
      "graph": {
        "inputs": [{"as_tensor": {"name": "x"}}],
        "outputs": [{"as_tensor": {"name": "y"}}],
        "nodes": [{"target": "torch.ops.aten.relu.default", "name": "y",
                   "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "x"}}, "kind": 1}],
                   "outputs": [{"as_tensor": {"name": "y"}}]}],
        "tensor_values": {"x": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": "Symbol('s0', positive=True, integer=True)"}}, {"as_int": 3}]},
                          "y": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": "s0"}}, {"as_int": 3}]}}
      },
      "signature": {"input_specs": [{"user_input": {"arg": {"as_tensor": {"name": "x"}}}}],
                    "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "y"}}}}]}
    },
    "range_constraints": {"s0": {"min_val": 2, "max_val": 8}},
    "schema_version": {"major": 8, "minor": 17}, "torch_version": "2.11.0"})json");
}

ImportOptions with_rows(int64_t rows) {
  ImportOptions options;
  options.known.shapes["x"] = {rows, 3};
  return options;
}

std::string refusal(const Json& program, const ImportOptions& options) {
  return testing::error_of(ExitCode::model, [&] { import_text(program.dump(), options); });
}

void expect_contains(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks: " << part;
}

TEST(FxSizes, AreBoundByShapes) {
  const auto graph = import_text(small_program().dump(), with_rows(4));
  EXPECT_EQ(graph->body.results[0]->type, Type(DType::f32, {4, 3}));
  expect_contains(refusal(small_program(), {}), "[unbound-size]");
  expect_contains(refusal(small_program(), with_rows(9)), "the size `s0` is 9, the program was captured for 2 to 8 [type-error]");
}

TEST(FxSizes, AreExpressions) {
  Json program = small_program();
  Json& graph = program["graph_module"]["graph"];
  graph["nodes"][0]["target"] = "torch.ops.aten.repeat.default";
  graph["nodes"][0]["inputs"].push_back({{"name", "repeats"}, {"arg", {{"as_ints", {2, 1}}}}, {"kind", 1}});
  graph["tensor_values"]["y"]["sizes"][0]["as_expr"]["expr_str"] = "Mul(Integer(2), Symbol('s0', integer=True))";
  EXPECT_EQ(import_text(program.dump(), with_rows(4))->body.results[0]->type, Type(DType::f32, {8, 3}));
  graph["tensor_values"]["y"]["sizes"][0]["as_expr"]["expr_str"] = "Add(Symbol('s0'), FloorDiv(Symbol('s0'), Integer(2)))";
  expect_contains(refusal(program, with_rows(4)), "result `y` is f32[8, 3], declared is f32[6, 3] [type-error]");
  for (const char* bad : {"Add(s0", "Add(,)", "FloorDiv(s0)", "", "Symbol(s0)", "Mul(s0, 99999999999999999999)"}) {
    graph["tensor_values"]["y"]["sizes"][0]["as_expr"]["expr_str"] = bad;
    expect_contains(refusal(program, with_rows(4)), "[malformed-file]");
  }
  graph["tensor_values"]["y"]["sizes"][0]["as_expr"]["expr_str"] = "Log(s0)";
  expect_contains(refusal(program, with_rows(4)), "a size is computed by `Log` [unsupported-op]");
}

TEST(FxRefusals, NameTheNode) {
  Json program = small_program();
  Json& node = program["graph_module"]["graph"]["nodes"][0];
  node["target"] = "torch.ops.aten.fft_fft.default";
  expect_contains(refusal(program, with_rows(4)), ":y: error: not supported yet: operator `aten.fft_fft.default` [unsupported-op]");
  node["target"] = "torch.ops.mylib.sharpen.default";
  expect_contains(refusal(program, with_rows(4)), "operator `mylib.sharpen.default` [unsupported-op]");
  expect_contains(refusal(program, with_rows(4)), ":y: help: it is not one of torch's own (aten)");
  node["target"] = "torch.ops.higher_order.flex_attention";
  expect_contains(refusal(program, with_rows(4)), "higher-order operator `flex_attention` [unsupported-control-flow]");
  node["target"] = "torch.ops.higher_order.while_loop";
  expect_contains(refusal(program, with_rows(4)), "argument 0 of `hop.while_loop` is not a graph [malformed-file]");
  node["target"] = "torch.ops.aten.softmax.int";
  expect_contains(refusal(program, with_rows(4)), "argument `dim` of aten.softmax.int is missing [malformed-file]");
  node["inputs"].push_back({{"name", "dim"}, {"arg", {{"as_int", 5}}}, {"kind", 1}});
  const std::string message = refusal(program, with_rows(4));
  expect_contains(message, "axis 5 is asked for, the rank is 2 [type-error]");
  expect_contains(message, "  %y = aten.softmax.int(self=%x: f32[4, 3], dim=5)");
  node["inputs"][1] = {{"name", "way"}, {"arg", {{"as_int", 5}}}, {"kind", 1}};
  expect_contains(refusal(program, with_rows(4)), "argument `way` of aten.softmax.int [unsupported-attribute]");
  node["inputs"][0]["arg"]["as_tensor"]["name"] = "nobody";
  node["inputs"].erase(1);
  node["target"] = "torch.ops.aten.relu.default";
  expect_contains(refusal(program, with_rows(4)), "`nobody` is made by no node and is not an input [malformed-file]");
}

TEST(FxRefusals, NameAnOperatorOnce) {
  Json program = small_program();
  Json& nodes = program["graph_module"]["graph"]["nodes"];
  nodes[0]["target"] = "torch.ops.aten.fft_fft.default";
  for (const char* name : {"a", "b", "c"}) {
    nodes.push_back(nodes[0]);
    nodes.back()["name"] = nodes.back()["outputs"][0]["as_tensor"]["name"] = name;
  }
  expect_contains(refusal(program, with_rows(4)),
                  ":y: error: not supported yet: operator `aten.fft_fft.default`, 4 nodes: `y`, `a`, `b` and 1 more [unsupported-op]");
  expect_contains(refusal(program, with_rows(4)), ":y: help: save what program.run_decompositions() returns");
  ImportOptions options = with_rows(4);
  options.report_every_node = true;
  expect_contains(refusal(program, options), ":c: error: not supported yet: operator `aten.fft_fft.default` [unsupported-op]");
}

/// Each graph calls the one before it twice: 2^depth nodes are meant by 2 * depth.
fx::Program program_of_doubling_graphs(int depth) {
  fx::Program program;
  program.graph.inputs = {"x"};
  program.graph.outputs = {{fx::ValueName{"b"}}};
  program.graph.tensors["x"] = {.dtype = DType::f32, .sizes = {fx::SizeExpr(2)}};
  program.inputs = {{.name = "x"}};
  program.outputs = {{.value = {fx::ValueName{"b"}}}};
  fx::ProgramGraph graph = program.graph;
  graph.nodes = {{"b", "aten.relu.default", {{"self", {fx::ValueName{"x"}}}}, {{false, {"b"}}}}};
  for (int i = 0; i < depth; ++i) {
    const auto inner = std::make_shared<const fx::ProgramGraph>(graph);
    const auto call = [&](const std::string& from, const std::string& to) {
      return fx::ProgramNode{to, "hop.wrap", {{"", {inner}}, {"", {fx::ValueName{from}}}}, {{false, {to}}}};
    };
    graph.nodes = {call("x", "a"), call("a", "b")};
  }
  program.graph = graph;
  return program;
}

TEST(FxRefusals, GraphsThatDouble) {
  const auto import = [](int depth) {
    const fx::WeightSource none = [](const fx::InputSpec&, const fx::TensorMeta&) { return std::optional<Tensor>(); };
    const fx::Program program = program_of_doubling_graphs(depth);
    Diagnostics diagnostics;
    const ImportOptions options;
    return fx::Importer(program, "net", none, options, diagnostics).run();
  };
  EXPECT_EQ(import(10)->body.nodes.size(), 1u << 10);
  expect_contains(testing::error_of(ExitCode::model, [&] { import(40); }),
                  "net: error: inlining the model's functions makes 3.299e+12 nodes, the most is 262144 [too-complex]");
  expect_contains(testing::error_of(ExitCode::model, [&] { import(300); }), "are nested more than 200 deep, in `hop.wrap` for one");
}

TEST(FxRefusals, AreOfEveryIndependentFault) {
  Json program = small_program();
  Json& nodes = program["graph_module"]["graph"]["nodes"];
  Json second = nodes[0], third = nodes[0];
  nodes[0]["target"] = "torch.ops.aten.softmax.int";
  second["target"] = "torch.ops.aten.select.int";
  second["name"] = "z";
  second["outputs"][0]["as_tensor"]["name"] = "z";
  third["name"] = "of_y";
  third["inputs"][0]["arg"]["as_tensor"]["name"] = "y";
  third["outputs"][0]["as_tensor"]["name"] = "of_y";
  nodes.push_back(second);
  nodes.push_back(third);
  const std::string message = refusal(program, with_rows(4));
  expect_contains(message, "argument `dim` of aten.softmax.int is missing");
  expect_contains(message, "argument `dim` of aten.select.int is missing");
  EXPECT_EQ(message.find("of_y"), std::string::npos) << "what reads a faulty result has no fault of its own";
}

TEST(FxRefusals, ChangesOfState) {
  Json program = small_program();
  program["graph_module"]["graph"]["nodes"][0]["target"] = "torch.ops.aten.relu_.default";
  EXPECT_EQ(import_text(program.dump(), with_rows(4))->output_names, (std::vector<std::string>{"y", "new.x"}));
  program = small_program();
  Json& outputs = program["graph_module"]["signature"]["output_specs"];
  const Json change = {{"buffer_mutation", {{"arg", {{"name", "y"}}}, {"buffer_name", "b"}}}};
  outputs[0] = change;
  expect_contains(refusal(program, with_rows(4)), "the program changes `b`, which is none of its buffers and parameters [malformed-file]");
  outputs[0] = {{"user_input_mutation", {{"arg", {{"name", "y"}}}, {"user_input_name", "z"}}}};
  expect_contains(refusal(program, with_rows(4)), "the program changes `z`, which is none of its inputs [malformed-file]");
  outputs[0]["user_input_mutation"]["user_input_name"] = "x";
  EXPECT_EQ(import_text(program.dump(), with_rows(4))->output_names, std::vector<std::string>{"new.x"});
  outputs.push_back(outputs[0]);
  program["graph_module"]["graph"]["outputs"].push_back(program["graph_module"]["graph"]["outputs"][0]);
  expect_contains(refusal(program, with_rows(4)), "the program changes `x` twice, or to nothing [malformed-file]");
  // Of another type than the buffer, which has no bytes here and so is an input.
  program = small_program();
  Json& graph = program["graph_module"]["graph"];
  graph["inputs"].push_back({{"as_tensor", {{"name", "b_b"}}}});
  graph["tensor_values"]["b_b"] = {{"dtype", 7}, {"sizes", {{{"as_int", 3}}}}};
  program["graph_module"]["signature"]["input_specs"].push_back(
      {{"buffer", {{"arg", {{"name", "b_b"}}}, {"buffer_name", "b"}, {"persistent", true}}}});
  program["graph_module"]["signature"]["output_specs"][0] = change;
  expect_contains(refusal(program, with_rows(4)), "`b` is f32[3], the program leaves f32[4, 3] in it [type-error]");
}

TEST(FxRefusals, WritesThroughExpandedViews) {
  Json program = small_program();
  Json& graph = program["graph_module"]["graph"];
  Json expand = graph["nodes"][0], add = graph["nodes"][0];
  graph["nodes"][0]["name"] = graph["nodes"][0]["outputs"][0]["as_tensor"]["name"] = "c";
  expand["target"] = "torch.ops.aten.expand.default";
  expand["inputs"][0]["arg"]["as_tensor"]["name"] = "c";
  expand["inputs"].push_back({{"name", "size"}, {"arg", {{"as_ints", {2, -1, -1}}}}, {"kind", 1}});
  expand["outputs"][0]["as_tensor"]["name"] = "e";
  add["target"] = "torch.ops.aten.neg_.default";
  add["inputs"][0]["arg"]["as_tensor"]["name"] = "e";
  graph["tensor_values"].erase("y");
  graph["nodes"].push_back(expand);
  graph["nodes"].push_back(add);
  expect_contains(refusal(program, with_rows(4)), "a write in place through a view whose elements share memory");
}

TEST(FxRefusals, OtherSchemas) {
  Json program = small_program();
  program["schema_version"]["major"] = 9;
  expect_contains(refusal(program, with_rows(4)),
                  "the program is of schema 9, written by torch 2.11.0; 5 to 8 are read [unsupported-format]");
  program = small_program();
  program["graph_module"]["graph"].erase("nodes");
  expect_contains(refusal(program, with_rows(4)), "`nodes` is missing [malformed-file]");
  expect_contains(testing::error_of(ExitCode::model, [] { import_text("{\"graph_module\": "); }), "not JSON");
}

/// y = wrap(graph, x), where the graph is that of the small program with what `change` makes of it.
Json wrapping_program(const std::function<void(Json& inner)>& change) {
  Json program = small_program();
  Json inner = program["graph_module"]["graph"];
  inner["inputs"][0]["as_tensor"]["name"] = inner["nodes"][0]["inputs"][0]["arg"]["as_tensor"]["name"] = "x_inside";
  change(inner);
  Json& node = program["graph_module"]["graph"]["nodes"][0];
  node["target"] = "torch.ops.higher_order.wrap";
  node["inputs"] = {{{"name", ""}, {"arg", {{"as_graph", {{"name", "g"}, {"graph", inner}}}}}, {"kind", 1}},
                    {{"name", ""}, {"arg", {{"as_tensor", {{"name", "x"}}}}}, {"kind", 1}}};
  return program;
}

TEST(FxRefusals, OfGraphsInGraphs) {
  EXPECT_EQ(import_text(wrapping_program([](Json&) {}).dump(), with_rows(4))->body.nodes.size(), 1u);
  const auto refusal_of = [](const std::function<void(Json&)>& change) { return refusal(wrapping_program(change), with_rows(4)); };
  expect_contains(refusal_of([](Json& inner) { inner["inputs"].clear(); }), "a graph of 0 inputs is called with 1 operands");
  expect_contains(refusal_of([](Json& inner) { inner["outputs"].push_back(inner["outputs"][0]); }), "a graph of 2 outputs is called for 1");
  // What nobody makes is a fault of its own, not the result of one.
  expect_contains(refusal_of([](Json& inner) { inner["outputs"][0]["as_tensor"]["name"] = "nobody"; }),
                  ":y: error: output `nobody` of a graph is made by no node and is not an input [malformed-file]");
  const std::string inside = refusal_of([](Json& inner) { inner["nodes"][0]["target"] = "torch.ops.aten.softmax.int"; });
  expect_contains(inside, "argument `dim` of aten.softmax.int is missing");
  EXPECT_EQ(inside.find("output `y`"), std::string::npos) << "the fault is said once: " << inside;
}

/// y = relu(x) where the predicate holds, else neg(x). The nodes that make it stand in front; `predicate` is the argument.
Json cond_program(const Json& nodes_before, const Json& predicate) {
  Json program = small_program();
  Json& graph = program["graph_module"]["graph"];
  Json branches[2];
  for (const bool holds : {false, true}) {
    Json branch = graph;
    branch["inputs"][0]["as_tensor"]["name"] = branch["nodes"][0]["inputs"][0]["arg"]["as_tensor"]["name"] = "x_inside";
    branch["nodes"][0]["target"] = holds ? "torch.ops.aten.relu.default" : "torch.ops.aten.neg.default";
    branches[holds] = {{"name", ""}, {"arg", {{"as_graph", {{"name", "g"}, {"graph", branch}}}}}, {"kind", 1}};
  }
  Json cond = graph["nodes"][0];
  cond["target"] = "torch.ops.higher_order.cond";
  cond["inputs"] = {{{"name", ""}, {"arg", predicate}, {"kind", 1}},
                    branches[true],
                    branches[false],
                    {{"name", ""}, {"arg", {{"as_tensors", {{{"name", "x"}}}}}}, {"kind", 1}}};
  graph["nodes"] = nodes_before;
  graph["nodes"].push_back(cond);
  return program;
}

/// p = (size of axis 0 of x) > 3
Json is_large_program() {
  const Json size = {{"target", "torch.ops.aten.sym_size.int"},
                     {"name", "n"},
                     {"inputs",
                      {{{"name", "self"}, {"arg", {{"as_tensor", {{"name", "x"}}}}}, {"kind", 1}},
                       {{"name", "dim"}, {"arg", {{"as_int", 0}}}, {"kind", 1}}}},
                     {"outputs", {{{"as_sym_int", {{"as_name", "n"}}}}}}};
  const Json compare = {
      {"target", "_operator.gt"},
      {"name", "p"},
      {"inputs",
       {{{"name", ""}, {"arg", {{"as_sym_int", {{"as_name", "n"}}}}}, {"kind", 1}}, {{"name", ""}, {"arg", {{"as_int", 3}}}, {"kind", 1}}}},
      {"outputs", {{{"as_sym_bool", {{"as_name", "p"}}}}}}};
  return cond_program({size, compare}, {{"as_sym_bool", {{"as_name", "p"}}}});
}

TEST(FxCond, TakesTheBranchOfAKnownSize) {
  const auto op_of = [](const Graph& graph) { return graph.body.results[0]->producer->op; };
  EXPECT_EQ(op_of(*import_text(is_large_program().dump(), with_rows(4))), Op::relu_);
  EXPECT_EQ(op_of(*import_text(is_large_program().dump(), with_rows(3))), Op::neg_);
}

TEST(FxCond, TakesTheBranchOfAnInputThatIsBound) {
  Json program = cond_program(Json::array(), {{"as_tensor", {{"name", "flag"}}}});
  Json& module = program["graph_module"];
  module["graph"]["inputs"].push_back({{"as_tensor", {{"name", "flag"}}}});
  module["graph"]["tensor_values"]["flag"] = {{"dtype", 12}, {"sizes", Json::array()}};
  module["signature"]["input_specs"].push_back({{"user_input", {{"arg", {{"as_tensor", {{"name", "flag"}}}}}}}});
  for (const bool holds : {false, true}) {
    ImportOptions options = with_rows(4);
    options.known.inputs["flag"] = Tensor::from_ints({holds ? 1 : 0}).cast_to(DType::boolean).reshaped({});
    EXPECT_EQ(import_text(program.dump(), options)->body.results[0]->producer->op, holds ? Op::relu_ : Op::neg_);
  }
  // Without, both are computed, and one is chosen.
  EXPECT_EQ(import_text(program.dump(), with_rows(4))->body.results[0]->producer->op, Op::select_);
}

TEST(FxCond, LooksAtTheBranchThatIsTaken) {
  Json program = is_large_program();
  Json& then_branch = program["graph_module"]["graph"]["nodes"][2]["inputs"][1]["arg"]["as_graph"]["graph"];
  then_branch["nodes"][0]["target"] = "torch.ops.aten.fft_fft.default";
  EXPECT_EQ(import_text(program.dump(), with_rows(3))->body.nodes.size(), 1u);
  expect_contains(refusal(program, with_rows(4)), ":y: error: not supported yet: operator `aten.fft_fft.default` [unsupported-op]");
  Json& node = program["graph_module"]["graph"]["nodes"][2];
  node["inputs"][1]["arg"] = {{"as_int", 1}};
  expect_contains(refusal(program, with_rows(4)), "argument 1 of `hop.cond` is not a graph [malformed-file]");
  node["inputs"] = Json::array();
  expect_contains(refusal(program, with_rows(4)), "argument 1 of `hop.cond` is not a graph [malformed-file]");
}

TEST(FxRefusals, DeepGraphs) {
  Json inner = small_program()["graph_module"]["graph"];
  for (int i = 0; i < 100; ++i) {
    Json outer = inner;
    outer["nodes"][0]["target"] = "torch.ops.higher_order.wrap";
    outer["nodes"][0]["inputs"][0] = {{"name", ""}, {"arg", {{"as_graph", {{"name", "g"}, {"graph", inner}}}}}, {"kind", 1}};
    inner = outer;
  }
  Json program = small_program();
  program["graph_module"]["graph"] = inner;
  expect_contains(refusal(program, with_rows(4)), "graphs nest more than 32 deep [malformed-file]");
}

// ---- which reader a file goes to

TEST(FxKinds, ByContentAndByWhatTheUserSays) {
  const std::string onnx = read_text_file(std::string(TCC_MODELS_DIR) + "/mnist_mlp/dynamo.onnx");
  const std::string archive = read_text_file(std::string(TCC_MODELS_DIR) + "/mnist_mlp/model.pt2");
  const std::string other_onnx = "the bytes are not an ONNX model", no_program = "this is not a captured program of torch, -x says ";
  struct Row {
    std::string bytes, by_content, as_onnx, as_pt2, as_fx;  // parts of the message; empty: it is imported
  };
  const Row rows[] = {
      {onnx, "", "", no_program + "pt2", no_program + "fx"},
      {archive, "", other_onnx, "", "this is a torch.export archive (.pt2), -x says fx"},
      {small_program().dump(), "[unbound-size]", other_onnx, "[unbound-size]", "the key `graph_module` is not one of `format`"},
      {R"({"format": "tcc.fx"})", "`version` is missing", other_onnx, "this is tcc.fx JSON, -x says pt2", "`version` is missing"},
      {"\x93NUMPY", "this is a NumPy array (.npy)", other_onnx, "this is a NumPy array (.npy)", "this is a NumPy array (.npy)"},
  };
  const testing::ScratchFolder folder;
  const std::string path = folder / "model";  // names say nothing
  for (const Row& row : rows) {
    std::ofstream(path, std::ios::binary) << row.bytes;
    for (const auto& [kind, expected] :
         std::map<std::string, std::string>{{"", row.by_content}, {"onnx", row.as_onnx}, {"pt2", row.as_pt2}, {"fx", row.as_fx}}) {
      ImportOptions options;
      options.format = kind;
      std::string message;
      try {
        Diagnostics diagnostics;
        import_model(path, options, diagnostics);
      } catch (const Error& error) { message = error.what(); }
      if (expected.empty()) EXPECT_EQ(message, "") << "-x " << kind;
      else expect_contains(message, expected);
    }
  }
  EXPECT_EQ(model_kinds(), (std::vector<std::string>{"onnx", "pt2", "fx"}));
}

// ---- archives

std::string real_archive() { return read_text_file(std::string(TCC_MODELS_DIR) + "/mnist_mlp/model.pt2"); }

TEST(FxArchives, DamageIsFound) {
  const std::string archive = real_archive();
  EXPECT_NO_THROW(import_text(archive));
  std::mt19937 random(7);
  for (size_t length : {size_t{4}, size_t{100}, archive.size() / 2, archive.size() - 200}) {
    testing::error_of(ExitCode::model, [&] { import_text(archive.substr(0, length)); });
  }
  for (int i = 0; i < 300; ++i) {
    std::string damaged = archive;
    damaged[random() % damaged.size()] ^= static_cast<char>(1 << random() % 8);
    try {
      import_text(damaged);
    } catch (const Error& error) { EXPECT_EQ(error.code(), ExitCode::model) << error.what(); }
  }
}

/// The kinds of zip that hold no program of torch.export, by the entries that tell them.
TEST(FxArchives, OthersAreToldApart) {
  const std::pair<const char*, const char*> kinds[] = {{"a/data.pkl", "this is what torch.save wrote"},
                                                       {"a/constants.pkl", "this is a TorchScript archive"},
                                                       {"a/data/aotinductor/model/x.so", "this is a package of AOTInductor"},
                                                       {"a/serialized_exported_program.json", "this is an archive of torch 2.7 or older"},
                                                       {"a/b", "this is a zip archive"},
                                                       {"a/models/model.json/../../../b", "leaves the archive"},
                                                       {"/etc/models/model.json", "leaves the archive"}};
  for (const auto& [entry, message] : kinds) {
    const testing::ScratchFolder folder;
    zipFile zip = zipOpen64((folder / "a.pt2").c_str(), APPEND_STATUS_CREATE);
    ASSERT_EQ(zipOpenNewFileInZip64(zip, entry, nullptr, nullptr, 0, nullptr, 0, nullptr, Z_DEFLATED, 1, 0), ZIP_OK);
    zipWriteInFileInZip(zip, "{}", 2);
    zipCloseFileInZip(zip);
    zipClose(zip, nullptr);
    const std::string text = testing::error_of(ExitCode::model, [&] {
      Diagnostics diagnostics;
      import_model(folder / "a.pt2", {}, diagnostics);
    });
    expect_contains(text, message);
  }
}

// ---- attack

/// A random place of the tree.
Json& random_place(Json& json, std::mt19937& random) {
  Json* place = &json;
  while (place->is_structured() && !place->empty() && random() % 8 != 0) {
    auto child = place->begin();
    std::advance(child, random() % place->size());
    place = &*child;
  }
  return *place;
}

void mutate(Json& json, std::mt19937& random) {
  Json& place = random_place(json, random);
  switch (random() % 8) {
    case 0: place = nullptr; break;
    case 1: place = static_cast<int64_t>(random() % 16) - 8; break;
    case 2: place = int64_t{1} << random() % 63; break;
    case 3: place = -(int64_t{1} << random() % 63); break;
    case 4: place = "s0"; break;
    case 5: place = Json(random_place(json, random)); break;
    case 6:
      if (place.is_array() && !place.empty()) place.erase(place.begin() + static_cast<int64_t>(random() % place.size()));
      else place = 1e308;
      break;
    default:
      if (place.is_array() && !place.empty()) place.push_back(place[random() % place.size()]);
      else place = Json::array();
  }
}

/// Programs changed at random end in a graph that verifies or in an error of the model: no crash, no hang, no internal error. TCC_FUZZ_CASES says how
/// many are tried, TCC_FUZZ_SEED with which seed.
TEST(FxAttack, MutatedProgramsAreRefusedOrImported) {
  const char *count = std::getenv("TCC_FUZZ_CASES"), *seed = std::getenv("TCC_FUZZ_SEED");
  std::mt19937 random(seed == nullptr ? 7U : static_cast<unsigned>(std::atoi(seed)));
  for (int i = 0; i < (count == nullptr ? 2000 : std::atoi(count)); ++i) {
    const Json& one = cases().at(random() % cases().size());
    Json program = one.at("programs").at(random() % one.at("programs").size());
    const unsigned mutations = 1 + random() % 3;
    for (unsigned k = 0; k < mutations; ++k) mutate(program, random);
    try {
      const auto graph = import_text(program.dump());
      EXPECT_EQ(verify(*graph, GraphStage::resolved), std::vector<std::string>()) << program.dump();
    } catch (const Error& error) { ASSERT_EQ(error.code(), ExitCode::model) << error.what() << "\n" << program.dump(); }
  }
}

}  // namespace
}  // namespace tcc
