// tcc.fx JSON: programs of torch.export, said in it, are the same graphs; what is refused.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "frontend/import_text.h"
#include "fuzz/json_mutator.h"
#include "tcc/frontend/fx_json.h"
#include "tcc/frontend/import.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/verify.h"
#include "tcc/support/files.h"
#include "unit/scratch.h"

namespace tcc {
namespace {

using Json = nlohmann::json;

const Json& cases() {
  static const Json json = Json::parse(read_text_file(std::string(TCC_TEST_DATA_DIR) + "/fx_cases.json"));
  return json;
}

using testing::import_in;
using testing::import_text;

// ---- a program of torch.export, said in tcc.fx

std::string dtype_of(const Json& number) {
  static const std::map<int64_t, std::string> names = {{1, "u8"},  {2, "i8"},  {3, "i16"}, {4, "i32"},   {5, "i64"},
                                                       {6, "f16"}, {7, "f32"}, {8, "f64"}, {12, "bool"}, {13, "bf16"}};
  const auto found = names.find(number.get<int64_t>());
  return found == names.end() ? "torch_dtype_" + number.dump() : found->second;
}

Json sizes_of(const Json& sizes) {
  Json list = Json::array();
  for (const Json& size : sizes) list.push_back(size.at("as_int"));
  return list;
}

Json argument_of(const Json& argument) {
  const std::string kind = argument.begin().key();
  const Json& value = argument.begin().value();
  const auto each = [&](auto of) {
    Json list = Json::array();
    for (const Json& element : value) list.push_back(of(element));
    return list;
  };
  if (kind == "as_none") return nullptr;
  if (kind == "as_tensor") return {{"v", value.at("name")}};
  if (kind == "as_tensors") return each([](const Json& element) { return Json{{"v", element.at("name")}}; });
  if (kind == "as_optional_tensors" || kind == "as_sym_ints") return each(argument_of);
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool" || kind == "as_optional_tensor") return argument_of(value);
  if (kind == "as_name") return {{"v", value}};
  if (kind == "as_scalar_type") return {{"dtype", dtype_of(value)}};
  if (kind == "as_device") return {{"device", "cpu"}};
  if (kind == "as_layout" || kind == "as_memory_format") return {{kind.substr(3), "some"}};
  if ((kind == "as_float" || kind == "as_floats") && (value.is_string() || value.is_array())) {
    const auto number = [](const Json& one) -> Json {
      if (!one.is_string()) return one;
      const std::string text = one.get<std::string>();
      return {{"f", text == "Infinity" ? "inf" : text == "-Infinity" ? "-inf" : "nan"}};
    };
    return value.is_array() ? each(number) : number(value);
  }
  return value;  // numbers, texts, lists of them
}

/// Null when the program has what the test doesn't translate: graphs within it.
Json fx_of(const Json& program) {
  const Json& graph = program.at("graph_module").at("graph");
  if (graph.dump().find("as_graph") != std::string::npos) return nullptr;
  Json fx = {{"id", "model"},          {"role", "forward"},        {"inputs", Json::array()},
             {"nodes", Json::array()}, {"outputs", Json::array()}, {"values", Json::object()}};
  const auto declare = [&](const std::string& name) {
    if (!graph.at("tensor_values").contains(name)) {
      fx["values"][name] = {{"number", "i64"}};
      return;
    }
    const Json& meta = graph.at("tensor_values").at(name);
    fx["values"][name] = {{"dtype", dtype_of(meta.at("dtype"))}, {"shape", sizes_of(meta.at("sizes"))}};
    if (!meta.contains("strides")) return;
    fx["values"][name]["stride"] = sizes_of(meta.at("strides"));
    fx["values"][name]["storage_offset"] = meta.at("storage_offset").at("as_int");
  };
  for (const Json& spec : program.at("graph_module").at("signature").at("input_specs")) {
    const std::string kind = spec.begin().key();
    const Json& body = spec.begin().value();
    if (kind == "tensor_constant")
      fx["inputs"].push_back({{"name", body.at("arg").at("name")}, {"kind", "const"}, {"fqn", body.at("tensor_constant_name")}});
    else if (kind == "buffer")
      fx["inputs"].push_back({{"name", body.at("arg").at("name")}, {"kind", "buffer"}, {"fqn", body.at("buffer_name")}});
    else if (kind == "parameter")
      fx["inputs"].push_back({{"name", body.at("arg").at("name")}, {"kind", "param"}, {"fqn", body.at("parameter_name")}});
    else fx["inputs"].push_back({{"name", body.at("arg").at("as_tensor").at("name")}, {"kind", "user"}});
    declare(fx["inputs"].back().at("name"));
  }
  for (const Json& node : graph.at("nodes")) {
    std::string op = node.at("target");
    if (op.starts_with("torch.ops.")) op = op.substr(10);
    else if (op.starts_with("_operator.")) op = "sym." + op.substr(10);
    else return nullptr;
    Json out = {{"op", op}, {"args", Json::array()}, {"kwargs", Json::object()}, {"outs", Json::array()}};
    // The first by position, as far as the program has them in the schema's order; the others by name.
    for (const Json& input : node.at("inputs")) {
      if (out["args"].empty() && input.value("kind", 1) == 1) out["args"].push_back(argument_of(input.at("arg")));
      else if (input.at("name") == "") out["args"].push_back(argument_of(input.at("arg")));
      else out["kwargs"][input.at("name").get<std::string>()] = argument_of(input.at("arg"));
    }
    for (const Json& output : node.at("outputs")) {
      const std::string kind = output.begin().key();
      const Json& value = output.begin().value();
      const auto name = [&](const Json& one) {
        declare(one.at("name"));
        return one.at("name");
      };
      if (kind == "as_tensor") out["outs"].push_back(name(value));
      else if (kind == "as_none") out["outs"].push_back(nullptr);
      else if (kind == "as_tensors") {
        Json list = Json::array();
        for (const Json& element : value) list.push_back(name(element));
        out["outs"].push_back(list);
      } else if (value.contains("as_name")) {
        declare(value.at("as_name"));
        out["outs"].push_back(value.at("as_name"));
      } else {
        return nullptr;
      }
    }
    out["name"] = node.contains("name") ? node.at("name") : out["outs"][0];
    fx["nodes"].push_back(out);
  }
  for (const Json& spec : program.at("graph_module").at("signature").at("output_specs")) {
    if (spec.begin().key() != "user_output") return nullptr;
    const Json& argument = spec.begin().value().at("arg");
    if (!argument.contains("as_tensor")) return nullptr;
    fx["outputs"].push_back({{"value", argument.at("as_tensor").at("name")}, {"kind", "user"}});
  }
  return {{"format", "tcc.fx"}, {"version", {1, 0}}, {"entry", "model"}, {"graphs", {fx}}};
}

TEST(FxJson, ProgramsOfTorchExportAreTheSameGraphs) {
  int num_compared = 0, num_programs = 0;
  for (const Json& one : cases()) {
    for (const Json& program : one.at("programs")) {
      ++num_programs;
      const Json fx = fx_of(program);
      if (fx.is_null()) continue;
      ++num_compared;
      std::unique_ptr<Graph> expected, graph;
      try {
        expected = import_text(program.dump());
        graph = import_text(fx.dump());
      } catch (const Error& error) {
        ADD_FAILURE() << one.at("name") << "\n" << error.what() << "\n" << fx.dump();
        continue;
      }
      std::string why;
      EXPECT_TRUE(equal(*expected, *graph, &why)) << one.at("name") << ": " << why;
    }
  }
  EXPECT_GT(num_compared, num_programs * 9 / 10);
}

// ---- a small file, to be changed

/// y = relu(x @ w) with x: f32[s0, 3], w: f32[3, 2] of a file, s0 from 2 to 8.
Json small_file() {
  return Json::parse(R"json({
    "format": "tcc.fx", "version": [1, 0], "entry": "g",
    "symbols": {"s0": {"min": 2, "max": 8, "hint": 4}, "u0": {"min": null}},
    "weights": [{"fqn": "w", "file": "w.bin", "offset": 4, "length": 24, "dtype": "f32", "shape": [3, 2]}],
    "graphs": [{"id": "g", "role": "forward",
      "inputs": [{"name": "p_w", "kind": "param", "fqn": "w"}, {"name": "x", "kind": "user", "source": "L['x']"},
                 {"name": "k", "kind": "user", "value": 2, "source": "L['k']"}, {"name": "n", "kind": "user"}],
      "values": {"p_w": {"dtype": "f32", "shape": [3, 2]}, "x": {"dtype": "f32", "shape": ["s0", 3], "stride": ["3", 1]},
                 "k": {"number": "i64"}, "n": {"sym": "s0"},
                 "m": {"dtype": "f32", "shape": ["s0", 2]}, "y": {"dtype": "f32", "shape": ["s0", 2]}},
      "nodes": [{"name": "mm", "op": "aten.mm.default", "args": [{"v": "x"}, {"v": "p_w"}], "outs": ["m"]},
                {"name": "relu", "op": "aten.relu.default", "args": [], "kwargs": {"self": {"v": "m"}}, "outs": ["y"], "meta": {"module": "act", "any": [1]}}],
      "outputs": [{"value": "y", "kind": "user"}, {"value": null, "kind": "user"}],
      "guards": [], "meta": {"compile_id": "0/0"}, "extra": {}}]})json");
}

std::string weight_bytes() {
  const std::vector<float> values = {-9, 1, 2, 3, 4, 5, 6};
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::unique_ptr<Graph> import_small(const Json& file, int64_t rows = 4) {
  const testing::ScratchFolder folder;
  std::ofstream(folder / "w.bin") << weight_bytes();
  std::filesystem::create_symlink("/etc/hostname", folder / "link.bin");
  ImportOptions options;
  options.known.symbols["s0"] = rows;
  return import_in(folder / "", file.dump(), options);
}

TEST(FxJson, ImportsAndRuns) {
  const auto graph = import_small(small_file());
  ASSERT_EQ(graph->body.args.size(), 1U);
  EXPECT_EQ(graph->body.args[0]->name, "x");
  EXPECT_EQ(graph->body.args[0]->type, Type(DType::f32, {4, 3}));
  EXPECT_EQ(graph->output_names, std::vector<std::string>{"y"});
  ASSERT_NE(graph->find_weight("w"), nullptr);
  EXPECT_TRUE(graph->find_weight("w")->weight->from_model);
  EXPECT_EQ(graph->body.results[0]->producer->loc.node, "act/relu");
  Tensor x(DType::f32, {4, 3});
  for (int64_t i = 0; i < 12; ++i) x.set_double(i, i % 3 == 0 ? 1 : -1);
  const Tensor y = interpret(*graph, {&x, 1}, false)[0];
  EXPECT_EQ(y.as_double(0), 0);  // 1 - 3 - 5
  x.set_double(1, 1);
  EXPECT_EQ(interpret(*graph, {&x, 1}, false)[0].as_double(1), 0);  // 2 + 4 - 6
  x.set_double(2, 1);
  EXPECT_EQ(interpret(*graph, {&x, 1}, false)[0].as_double(1), 12);
}

TEST(FxJson, StridesAreGathered) {
  Json file = small_file();
  file["weights"][0]["stride"] = {1, 3};
  const Tensor w = import_small(file)->find_weight("w")->weight->tensor;
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 2; ++j) EXPECT_EQ(w.as_double(i * 2 + j), 1 + i + 3 * j);
  }
  file["weights"][0]["stride"] = {0, 1};
  file["weights"][0]["length"] = 8;
  EXPECT_EQ(import_small(file)->find_weight("w")->weight->tensor.as_double(5), 2);
}

