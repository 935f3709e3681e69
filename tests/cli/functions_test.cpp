// A file of several graphs is a library of several functions: what TorchDynamo and AOTAutograd capture of one model, as tcc.fx JSON.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "tcc/support/npy.h"
#include "tcc/support/safetensors.h"

namespace tcc::test {
namespace {

using Json = nlohmann::json;

/// Forward and backward of y = tanh(x @ w) for x: f32[s0, 3], w: f32[3, 2], and a piece after a graph break: y + k for k captured as 2, with noise.
Json pieces() {
  return Json::parse(R"json({
    "format": "tcc.fx", "version": [1, 0], "entry": "0/0.forward",
    "symbols": {"s0": {"min": 2, "max": 64, "hint": 4}, "s1": {"hint": 2}},
    "weights": [{"fqn": "fc.w", "file": "w.bin", "offset": 0, "length": 24, "dtype": "f32", "shape": [3, 2]}],
    "graphs": [
     {"id": "piece", "role": "forward",
      "inputs": [{"name": "p_w", "kind": "param", "fqn": "fc.w"}, {"name": "y", "kind": "user"}, {"name": "k", "kind": "user", "value": 2, "source": "L['k']"}],
      "values": {"p_w": {"dtype": "f32", "shape": [3, 2]}, "y": {"dtype": "f32", "shape": ["s1", 2]}, "k": {"number": "i64"}, "s": {"dtype": "f32", "shape": []},
                 "r": {"dtype": "f32", "shape": []}, "t": {"dtype": "f32", "shape": ["s1", 2]}, "z": {"dtype": "f32", "shape": ["s1", 2]}},
      "nodes": [{"name": "s", "op": "aten.sum.default", "args": [{"v": "p_w"}], "outs": ["s"]},
                {"name": "r", "op": "aten.rand.default", "args": [[]], "outs": ["r"]},
                {"name": "t", "op": "aten.add.Tensor", "args": [{"v": "y"}, {"v": "k"}], "outs": ["t"]},
                {"name": "z", "op": "aten.mul.Tensor", "args": [{"v": "t"}, {"v": "s"}], "outs": ["z"]}],
      "outputs": [{"value": "z", "kind": "user"}, {"value": "r", "kind": "user"}]},
     {"id": "0/0.forward", "role": "forward",
      "inputs": [{"name": "p_w", "kind": "param", "fqn": "fc.w"}, {"name": "x", "kind": "user", "source": "L['x']"}],
      "values": {"p_w": {"dtype": "f32", "shape": [3, 2]}, "x": {"dtype": "f32", "shape": ["s0", 3]}, "m": {"dtype": "f32", "shape": ["s0", 2]}, "y": {"dtype": "f32", "shape": ["s0", 2]}},
      "nodes": [{"name": "m", "op": "aten.mm.default", "args": [{"v": "x"}, {"v": "p_w"}], "outs": ["m"]},
                {"name": "y", "op": "aten.tanh.default", "args": [{"v": "m"}], "outs": ["y"]}],
      "outputs": [{"value": "y", "kind": "user"}, {"value": "x", "kind": "saved"}, {"value": "y", "kind": "saved"}]},
     {"id": "0/0.backward", "role": "backward",
      "inputs": [{"name": "x", "kind": "saved"}, {"name": "y", "kind": "saved"}, {"name": "tangents_1", "kind": "tangent"}],
      "values": {"x": {"dtype": "f32", "shape": ["s0", 3]}, "y": {"dtype": "f32", "shape": ["s0", 2]}, "tangents_1": {"dtype": "f32", "shape": ["s0", 2]},
                 "yy": {"dtype": "f32", "shape": ["s0", 2]}, "d": {"dtype": "f32", "shape": ["s0", 2]}, "g": {"dtype": "f32", "shape": ["s0", 2]},
                 "xt": {"dtype": "f32", "shape": [3, "s0"]}, "dw": {"dtype": "f32", "shape": [3, 2]}},
      "nodes": [{"name": "yy", "op": "aten.mul.Tensor", "args": [{"v": "y"}, {"v": "y"}], "outs": ["yy"]},
                {"name": "d", "op": "aten.rsub.Scalar", "args": [{"v": "yy"}, 1], "outs": ["d"]},
                {"name": "g", "op": "aten.mul.Tensor", "args": [{"v": "d"}, {"v": "tangents_1"}], "outs": ["g"]},
                {"name": "xt", "op": "aten.permute.default", "args": [{"v": "x"}, [1, 0]], "outs": ["xt"]},
                {"name": "dw", "op": "aten.mm.default", "args": [{"v": "xt"}, {"v": "g"}], "outs": ["dw"]}],
      "outputs": [{"value": "dw", "kind": "gradient", "target": "fc.w"}, {"value": null, "kind": "gradient", "target": "x"}]}
    ]})json");
}

constexpr float kW[] = {0.5F, -1, 0.25F, 2, 1, -0.5F};

class Functions : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("w.bin", std::string(reinterpret_cast<const char*>(kW), sizeof kW));
    write(pieces());
  }
  void write(const Json& json) const { folder_.write("dump.json", json.dump()); }
  std::string good(const std::string& arguments) const {
    const Result result = run_tcc(arguments, folder_.path());
    EXPECT_EQ(result.exit_code, 0) << arguments << "\n" << result.err;
    return result.out;
  }
  void bad(const std::string& arguments, int exit_code, const std::string& message) const {
    const Result result = run_tcc(arguments, folder_.path());
    EXPECT_EQ(result.exit_code, exit_code) << arguments;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err << "\nlacks: " << message;
  }
  void put(const std::string& name, const Shape& shape, const std::vector<float>& values) const {
    Tensor tensor(DType::f32, shape);
    std::copy(values.begin(), values.end(), tensor.mutable_data<float>());
    write_npy(folder_ / name, tensor);
  }
  Folder folder_;
};

