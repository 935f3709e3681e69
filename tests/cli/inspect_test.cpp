// tcc inspect: models, libraries, printed forms, state files; and files that are cut short or damaged.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace tcc::test {
namespace {

using Json = nlohmann::json;

class Inspect : public testing::Test {
 protected:
  void SetUp() override { folder_.write("small.graph", small_graph()); }
  std::string good(const std::string& arguments) const {
    const Result result = run_tcc(arguments, folder_.path());
    EXPECT_EQ(result.exit_code, 0) << arguments << "\n" << result.err;
    return result.out;
  }
  Json inspect(const std::string& arguments) const { return Json::parse(good("inspect --json " + arguments)); }
  Folder folder_;
};

TEST_F(Inspect, Model) {
  const Json report = inspect("$MODELS/mnist_mlp/dynamo.onnx");
  EXPECT_EQ(report["kind"], "ONNX model");
  EXPECT_EQ(report["inputs"].size(), 1U);
  EXPECT_EQ(report["outputs"].size(), 1U);
  EXPECT_GT(report["weights_bytes"], 100000);
  EXPECT_FALSE(report.contains("unknown_ops"));
  EXPECT_FALSE(report["opsets"].empty());
  // Two layers, 784 x 64 and 64 x 10 or so: 2 operations a weight and example, and a few more.
  const double examples = 32, weights = report["weight_elements"];
  EXPECT_GT(report["operations"], 0.9 * 2 * weights);
  EXPECT_LT(report["operations"], 2.2 * weights * examples);
  const std::string text = good("inspect $MODELS/mnist_mlp/dynamo.onnx");
  for (const char* word : {"kind ", "opsets ", "inputs\n", "weights ", "operations "})
    EXPECT_NE(text.find(word), std::string::npos) << text;
}

TEST_F(Inspect, CapturedProgram) {
  const Json report = inspect("$MODELS/mnist_mlp/model.pt2"), of_onnx = inspect("$MODELS/mnist_mlp/dynamo.onnx");
  EXPECT_EQ(report["kind"], "archive of torch.export");
  EXPECT_NE(report["made_by"].get<std::string>().find("torch 2."), std::string::npos);
  EXPECT_EQ(report["inputs"].size(), 1U);
  EXPECT_EQ(report["outputs"].size(), 1U);
  EXPECT_FALSE(report.contains("opsets"));
  EXPECT_FALSE(report.contains("unknown_ops"));
  EXPECT_GT(report["weights"], 0);
  EXPECT_NEAR(report["weights_bytes"].get<double>(), of_onnx["weights_bytes"].get<double>(),
              64);  // ONNX has a shape or two among its weights
  EXPECT_NE(report["ops"].dump().find("aten.linear.default x"), std::string::npos) << report["ops"];
}

TEST_F(Inspect, DumpsOfCapturedGraphs) {
  const std::string folder = TCC_SOURCE_DIR "/models/fx/";
  const Json one = inspect(folder + "gpt2.json");
  EXPECT_EQ(one["kind"], "tcc.fx JSON");
  EXPECT_EQ(one["inputs"].back()["name"], "input_ids");
  EXPECT_EQ(one["weights"], 16);
  EXPECT_FALSE(one.contains("unknown_ops"));
  EXPECT_GT(inspect(folder + "stack.json")["operations"], 100);
  const Json two = inspect(folder + "mlp_step.json");
  EXPECT_EQ(two["library_functions"], Json({"g0", "g0_backward"}));
  EXPECT_EQ(two["inputs"][0]["name"], "g0/input");
  EXPECT_EQ(two["weights"], 6);  // both functions read them
}

TEST_F(Inspect, Text) {
  const Json graph = inspect("small.graph");
  EXPECT_EQ(graph["kind"], "printed graph");
  EXPECT_EQ(graph["inputs"], Json::parse(R"([{"name": "x", "type": "f32[4, 3]"}])"));
  EXPECT_EQ(graph["weights"], 3);
  good("--from=graph small.graph --target=cpu --emit=loop=l.txt,kernel=k.txt");
  EXPECT_GT(inspect("l.txt")["units"], 0);
  EXPECT_EQ(inspect("k.txt")["kernels"][0]["target"], "x86-64-v3");
  good("--from=graph small.graph --emit=prims=p.txt");
  EXPECT_EQ(inspect("p.txt.safetensors")["kind"], "safetensors file");
}

TEST_F(Inspect, Library) {
  good("--from=graph small.graph -march=ptx -o small.so");
  const Json report = inspect("small.so");
  EXPECT_EQ(report["kind"], "library");
  EXPECT_EQ(report["functions"][0]["inputs"], Json::parse(R"([{"name": "x", "type": "f32[4, 3]"}])"));
  EXPECT_EQ(report["functions"][0]["outputs"], Json::parse(R"([{"name": "p", "type": "f32[4, 2]"}])"));
  EXPECT_EQ(report["flags"], "-O2");
  // Two products of 4 x 3 x 5 and 4 x 5 x 2, and what is done to each element.
  EXPECT_GE(report["functions"][0]["operations"], 2 * (4 * 3 * 5 + 4 * 5 * 2));
  EXPECT_LT(report["functions"][0]["operations"], 2 * (4 * 3 * 5 + 4 * 5 * 2) + 200);
  EXPECT_EQ(report["weights"]["place"], "in the library");
  std::map<std::string, Json> targets;
  for (const Json& target : report["targets"]) targets[target["target"]] = target;
  EXPECT_EQ(targets["cpu"]["code"], Json::parse(R"(["x86-64-v3"])"));
  EXPECT_EQ(targets["cuda"]["code"], Json::parse(R"(["PTX for sm_80"])"));
  // What the manifest says, which the compiler wrote from its own plan.
  const Json manifest = Json::parse(good("--from=graph small.graph -march=ptx --emit=manifest"));
  for (const Json& target : manifest["targets"]) {
    const Json& function = target["functions"][0];
    EXPECT_EQ(targets[target["target"]]["functions"][0]["planned_peak_bytes"], function["planned_peak_bytes"]);
    EXPECT_EQ(targets[target["target"]]["functions"][0]["workspace_bytes"], function["peak_bytes"]);
    EXPECT_EQ(targets[target["target"]]["functions"][0]["launches"], function["num_launches"]);
  }
  good("--from=graph small.graph --weights=file -o apart.so");
  EXPECT_EQ(inspect("apart.so")["weights"]["place"], "in a file of their own");
  good("--from=graph small.graph --matmul-precision=medium -o rounded.so");
  EXPECT_EQ(inspect("rounded.so")["flags"], "-O2 --matmul-precision=high");
  good("--from=graph small.graph --matmul-precision=ieee -o exact.so");
  EXPECT_EQ(inspect("exact.so")["flags"], "-O2 --matmul-precision=ieee");
}

TEST_F(Inspect, WhatDependsOnTheOrderOfUpdates) {
  folder_.write("sum.prims",
                "graph @g(%x: f32[64, 100], %i: i64[10, 1], %u: f32[10, 100]) -> (%y: f32[64, 100]) {\n"
                "  %y: f32[64, 100] = scatter_nd(%x, %i, %u) {combiner=\"add\"}\n}\n");
  const auto targets = [&](const std::string& flags) {
    return Json::parse(good("--from=prims sum.prims -march=ptx --emit=manifest " + flags))["targets"];
  };
  for (const Json& target : targets("")) {
    const bool cpu = target["target"] == "cpu";
    EXPECT_EQ(target["deterministic"], cpu);
    EXPECT_EQ(target["kernels"].back().contains("depends_on_order"), !cpu);
  }
  for (const Json& target : targets("--deterministic")) EXPECT_EQ(target["deterministic"], true);
  const std::string atomics = good("--from=prims sum.prims --target=cuda --emit=schedule");
  folder_.write("atomics.schedule", atomics);
  const Result refused =
      run_tcc("--from=prims sum.prims --target=cuda -march=ptx --deterministic --schedule=atomics.schedule -o s.so", folder_.path());
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("with --deterministic, the kernel `k1` makes updates of one element in any order"), std::string::npos)
      << refused.err;
}