TEST(FxJson, WeightsThatAreNotThereAreInputs) {
  Json file = small_file();
  file.erase("weights");
  EXPECT_EQ(import_small(file)->body.args[0]->name, "w");
  file["graphs"][0]["inputs"][0].erase("fqn");
  EXPECT_EQ(import_small(file)->body.args[0]->name, "p_w");
}

TEST(FxJson, SizesThatNoTensorHasAreBoundByName) {
  Json file = small_file();
  file["symbols"]["s1"] = Json::object();
  file["graphs"][0]["values"]["n"]["sym"] = "s1*2";
  file["graphs"][0]["values"]["z"] = {{"dtype", "f32"}, {"shape", {"s1 * 2"}}};
  file["graphs"][0]["nodes"].push_back({{"name", "z"},
                                        {"op", "aten.full.default"},
                                        {"args", {Json::array({{{"v", "n"}}}), 1.5}},
                                        {"kwargs", {{"dtype", {{"dtype", "f32"}}}}},
                                        {"outs", {"z"}}});
  file["graphs"][0]["outputs"][1]["value"] = "z";
  const testing::ScratchFolder folder;
  std::ofstream(folder / "w.bin") << weight_bytes();
  ImportOptions options;
  options.known.symbols = {{"s0", 4}, {"s1", 5}};
  EXPECT_EQ(import_in(folder / "", file.dump(), options)->body.results[1]->type, Type(DType::f32, {10}));
  options.known.symbols.erase("s1");
  const std::string message = testing::error_of(ExitCode::model, [&] { import_in(folder / "", file.dump(), options); });
  EXPECT_NE(message.find("the size `s1*2` is not bound [unbound-size]"), std::string::npos) << message;
}