TEST_F(Functions, AreCalledByName) {
  good("dump.json --bind s0=2,s1=3 -o m.so");
  put("x.npy", {2, 3}, {1, 2, 3, -1, 0.5F, 0.25F});
  good("run m.so --device cpu --input x.npy --save out");
  const Tensor y = read_npy(folder_ / "out/0.npy");
  ASSERT_EQ(y.shape(), (Shape{2, 2}));
  EXPECT_NEAR(y.as_double(0), std::tanh(0.5 + 0.5 + 3), 1e-6);
  EXPECT_NEAR(y.as_double(3), std::tanh(1 + 1 - 0.125), 1e-6);
  put("t.npy", {2, 2}, {1, 2, 3, 4});
  good("run m.so --device cpu --function _0_0_backward --input x=out/1.npy --input y=out/0.npy --input tangents_1=t.npy --save back");
  const Tensor dw = read_npy(folder_ / "back/grad.fc.w.npy");
  ASSERT_EQ(dw.shape(), (Shape{3, 2}));
  const auto g = [&](int64_t i) { return (1 - y.as_double(i) * y.as_double(i)) * static_cast<double>(i + 1); };
  EXPECT_NEAR(dw.as_double(0), 1 * g(0) - 1 * g(2), 1e-6);
  EXPECT_NEAR(dw.as_double(5), 3 * g(1) + 0.25 * g(3), 1e-6);
  put("y.npy", {3, 2}, {0, 1, 2, 3, 4, 5});
  const std::string first = good("run m.so --device cpu --function piece --input y.npy --seed 1 --save piece");
  EXPECT_NEAR(read_npy(folder_ / "piece/0.npy").as_double(5), (5 + 2) * 2.25, 1e-5);
  EXPECT_NE(first, good("run m.so --device cpu --function piece --input y.npy --seed 2"));
  bad("run m.so --device cpu --function q --random", 2, "piece");
  good("bench m.so --device cpu --function piece --runs 3 --json");
}

