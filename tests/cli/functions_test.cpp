// A file of several graphs is a library of several functions: what TorchDynamo and AOTAutograd capture of one model, as tcc.fx JSON.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "tcc/support/files.h"
#include "tcc/support/npy.h"
#include "tcc/support/safetensors.h"

namespace tcc::test {
namespace {

using Json = nlohmann::json;

std::string data(const char* name) { return read_text_file(std::string(TCC_TEST_DATA_DIR) + "/data/" + name); }

/// Forward and backward of y = tanh(x @ w) for x: f32[s0, 3], w: f32[3, 2], and a piece after a graph break: y + k for k captured as 2, with noise.
Json pieces() { return Json::parse(data("pieces.json")); }

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
  bad("dump.json --bind s0=2,s1=3,s9=1 -o m.so", 2, "`s9` is not an input or a size of the model");
  bad("dump.json --shapes q:2x3 --bind s1=3 -o m.so", 2, "--shapes: `q` is not an input of the model");
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
  folder.write("dump.json", data("dump_without_bytes.json"));
  folder.write("program.json", data("program_without_bytes.json"));
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