TEST(FxJson, OutputsOfEachKind) {
  Json file = small_file();
  file["graphs"][0]["role"] = "joint";
  file["graphs"][0]["outputs"] = Json::parse(R"json([{"value": "m", "kind": "loss"}, {"value": "y", "kind": "gradient", "target": "x"},
    {"value": "p_w", "kind": "gradient", "target": "p_w"}, {"value": "y", "kind": "saved"}, {"value": "n", "kind": "saved"}])json");
  EXPECT_EQ(import_small(file)->output_names, (std::vector<std::string>{"m", "grad.x", "grad.w", "y", "n"}));
}

/// One change of the small file, and what is said about it.
struct Change {
  const char* pointer;  ///< JSON pointer; the value there is replaced
  const char* value;    ///< JSON; empty: it is removed
  const char* message;  ///< a part of it
};

const Change kChanges[] = {
    {"/version", "[2, 0]", "this is tcc.fx JSON of version 2.0, 1 is read [unsupported-format]"},
    {"/version", "[1]", "`version` is not a pair of integers"},
    {"/version", "", "`version` is missing"},
    {"/format", "\"tcc.fy\"", "[malformed-file]"},
    {"/entry", "\"h\"", "`entry` is `h`, which is not a graph of the file"},
    {"/more", "1", "the key `more` is not one of `format`, `version`"},
    {"/meta", "1", "`meta` is number, an object was expected"},
    {"/symbols/s0/min", "9", "symbol `s0`: error: `min` is above `max`"},
    {"/symbols/s0/hint", "9", "`hint` is not within `min` and `max`"},
    {"/symbols/s0/step", "9", "the key `step` is not one of"},
    {"/symbols", "", "value `m`: error: `symbols` lacks `s0`"},
    {"/weights/0/file", "\"../w.bin\"", ":w: error: `../w.bin` leaves the folder of the model [external-data]"},
    {"/weights/0/file", "\"/etc/hostname\"", "`/etc/hostname` is an absolute path"},
    {"/weights/0/file", "\"link.bin\"", "`link.bin` is a symbolic link that leaves the folder of the model"},
    {"/weights/0/offset", "8", "`w.bin` has 28 bytes, 24 at offset 8 were expected"},
    {"/weights/0/offset", "9223372036854775807", "`w.bin` has 28 bytes"},
    {"/weights/0/offset", "-1", "`offset` is -1, 0 or more was expected"},
    {"/weights/0/offset", "1e3", "`offset` is number, an integer of 64 bits was expected"},
    {"/weights/0/offset", "18446744073709551615", "an integer of 64 bits was expected"},
    {"/weights/0/length", "20", "`length` is 20, dtype, shape and strides need 24 bytes"},
    {"/weights/0/stride", "[4611686018427387904, 4]", "need more bytes than there can be"},
    {"/weights/0/stride", "[1]", "`stride` and `shape` differ in length"},
    {"/weights/0/stride", "[-2, 1]", "`stride` has -2"},
    {"/weights/0/shape", "[4611686018427387904, 4]", "the shape is [4611686018427387904, 4] [too-large]"},
    {"/weights/0/dtype", "\"f99\"", "the weight is f99 [unsupported-dtype]"},
    {"/weights/0/dtype", "\"i32\"", "the weight is i32[3, 2], declared is f32[3, 2] [type-error]"},
    {"/weights/1", "{\"fqn\": \"w\", \"file\": \"w.bin\", \"offset\": 0, \"length\": 0, \"dtype\": \"f32\", \"shape\": []}",
     "the fqn `w` stands twice"},
    {"/graphs", "[]", "[malformed-file]"},
    {"/graphs/0/role", "\"sideways\"", "`role` is `sideways`, which is not a role of a graph"},
    {"/graphs/0/role", "\"body\"", "`entry` is `g`, a graph of role body"},
    {"/graphs/0/nodes", "7", "`nodes` is number, a list was expected"},
    {"/graphs/0/inputs/0/kind", "\"weight\"", "`kind` is `weight`, which is not a kind of input"},
    {"/graphs/0/inputs/1/fqn", "\"x\"", "an input of kind user has no `fqn`"},
    {"/graphs/0/inputs/1/value", "1", "`x` is a tensor and has a `value`"},
    {"/graphs/0/inputs/1/name", "\"p_w\"", "`p_w` is made a second time"},
    {"/graphs/0/inputs/2/value", "", "`k` is a number and has no `value` that is one"},
    {"/graphs/0/inputs/3/value", "4", "`n` is a size and has a `value`"},
    {"/graphs/0/inputs/3/kind", "\"seed\"", "`n` is not a tensor, its kind is seed"},
    {"/graphs/0/inputs/1/kind", "\"seed\"", "a seed is an i64 of rank 0"},
    {"/graphs/0/values/x/shape", "[-1]", "a size is -1, an integer of 0 or more or an expression was expected"},
    {"/graphs/0/values/x/shape", "[\"s0 +\"]", "value `x`: error: `s0 +` is not an expression of sizes"},
    {"/graphs/0/values/x/shape", "[\"s0/2\"]", "is not an expression of sizes, from position 3 on"},
    {"/graphs/0/values/x/shape", "[\"abs(s0)\"]", "`abs` is not a function of sizes, min and max are"},
    {"/graphs/0/values/x/stride", "[1]", "`stride` is not a list with a number for each axis"},
    {"/graphs/0/values/x/dtype", "\"complex64\"", "input `x` is complex64 [unsupported-dtype]"},
    {"/graphs/0/values/x/number", "\"i64\"", "a value is a tensor, or a `sym`, or a `number`"},
    {"/graphs/0/values/k/number", "\"i32\"", "`number` is `i32`"},
    {"/graphs/0/values/y", "", "g/relu: error: `values` lacks `y`"},
    {"/graphs/0/values/unused", "{\"number\": \"i64\"}", "`values` has `unused`, which is made by no node and is not an input"},
    {"/graphs/0/nodes/0/args/0/v", "\"y\"", "g/mm: error: `y` is used before it is made"},
    {"/graphs/0/nodes/0/args/0/v", "\"q\"", "g/mm: error: `q` is used and made by no node"},
    {"/graphs/0/nodes/0/args/0", "{\"v\": \"x\", \"f\": \"inf\"}", "an argument is an object of 2 keys"},
    {"/graphs/0/nodes/0/args/0", "{\"w\": \"x\"}", "the key `w` is not one of `v`, `sym`"},
    {"/graphs/0/nodes/0/args/0", "{\"f\": \"big\"}", "`f` is `big`, one of inf, -inf and nan was expected"},
    {"/graphs/0/nodes/0/args/0", "{\"c\": [1, 2]}", "a complex number [unsupported-dtype]"},
    {"/graphs/0/nodes/0/args/0", "{\"graph\": \"g\"}", "the graph `g` is not of role body"},
    {"/graphs/0/nodes/0/args/0", "{\"graph\": \"h\"}", "the file has no graph `h`"},
    {"/graphs/0/nodes/0/args/0", "18446744073709551615", "the integer 18446744073709551615 doesn't fit 64 bits"},
    {"/graphs/0/nodes/0/args/0", "[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]", "lists in an argument nest more than 16 deep"},
    {"/graphs/0/nodes/0/op", "\"aten.fft_fft.default\"", ":mm: error: not supported yet: operator `aten.fft_fft.default` [unsupported-op]"},
    {"/graphs/0/nodes/0/op", "\"hop.flex_attention\"", "higher-order operator `flex_attention` [unsupported-control-flow]"},
    {"/graphs/0/nodes/0/op", "\"rm -rf\"", "operator `rm -rf` [unsupported-op]"},
    {"/graphs/0/nodes/0/outs", "[[\"m\"]]", ""},
    {"/graphs/0/nodes/0/outs", "[1]", "`outs` has what is neither a name nor null nor a list of those"},
    {"/graphs/0/nodes/0/outs", "[\"m\", \"m\"]", "`m` is made a second time"},
    {"/graphs/0/nodes/0/name", "\"relu\"", "two nodes are called `relu`"},
    {"/graphs/0/nodes/1/kwargs/inplace", "true", "argument `inplace` of aten.relu.default [unsupported-attribute]"},
    {"/graphs/0/values/y/shape", "[\"s0\", 3]", "result `y` is f32[4, 2], declared is f32[4, 3] [type-error]"},
    {"/graphs/0/outputs/0/value", "\"q\"", "output 0: error: `q` is used and made by no node"},
    {"/graphs/0/outputs/0/kind", "\"gradient\"", "an output of kind gradient needs a `target`"},
    {"/graphs/0/outputs/0/target", "\"x\"", "an output of kind user has no `target`"},
    {"/graphs/0/outputs/0", "{\"value\": \"y\", \"kind\": \"mutation\", \"target\": \"q\"}",
     "`target` is `q`, which is not an input of the graph"},
    {"/graphs/0/outputs/0/value", "null", "the program has no outputs"},
    {"/graphs/0/guards/0", "{\"kind\": \"shape\"}", "guard 0: error: `kind` is none of tensor, expr, value, state and opaque"},
    {"/graphs/0/guards/0", "{\"kind\": \"tensor\", \"input\": \"q\", \"dtype\": \"f32\", \"rank\": 2}", "`q` is not an input of the graph"},
    {"/graphs/0/guards/0", "{\"kind\": \"tensor\", \"input\": \"x\", \"dtype\": \"f32\", \"rank\": 3}",
     "the guard that input `x` is f32 of rank 3 fails: it is of rank 2 [failed-guard]"},
    {"/graphs/0/guards/0", "{\"kind\": \"tensor\", \"input\": \"x\", \"dtype\": \"f16\", \"rank\": 2}", "fails: it is f32"},
    {"/graphs/0/guards/0", "{\"kind\": \"tensor\", \"input\": \"x\", \"dtype\": \"f32\", \"rank\": 2, \"shape\": [5, null]}",
     "the guard that input `x` is f32[5, any] fails: axis 0 is 4"},
    {"/graphs/0/guards/0", "{\"kind\": \"tensor\", \"input\": \"x\", \"dtype\": \"f32\", \"rank\": 2, \"shape\": [5]}",
     "`rank` and the length of `shape` disagree"},
    {"/graphs/0/guards/0", "{\"kind\": \"expr\", \"expr\": \"s0 >= 5 and s0 < 8\"}",
     "the guard `s0 >= 5 and s0 < 8` fails: `s0` is 4 [failed-guard]"},
    {"/graphs/0/guards/0", "{\"kind\": \"expr\", \"expr\": \"s0\"}", "`s0` is not a condition on sizes"},
    {"/graphs/0/guards/0", "{\"kind\": \"expr\", \"expr\": \"s9 > 1\"}", "`symbols` lacks `s9`"},
    {"/graphs/0/guards/0", "{\"kind\": \"value\", \"input\": \"k\", \"equals\": 3}", "the guard that input `k` is 3 fails: it is 2"},
    {"/graphs/0/guards/0", "{\"kind\": \"value\", \"source\": \"L['k']\", \"equals\": 3}", "the guard that input `k` is 3 fails: it is 2"},
    {"/graphs/0/guards/0", "{\"kind\": \"value\", \"input\": \"n\", \"equals\": 3}", "the guard that input `n` is 3 fails: it is 4"},
    {"/graphs/0/guards/0", "{\"kind\": \"value\", \"input\": \"k\", \"equals\": \"2\"}", "`equals` is neither a number nor a boolean"},
    {"/graphs/0/guards/0", "{\"kind\": \"value\", \"equals\": 2}", "one of `input` and `source` was expected"},
    {"/graphs/0/guards/0", "{\"kind\": \"opaque\"}", "`text` is missing"},
};