TEST_F(Functions, AreShown) {
  good("dump.json --bind s0=2,s1=3 -o m.so");
  const std::string text = good("inspect m.so");
  for (const char* word : {"_0_0_forward", "_0_0_backward", "piece", "tangents_1", "grad.fc.w", "seed"})
    EXPECT_NE(text.find(word), std::string::npos) << word << "\n" << text;
  const Json manifest = Json::parse(good("dump.json --bind s0=2,s1=3 --emit=manifest"));
  ASSERT_EQ(manifest.at("functions").size(), 3U);
  EXPECT_EQ(manifest.at("functions")[0].at("name"), "_0_0_forward");
  EXPECT_EQ(manifest.at("functions")[1].at("name"), "piece");
  EXPECT_EQ(manifest.at("functions")[2].at("outputs")[0].at("name"), "grad.fc.w");
  EXPECT_EQ(manifest.at("weights").size(), 1U) << "functions share weights by name: " << manifest.at("weights");
  folder_.write("program.c",
                "#include \"m.h\"\nint main(void) { float y[6] = {0}, z[6], r;\n  tcc_instance* i;\n  if (tcc_model_create(TCC_DEVICE_CPU, "
                "&i)) return 1;\n  if (tcc_model_piece(i, y, z, &r)) return 2;\n  tcc_model_destroy(i);\n  return TCC_MODEL_FUNCTION_PIECE "
                "- 1 + (z[0] != 4.5F); }\n");
  good("dump.json --bind s0=2,s1=3 --emit=header=m.h");
  EXPECT_EQ(
      run_shell("cc -std=c11 -Wall -Wextra -Werror program.c ./m.so -o program && LD_LIBRARY_PATH=. ./program", folder_.path()).exit_code,
      0);
}

TEST_F(Functions, OneCanBeTaken) {
  EXPECT_NE(good("verify --function piece --bind s1=3 --device cpu dump.json").find("passed: 2 outputs"), std::string::npos);
  EXPECT_NE(good("verify --function 0/0.forward --bind s0=3 --device cpu dump.json").find("passed: 3 outputs"), std::string::npos);
  EXPECT_NE(good("--function _0_0_forward --bind s0=3 --emit=graph dump.json").find("tanh"), std::string::npos);
  good("--function piece --mode=grad --bind s1=3 dump.json -o g.so");
  bad("verify dump.json --bind s0=2,s1=3", 2, "the file has 3 functions, one was expected");
  bad("dump.json --bind s0=2,s1=3 --mode=grad -o m.so", 2, "--mode=grad takes one function, the file has 3");
  bad("--function q --bind s0=3 dump.json -o m.so", 2, "--function=q: there is no such function");
  folder_.write("small.graph", small_graph());
  bad("--function q --from=graph small.graph -o m.so", 2, "--function says nothing with --from=graph");
}