TEST_F(Inspect, Training) {
  good("--from=graph small.graph --mode=train --loss=mse --optimizer=adam --target=cpu -o t.so");
  const Json library = inspect("t.so");
  EXPECT_EQ(library["state"]["parameter_elements"], 30);  // 3 x 5 + 5 + 5 x 2
  EXPECT_EQ(library["flags"], "-O2 --mode=train --loss=mse --optimizer=adam");
  EXPECT_EQ(library["scalars"][0]["name"], "lr");
  std::set<std::string> functions;
  for (const Json& function : library["functions"]) functions.insert(function["name"]);
  EXPECT_TRUE(functions.contains("step") && functions.contains("infer"));
  good("run t.so --random --steps 3 --device cpu --save-state s.safetensors");
  const Json state = inspect("s.safetensors");
  EXPECT_EQ(state["kind"], "state of a training");
  EXPECT_EQ(state["steps"], 3);
  EXPECT_EQ(state["parameter_elements"], 30);
}

TEST_F(Inspect, FilesThatAreNothing) {
  good("--from=graph small.graph --target=cpu -o small.so");
  const std::string bytes = folder_.read("small.so");
  for (const size_t size : {size_t{100}, bytes.size() / 2, bytes.size() - 100}) {
    folder_.write("cut.so", bytes.substr(0, size));
    const Result result = run_tcc("inspect cut.so", folder_.path());
    EXPECT_EQ(result.exit_code, 5) << size << result.err;
    EXPECT_NE(result.err.find("[unusable-library]"), std::string::npos) << result.err;
  }
  // Any word of the program's tables may be wrong: it is refused, or read as something else, and nothing worse.
  const size_t program = bytes.find(std::string("tccprog\0", 8));
  ASSERT_NE(program, std::string::npos);
  for (size_t at = 16; at < 2000 && program + at + 4 < bytes.size(); at += 52) {
    std::string damaged = bytes;
    for (size_t i = 0; i < 4; ++i) damaged[program + at + i] = '\xee';
    folder_.write("damaged.so", damaged);
    const Result result = run_tcc("inspect damaged.so --json", folder_.path());
    EXPECT_TRUE(result.exit_code == 0 || result.exit_code == 5) << at << ": " << result.exit_code << " " << result.err;
  }
  EXPECT_EQ(run_tcc("inspect /bin/true", folder_.path()).exit_code, 5);
  EXPECT_EQ(run_tcc("inspect none.onnx", folder_.path()).exit_code, 5);
  folder_.write("text.txt", "not a model at all");
  EXPECT_EQ(run_tcc("inspect text.txt", folder_.path()).exit_code, 1);
}

}  // namespace
}  // namespace tcc::test