TEST(FxJson, RefusesWhatIsMalformed) {
  for (const Change& change : kChanges) {
    Json file = small_file();
    const Json::json_pointer pointer(change.pointer);
    if (*change.value != '\0') file[pointer] = Json::parse(change.value);
    else file[pointer.parent_pointer()].erase(pointer.back());
    if (*change.message == '\0') {
      EXPECT_NO_THROW(import_small(file)) << change.pointer;
      continue;
    }
    const std::string message = testing::error_of(ExitCode::model, [&] { import_small(file); });
    EXPECT_NE(message.find(change.message), std::string::npos) << message << "\nlacks: " << change.message;
  }
  const std::string twice =
      testing::error_of(ExitCode::model, [] { import_text(R"({"format": "tcc.fx", "version": [1, 0], "entry": "g", "entry": "h"})"); });
  EXPECT_NE(twice.find("the key `entry` stands twice in one object"), std::string::npos) << twice;
  Json alone = small_file();
  alone.erase("weights");
  const std::string unbound = testing::error_of(ExitCode::model, [&] { import_text(alone.dump()); });
  EXPECT_NE(unbound.find("help: the sizes at capture were --bind s0=4"), std::string::npos) << unbound;
  EXPECT_NE(testing::error_of(ExitCode::model, [] { import_small(small_file(), 9); }).find("the program was captured for 2 to 8"),
            std::string::npos);
}