TEST_F(Functions, AreBoundTogether) {
  bad("dump.json --bind s0=2 -o m.so", 1, "help: the sizes at capture were --bind s1=2\n");
  bad("dump.json --bind s0=2,s1=3,s9=1 -o m.so", 2, "`s9` is no input and no size of the model");
  bad("dump.json --shapes q:2x3 --bind s1=3 -o m.so", 2, "--shapes: `q` is no input of the model");
  bad("dump.json --bind s0=65,s1=3 -o m.so", 1, "dump.json:0/0.forward: error: the size `s0` is 65");
  // `y` is of both: its sizes are one for both symbols.
  good("dump.json --shapes y:4x2 --bind s0=4 -o m.so");
  Json json = pieces();
  json["graphs"][0]["nodes"][0]["op"] = "aten.nothing.default";
  json["graphs"][2]["nodes"][0]["op"] = "aten.nothing.default";
  write(json);
  const Result result = run_tcc("dump.json --bind s0=2,s1=3 -o m.so", folder_.path());
  EXPECT_NE(result.err.find("dump.json:piece:s: error: not supported yet"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("dump.json:0/0.backward:yy: error: not supported yet"), std::string::npos) << result.err;
}

TEST_F(Functions, GuardsAreComparedWithWhatIsStated) {
  Json json = pieces();
  json["graphs"][0]["guards"] =
      Json::parse(R"json([{"kind": "state", "name": "grad_enabled", "value": false}, {"kind": "value", "source": "G['n']", "equals": 2.5},
    {"kind": "value", "source": "G['m']", "equals": 3}, {"kind": "opaque", "text": "___check_type_id(L['self'], 7)"}, {"kind": "expr", "expr": "s1 >= 2"}])json");
  json["graphs"][1]["guards"] = Json::parse(R"json([{"kind": "state", "name": "grad_enabled", "value": true}])json");
  write(json);
  EXPECT_EQ(good("dump.json --bind s0=2,s1=3 -o m.so"), "");
  const std::string piece = "run m.so --device cpu --random --function piece ", forward = "run m.so --device cpu --random ";
  good(forward);
  good(piece);
  good(forward + "--set state:grad_enabled=1");
  good(piece + "--set state:grad_enabled=0 --set \"value:G['n']=2.5\"");
  bad(forward + "--set state:grad_enabled=0", 2, "_0_0_forward: the guard that `state:grad_enabled` is true fails: 0 was stated");
  bad(piece + "--set state:grad_enabled=1", 2, "piece: the guard that `state:grad_enabled` is false fails: 1 was stated");
  bad(piece + "--set \"value:G['n']=2\"", 2, "the guard that `value:G['n']` is 2.5 fails: 2 was stated");
  bad(piece + "--set q=2", 2, "there is no scalar `q`");
  bad(piece + "--set q", 2, "--set=q: NAME=NUMBER was expected");
  const std::string text = good("inspect m.so");
  for (const char* part : {"___check_type_id(L['self'], 7)", "s1 >= 2", "`state:grad_enabled` is false"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  const Json manifest = Json::parse(good("dump.json --bind s0=2,s1=3 --emit=manifest"));
  EXPECT_EQ(manifest.at("functions")[1].at("guards").size(), 3U);
  EXPECT_TRUE(manifest.at("scalars").back().at("default").is_null());
  good("inspect m.so --json");
  good("dump.json --bind s0=2,s1=3 --emit=header=m.h");
  folder_.write("program.c",
                "#include \"m.h\"\nint main(void) {\n  float y[6] = {0}, z[6], r;\n  tcc_instance* i;\n  if "
                "(tcc_model_create(TCC_DEVICE_CPU, &i)) return 1;\n"
                "  if (tcc_model_piece(i, y, z, &r) || tcc_model_set_state_grad_enabled(i, 1)) return 2;\n  return !tcc_model_piece(i, y, "
                "z, &r);\n}\n");
  EXPECT_EQ(
      run_shell("cc -std=c11 -Wall -Wextra -Werror program.c ./m.so -o program && LD_LIBRARY_PATH=. ./program", folder_.path()).exit_code,
      0);
  bad("dump.json --bind s0=2,s1=1 -o m.so", 1, "dump.json:piece: error: the guard `s1 >= 2` fails: `s1` is 1 [failed-guard]");
}

TEST_F(Functions, NamesAreIdentifiersOfC) {
  Json json = pieces();
  json["graphs"][0]["id"] = "step";
  json["graphs"][2]["id"] = "create";
  write(json);
  const Json manifest = Json::parse(good("dump.json --bind s0=2,s1=3 --emit=manifest"));
  EXPECT_EQ(manifest.at("functions")[1].at("name"), "step_");
  good("dump.json --bind s0=2,s1=3 -o m.so");
  good("dump.json --bind s0=2,s1=3 --emit=header=m.h");
  folder_.write("program.c", "#include \"m.h\"\nint main(void) { return 0; }\n");
  EXPECT_EQ(
      run_shell("cc -std=c11 -Wall -Wextra -Werror program.c ./m.so -o program && LD_LIBRARY_PATH=. ./program", folder_.path()).exit_code,
      0);
}

// Parameters that a file names and does not hold are inputs, or come from the file of --parameters: both for dumps and for the JSON of a program
// of torch.export without its archive.
TEST(DumpsWithoutBytes, TakeParameters) {
  const Folder folder;
  folder.write("dump.json", R"json({"format": "tcc.fx", "version": [1, 0], "entry": "g", "graphs": [{"id": "g", "role": "forward",
    "inputs": [{"name": "w", "kind": "param", "fqn": "fc.w"}, {"name": "b", "kind": "buffer", "fqn": "fc.b"}, {"name": "x", "kind": "user"}],
    "values": {"w": {"dtype": "f32", "shape": [2]}, "b": {"dtype": "f32", "shape": [2]}, "x": {"dtype": "f32", "shape": [2]},
               "m": {"dtype": "f32", "shape": [2]}, "y": {"dtype": "f32", "shape": [2]}},
    "nodes": [{"name": "m", "op": "aten.mul.Tensor", "args": [{"v": "x"}, {"v": "w"}], "outs": ["m"]},
              {"name": "y", "op": "aten.add.Tensor", "args": [{"v": "m"}, {"v": "b"}], "outs": ["y"]}],
    "outputs": [{"value": "y", "kind": "user"}]}]})json");
  const std::string meta = R"("dtype": 7, "sizes": [{"as_int": 2}], "requires_grad": false, "device": {"type": "cpu", "index": null},
    "strides": [{"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7)";
  const auto tensor = [](const std::string& name) { return R"({"as_tensor": {"name": ")" + name + "\"}}"; };
  const auto argument = [&](const std::string& key, const std::string& name) {
    return R"({"name": ")" + key + R"(", "arg": )" + tensor(name) + R"(, "kind": 1})";
  };
  const auto node = [&](const std::string& op, const std::string& a, const std::string& b, const std::string& out) {
    return R"({"target": "torch.ops.aten.)" + op + R"(.Tensor", "inputs": [)" + argument("self", a) + ", " + argument("other", b) +
           R"(], "outputs": [)" + tensor(out) + R"(], "metadata": {}})";
  };
  std::string values;
  for (const char* name : {"w", "b", "x", "m", "y"}) values += (values.empty() ? "\"" : ", \"") + std::string(name) + "\": {" + meta + "}";
  folder.write("program.json", R"({"graph_module": {"graph": {"inputs": [)" + tensor("w") + ", " + tensor("b") + ", " + tensor("x") +
                                   R"(], "outputs": [)" + tensor("y") + R"(], "nodes": [)" + node("mul", "x", "w", "m") + ", " +
                                   node("add", "m", "b", "y") + R"(], "tensor_values": {)" + values +
                                   R"(}, "sym_int_values": {}, "sym_bool_values": {}}, "signature": {"input_specs": [
    {"parameter": {"arg": {"name": "w"}, "parameter_name": "fc.w"}}, {"buffer": {"arg": {"name": "b"}, "buffer_name": "fc.b", "persistent": true}},
    {"user_input": {"arg": )" + tensor("x") +
                                   R"(}}], "output_specs": [{"user_output": {"arg": )" + tensor("y") + R"(}}]}, "module_call_graph": []},
    "opset_version": {"aten": 10}, "range_constraints": {}, "schema_version": {"major": 8, "minor": 8}, "torch_version": "2.11.0"})");
  const auto floats = [](const std::vector<double>& elements) {
    Tensor tensor(DType::f32, {static_cast<int64_t>(elements.size())});
    for (size_t i = 0; i < elements.size(); ++i) tensor.set_double(static_cast<int64_t>(i), elements[i]);
    return tensor;
  };
  const Tensor w = floats({3, 5}), b = floats({10, 20}), x = floats({1, 2});
  write_safetensors(folder / "s.safetensors", {{"fc.w", w}, {"fc.b", b}});
  write_safetensors(folder / "bad.safetensors", {{"fc.w", floats({1, 2, 3})}});
  write_npz(folder / "all.npz", {{"fc.w", w}, {"fc.b", b}, {"x", x}});
  write_npz(folder / "x.npz", {{"x", x}});
  write_npz(folder / "y.npz", {{"y", floats({13, 30})}});
  for (const std::string file : {"dump", "program"}) {
    SCOPED_TRACE(file);
    const std::string compile = file + ".json --target=cpu -q ";
    for (const auto& [flags, inputs] : {std::pair("-o all.so", "all"), std::pair("--parameters=s.safetensors -o x.so", "x")}) {
      const Result made = run_tcc(compile + flags, folder.path());
      ASSERT_EQ(made.exit_code, 0) << made.err;
      const std::string name(inputs);
      const Result ran = run_tcc("run " + name + ".so --input " + name + ".npz --expect y.npz --device cpu", folder.path());
      EXPECT_EQ(ran.exit_code, 0) << ran.err;
    }
    const Result bad = run_tcc(compile + "--parameters=bad.safetensors -o n.so", folder.path());
    EXPECT_EQ(bad.exit_code, 1);
    EXPECT_NE(bad.err.find("fc.w: error: the weight is f32[3], declared is f32[2]"), std::string::npos) << bad.err;
  }
}

}  // namespace
}  // namespace tcc::test