TEST(FxJson, GuardsThatHold) {
  Json file = small_file();
  file["graphs"][0]["guards"] = Json::parse(R"json([{"kind": "tensor", "input": "x", "dtype": "f32", "rank": 2, "shape": ["s0", null]},
    {"kind": "expr", "expr": "2 <= s0 <= 8 and not (s0 == 3 or s0 % 2 != 0)"}, {"kind": "expr", "expr": "(s0 + 1) * 2 == max(10, s0, 3) and -s0 // 3 == -2"},
    {"kind": "value", "input": "k", "equals": 2}, {"kind": "expr", "expr": "u0 >= 2"}, {"kind": "opaque", "text": "anything"}])json");
  EXPECT_NO_THROW(import_small(file));
}

TEST(FxJson, DepthAndNumbersAreBounded) {
  // Each body names the next one twice: 2^n nodes when they stand in their places.
  const auto nested = [](int depth, int calls) {
    Json file = small_file();
    Json body = Json::parse(
        R"json({"role": "body", "inputs": [{"name": "a", "kind": "user"}], "values": {"a": {"dtype": "f32", "shape": ["s0", 2]}},
                              "nodes": [], "outputs": [{"value": "a", "kind": "user"}]})json");
    const auto call = [&](Json& graph, int inner, const std::string& from) {
      std::string last = from;
      for (int i = 0; i < calls; ++i) {
        const std::string name = "call" + std::to_string(i);
        graph["values"][name] = {{"dtype", "f32"}, {"shape", {"s0", 2}}};
        graph["nodes"].push_back(
            {{"name", name}, {"op", "hop.wrap"}, {"args", {{{"graph", "b" + std::to_string(inner)}}, {{"v", last}}}}, {"outs", {name}}});
        last = name;
      }
      graph["outputs"][0]["value"] = last;
    };
    call(file["graphs"][0], 0, "y");
    for (int i = 0; i < depth; ++i) {
      Json graph = body;
      graph["id"] = "b" + std::to_string(i);
      if (i + 1 < depth) call(graph, i + 1, "a");
      file["graphs"].push_back(graph);
    }
    return file;
  };
  const auto says = [](const Json& file, const std::string& part) {
    const std::string message = testing::error_of(ExitCode::model, [&] { import_small(file); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  EXPECT_NO_THROW(import_small(nested(8, 2)));
  says(nested(28, 2), "[too-complex]");
  says(nested(40, 1), "graphs nest more than 32 deep");
  Json cyclic = nested(3, 1);
  cyclic["graphs"][3]["nodes"] = cyclic["graphs"][2]["nodes"];
  cyclic["graphs"][3]["nodes"][0]["args"][0]["graph"] = "b0";
  cyclic["graphs"][3]["values"]["call0"] = {{"dtype", "f32"}, {"shape", {"s0", 2}}};
  says(cyclic, "the graph contains itself");
  Json deep = small_file();
  std::string text = "s0";
  for (int i = 0; i < 3000; ++i) text = "(" + text + ")";
  deep["graphs"][0]["values"]["x"]["shape"][0] = text;
  says(deep, "nests more than 100 deep");
  text = "s0";
  for (int i = 0; i < 3000; ++i) text += " + 1";
  deep["graphs"][0]["values"]["x"]["shape"][0] = text;
  says(deep, "has more than 2000 operations");
  std::string nest = R"({"format": "tcc.fx", "meta": )";
  for (int i = 0; i < 200000; ++i) nest += "[";
  testing::error_of(ExitCode::model, [&] { import_text(nest); });
}

// ---- graphs of tcc

std::unique_ptr<Graph> reads_back(const Graph& graph) {
  const FxJson json = print_fx_json(graph, "w.bin");
  const testing::ScratchFolder folder;
  std::ofstream(folder / "graph.json") << json.text;
  write_file_atomically(folder / "w.bin", json.weights);
  Diagnostics diagnostics;
  return import_model(folder / "graph.json", {}, diagnostics);
}

TEST(FxJson, GraphsReadBack) {
  // Names that need quoting, a bound, a rank that is not known, every kind of attribute, an absent operand, state, outputs with other names.
  const std::string text =
      R"(graph @"net 1"(%x: f32["batch size", n, 3], %"it's": f32["it's", k<=8, "2*n + 1"], %seed: i64[]) -> (%"out put": f32[*], %b: f32[2], %c: f32["batch size", n, 3]) {
  weight @w: f32[2] buffer state = [1.5, -0]
  weight @x: i64[2] = [3, 4]
  weight @e: f32[0, 3] made = []
  %r: f32[*] = dynamic_reshape(%x, @x) {allowzero=true}    loc("a/b")
  %f: f32[2] = full() {dtype=f32, shape=[2], value=nan}    loc("") grad
  %i: i64[2] = full() {dtype=i64, shape=[2], value=-9223372036854775808}
  %s: f32[] = full() {dtype=f32, shape=[], value=0.1}
  %p: f32[2] = pad(%f, %s) {high=[0], interior=[0], low=[0]}
  %t: f32["batch size", n, 3] = leaky_relu(%x) {alpha=inf}
  return %r, %p, %t, state(@w = %f)
}
)";
  const auto graph = parse_graph(text, "net.graph", {});
  EXPECT_EQ(verify(*graph, GraphStage::imported), std::vector<std::string>());
  const auto read = reads_back(*graph);
  read->file = graph->file;
  for (Node* node : read->body.nodes) node->loc.file = graph->file;
  EXPECT_EQ(print(*read, {.small_weights = 4}), print(*graph, {.small_weights = 4}));
}

TEST(FxJson, GraphsThatHaveNoWordsAreRefused) {
  auto graph = parse_graph("graph @g(%x: f32[n<=8], %y: f32[n]) -> (%x: f32[n<=8]) {\n}\n", "g.graph", {});
  EXPECT_NE(testing::error_of(ExitCode::model, [&] { print_fx_json(*graph, ""); }).find("the size `n` with two bounds as tcc.fx JSON"),
            std::string::npos);
  // State that is not the model's own: how it lies is not said.
  graph = parse_graph("graph @g(%x: f32[1]) -> () {\n  weight @w: f32[1] = [1]\n  return state(@w = %x)\n}\n", "g.graph", {});
  EXPECT_NE(testing::error_of(ExitCode::model, [&] { print_fx_json(*graph, ""); }).find("a step of a training as tcc.fx JSON"),
            std::string::npos);
  graph = std::make_unique<Graph>("g");
  graph->add_output(graph->add_input("\xff", Type(DType::f32, {})), "y");
  EXPECT_NE(testing::error_of(ExitCode::model, [&] { print_fx_json(*graph, ""); }).find("[malformed-name]"), std::string::npos);
}

TEST(FxJson, OperationsOfGraphsAmongThoseOfTorch) {
  Json file = small_file();
  file["graphs"][0]["nodes"][1] = {
      {"name", "relu"}, {"op", "tcc.elu"}, {"args", {{{"v", "m"}}}}, {"kwargs", {{"alpha", 2}}}, {"outs", {"y"}}};
  EXPECT_EQ(import_small(file)->body.results[0]->producer->op, Op::elu_);
  const auto says = [&](const char* op, const Json& kwargs, const std::string& part) {
    Json changed = file;
    changed["graphs"][0]["nodes"][1]["op"] = op;
    changed["graphs"][0]["nodes"][1]["kwargs"] = kwargs;
    for (const bool alone : {false, true}) {
      if (alone) {  // a graph of tcc through and through
        Json& graph = changed["graphs"][0];
        graph["inputs"] = {graph["inputs"][1]};
        graph["nodes"].erase(0);
        for (const char* name : {"p_w", "k", "n", "m"}) graph["values"].erase(name);
        graph["values"]["x"]["shape"][1] = 2;
        graph["nodes"][0]["args"][0]["v"] = "x";
      }
      const std::string message = testing::error_of(ExitCode::model, [&] { import_small(changed); });
      EXPECT_NE(message.find(part), std::string::npos) << message;
    }
  };
  says("tcc.elu", Json::object(), "alpha");
  says("tcc.elu", {{"alpha", "two"}}, "attribute `alpha` of tcc.elu is of another kind than it takes [malformed-file]");
  says("tcc.elu", {{"alpha", 1}, {"beta", 1}}, "`tcc.elu` has no attribute `beta` [malformed-file]");
  says("tcc.nothing", Json::object(), "`tcc.nothing` [unsupported-op]");
  says("tcc.cast", {{"dtype", {{"dtype", "f16"}}}}, "[type-error]");
}

/// Files changed at random end in a graph that verifies or in an error of the model. TCC_FUZZ_CASES says how many are tried, TCC_FUZZ_SEED with which
/// seed; in processes of their own: test_attack --kind=dumps.
TEST(FxJson, MutatedFilesAreRefusedOrImported) {
  const char *count = std::getenv("TCC_FUZZ_CASES"), *seed = std::getenv("TCC_FUZZ_SEED");
  for (int i = 0; i < (count == nullptr ? 1000 : std::atoi(count)); ++i) {
    attack::Random random(seed == nullptr ? 7 : static_cast<uint64_t>(std::atoi(seed)), 0, static_cast<uint64_t>(i));
    Json file = small_file();
    if (random.chance(2)) {
      const Json& one = random.pick(cases().get_ref<const Json::array_t&>());
      const Json fx = fx_of(random.pick(one.at("programs").get_ref<const Json::array_t&>()));
      if (!fx.is_null()) file = fx;
    } else {
      file["graphs"][0]["guards"] = Json::parse(R"json([{"kind": "tensor", "input": "x", "dtype": "f32", "rank": 2, "shape": ["s0", null]},
        {"kind": "expr", "expr": "2 <= s0 <= 8 and not s0 == 3"}, {"kind": "value", "input": "k", "equals": 2}, {"kind": "opaque", "text": "anything"}])json");
    }
    file = attack::mutate_json(random, file);
    try {
      EXPECT_EQ(verify(*import_small(file), GraphStage::resolved), std::vector<std::string>()) << file.dump();
    } catch (const Error& error) {
      const bool is_documented =
          error.code() == ExitCode::model || error.code() == ExitCode::usage || error.code() == ExitCode::environment;
      ASSERT_TRUE(is_documented) << error.what() << "\n" << file.dump();
    }
  }
}

}  // namespace
}  // namespace tcc
