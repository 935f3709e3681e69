// The program as a user meets it: verbs, products, names of files, exit codes.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "cli/program.h"
#include "frontend/model_builder.h"
#include "tcc/support/npy.h"
#include "tcc/support/safetensors.h"

namespace tcc::test {
namespace {

class CommandLine : public testing::Test {
 protected:
  void SetUp() override { folder_.write("small.graph", small_graph()); }
  Result tcc(const std::string& arguments) const { return run_tcc(arguments, folder_.path()); }
  Result shell(const std::string& command) const { return run_shell(command, folder_.path()); }
  /// It works, and says nothing on stderr.
  std::string good(const std::string& arguments) const {
    const Result result = tcc(arguments);
    EXPECT_EQ(result.exit_code, 0) << arguments;
    EXPECT_EQ(result.err, "") << arguments;
    return result.out;
  }
  std::vector<std::string> new_files() const {
    std::vector<std::string> files = folder_.files();
    std::erase(files, "small.graph");
    return files;
  }
  Folder folder_;
};

using Files = std::vector<std::string>;

TEST_F(CommandLine, CompilesAndRuns) {
  EXPECT_EQ(good("--from=graph small.graph -o small.so"), "");
  EXPECT_EQ(new_files(), Files{"small.so"});
  Tensor x(DType::f32, {4, 3});
  for (int i = 0; i < 12; ++i) x.mutable_data<float>()[i] = 0.25F * static_cast<float>(i) - 1;
  write_npy(folder_ / "x.npy", x);
  const std::string text = good("run small.so --device cpu --input x.npy --save results");
  EXPECT_TRUE(text.starts_with("device: ")) << text;
  EXPECT_NE(text.find("\np: f32[4, 2] min "), std::string::npos) << text;
  const Tensor p = read_npy(folder_ / "results/0.npy");
  EXPECT_EQ(p.shape(), (Shape{4, 2}));
  for (int row = 0; row < 4; ++row) EXPECT_NEAR(p.as_double(2 * row) + p.as_double(2 * row + 1), 1, 1e-6);
  EXPECT_EQ(good("run small.so --device cpu --input x=x.npy"), text);
  // The same values for the same seed.
  EXPECT_EQ(good("run small.so --device cpu --random --seed 5"), good("run small.so --device cpu --random --seed 5"));
  EXPECT_NE(good("run small.so --device cpu --random --seed 5"), good("run small.so --device cpu --random --seed 6"));
  const Result json = shell(
      "\"$TCC\" run small.so --device cpu --random --json | python3 -c 'import json, sys; r = json.load(sys.stdin); "
      "print(r[\"outputs\"][0][\"shape\"])'");
  if (json.exit_code == 0) { EXPECT_EQ(json.out, "[4, 2]\n"); }
}

TEST_F(CommandLine, BenchReportsWhatItPromises) {
  good("--from=graph --target=cpu small.graph -o small.so");
  const std::string json = good("bench small.so --runs 7 --warmup 1 --threads 1 --json");
  for (const char* key :
       {"\"device\"", "\"runs\": 7,", "\"median_us\"", "\"p90_us\"", "\"p99_us\"", "\"host_median_us\"", "\"peak_bytes\""}) {
    EXPECT_NE(json.find(key), std::string::npos) << key << "\n" << json;
  }
  const std::string text = good("bench small.so --runs 7 --profile");
  for (const char* word : {"throughput", "latency median", "latency p99", "softmax/Softmax"})
    EXPECT_NE(text.find(word), std::string::npos) << word << "\n" << text;
}

TEST_F(CommandLine, VerifySaysItsVerdict) {
  const std::string text = good("verify --from=graph --device cpu small.graph");
  EXPECT_NE(text.find("\np: f32[4, 2] largest difference"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\npassed: 1 output; rtol 1e-4, atol 1e-5 or 2e-5 of the largest element (f32)\n")) << text;
  EXPECT_NE(good("check --from=graph small.graph").find("every node is supported"), std::string::npos);

  const Result strict = tcc("verify --from=graph --device cpu --rtol 0 --atol 0 small.graph");  // rounding is a difference now
  EXPECT_EQ(strict.exit_code, 3) << strict.err;
  EXPECT_TRUE(strict.out.ends_with("\nfailed: 1 of 1 output; exact (f32)\n")) << strict.out;
  // Both numbers have the digits that tell them apart.
  const size_t at = strict.err.find("]: ");
  ASSERT_NE(at, std::string::npos) << strict.err;
  const std::string found = strict.err.substr(at + 3, strict.err.find(',', at) - at - 3);
  EXPECT_EQ(strict.err.find(", the interpreter gives " + found + " "), std::string::npos) << strict.err;
  const size_t said = strict.err.find("elements differ");
  ASSERT_NE(said, std::string::npos) << strict.err;
  EXPECT_NE(strict.err.find("the first value that differs is made here"), std::string::npos) << strict.err;

  for (const std::string flag : {"--rtol=-1", "--atol=-1e-9", "--rtol=nan"}) {
    const Result refused = tcc("verify --from=graph --device cpu small.graph " + flag);
    EXPECT_EQ(refused.exit_code, 2) << flag;
    EXPECT_NE(refused.err.find(": a number was expected, at least 0 [invalid-argument]"), std::string::npos) << refused.err;
  }
}

// The lines of the outputs come before the error, also where both streams go to one place.
TEST_F(CommandLine, VerifyPrintsInOrder) {
  const Result both = run_shell("( \"$TCC\" verify --from=graph --device cpu --rtol 0 --atol 0 small.graph 2>&1 ) | cat", folder_.path());
  EXPECT_LT(both.out.find("failed: 1 of 1"), both.out.find("error: output `p`")) << both.out;
}

TEST_F(CommandLine, VerifyAndCheckAsJson) {
  const std::string passed = good("verify --from=graph --device cpu --json small.graph");
  for (const char* part : {"\"passed\": true", "\"name\": \"p\"", "\"rounding\": \"f32\"", "\"rtol\": 0.0001", "\"of_largest\": 2e-05"})
    EXPECT_NE(passed.find(part), std::string::npos) << part << passed;
  EXPECT_TRUE(passed.starts_with("{") && passed.ends_with("}\n"));
  const Result failed = tcc("verify --from=graph --device cpu --rtol 0 --atol 0 --json small.graph");
  EXPECT_EQ(failed.exit_code, 3);
  for (const char* part : {"\"passed\": false", "\"worst\": {", "\"first_difference\": {"})
    EXPECT_NE(failed.out.find(part), std::string::npos) << part << failed.out;
  const std::string checked = good("check --from=graph --json small.graph");
  EXPECT_NE(checked.find("\"supported\": true"), std::string::npos) << checked;
  EXPECT_NE(checked.find("\"prims\": "), std::string::npos) << checked;
  folder_.write("bad.graph", "graph @g(%x: f32[n]) -> (%y: f32[n]) { %y: f32[n] = relu(%x) }\n");
  const Result open = tcc("check --from=graph --json bad.graph");
  EXPECT_EQ(open.exit_code, 1);
  EXPECT_EQ(open.err, "");
  EXPECT_NE(open.out.find("\"supported\": false"), std::string::npos) << open.out;
  EXPECT_NE(open.out.find("\"kind\": \"unbound-size\""), std::string::npos) << open.out;
}

// An op that is not known is one message with all of its nodes.
TEST_F(CommandLine, CheckAsJsonGroupsNodes) {
  onnx::ModelBuilder model;
  model.input("x", onnx::pb::TensorProto::FLOAT, {2});
  for (int i = 0; i < 12; ++i) model.node("NoSuchOp", {"x"}, {"y" + std::to_string(i)}, {}, "n" + std::to_string(i));
  model.node("NoOtherOp", {"x"}, {"z"}, {}, "other");
  model.output("z", onnx::pb::TensorProto::FLOAT);
  folder_.write("net.onnx", model.bytes());
  const Result result = tcc("check --json net.onnx");
  EXPECT_EQ(result.exit_code, 1);
  const auto report = nlohmann::json::parse(result.out);
  ASSERT_EQ(report.at("diagnostics").size(), 2U) << result.out;
  const auto& first = report.at("diagnostics")[0];
  EXPECT_EQ(first.at("where"), "net.onnx:n0");
  ASSERT_EQ(first.at("also").size(), 11U);
  EXPECT_EQ(first.at("also")[10], "net.onnx:n11");
  EXPECT_EQ(first.at("helps").size(), 1U);
  EXPECT_FALSE(report.at("diagnostics")[1].contains("also"));
}

// What a Cast rounds is the model's own doing.
TEST_F(CommandLine, VerifyRoundsWhereTheModelDoes) {
  for (const std::string narrow : {"f16", "bf16"}) {
    folder_.write("cast.graph", "graph @g(%x: f32[64]) -> (%y: f32[64]) {\n  %n: " + narrow + "[64] = cast(%x) {dtype=" + narrow +
                                    "}\n  %y: f32[64] = cast(%n) {dtype=f32}\n}\n");
    EXPECT_NE(good("verify --from=graph --device cpu cast.graph").find("passed: 1 output; exact"), std::string::npos) << narrow;
  }
  folder_.write("pow.graph",
                "graph @g(%x: f32[8]) -> (%y: f32[8]) {\n  weight @e: f32[8] = [1, 2, 3, 0.5, 2, 2, 2, 2]\n"
                "  %y: f32[8] = pow(%x, @e)\n}\n");
  EXPECT_NE(good("verify --from=graph --mode=grad --wrt='*' --device cpu pow.graph").find("passed: 3 outputs, 2 derivatives"),
            std::string::npos);
}

// The last digit of a large number in 16 bits is much to a softmax: no program has the reference's numbers, and none is wrong for that.
TEST_F(CommandLine, VerifyAllowsWhatRoundingMoves) {
  std::string all;
  for (const std::string narrow : {"f16", "bf16"}) {
    std::string text = R"(graph @g(%x: T[8, 64], %w: T[64, 96], %o: T[96], %v: T[96, 64]) -> (%y: T[8, 64], %p: T[8, 64]) {
  %a: T[8, 96] = matmul(%x, %w)
  %b: T[8, 96] = add(%a, %o)
  %c: T[8, 96] = gelu(%b) {approximate="none"}
  %y: T[8, 64] = matmul(%c, %v)
  %p: T[8, 64] = softmax(%y) {axis=1}
}
)";
    for (size_t at = 0; (at = text.find("T[", at)) != std::string::npos;) text.replace(at, 1, narrow);
    folder_.write("steep.graph", text);
    for (const char* seed : {"0", "1", "2", "3"}) all += good("verify --from=graph --device cpu steep.graph --seed " + std::string(seed));
  }
  EXPECT_NE(all.find(", rounding on the way allows "), std::string::npos) << all;
}

TEST_F(CommandLine, VerifyTakesUnitsAndKernels) {
  const std::string unit = std::string(TCC_TEST_DATA_DIR) + "/../schedule/small/softmax.loop";
  const std::string chosen = good("verify --from=loop --device cpu '" + unit + "'");
  EXPECT_NE(chosen.find("passed: 1 output; rtol 1e-4"), std::string::npos) << chosen;
  good("verify --from=loop --device cpu '" + unit + "' --pass='bind(i, parallel)'");
  good("--from=loop '" + unit + "' --target=cpu --emit=kernel=one.kernel");
  good("verify --from=kernel --device cpu one.kernel");
  good("--from=graph small.graph --target=cpu --emit=loop=all.loop");
  const Result several = tcc("verify --from=loop --device cpu all.loop");
  EXPECT_EQ(several.exit_code, 2);
  EXPECT_NE(several.err.find(" units, one was expected: what passes between them is not in the text"), std::string::npos) << several.err;
  EXPECT_EQ(tcc("verify --from=loop --mode=grad '" + unit + "'").exit_code, 2);
  EXPECT_EQ(tcc("check --from=loop '" + unit + "'").exit_code, 2);
}

TEST_F(CommandLine, OneProductGoesToStandardOutput) {
  EXPECT_TRUE(good("--from=graph small.graph --emit=graph").starts_with("graph @small("));
  EXPECT_TRUE(good("--from=graph small.graph --emit=prims").starts_with("graph @small("));
  EXPECT_TRUE(good("--from=graph small.graph --emit=header").find("#include") != std::string::npos);
  EXPECT_TRUE(good("--from=graph --target=cpu small.graph --emit=plan").starts_with("plan @small target x86-64-v3"));
  EXPECT_TRUE(good("--from=graph small.graph --emit=ptx").find(".target sm_80") != std::string::npos);  // cuda alone has it
  EXPECT_EQ(new_files(), Files{});
}

TEST_F(CommandLine, OneProductOfBothTargetsGoesToStandardOutput) {
  const std::string text = good("--from=graph small.graph --emit=plan");
  EXPECT_TRUE(text.starts_with("// cuda\nplan @small target sm_80")) << text;
  EXPECT_NE(text.find("\n// cpu\nplan @small target x86-64-v3"), std::string::npos) << text;
  EXPECT_TRUE(good("--from=graph small.graph --emit=llvm").starts_with("; cuda\n"));
  const Result object = tcc("--from=graph small.graph --emit=obj");
  EXPECT_EQ(object.exit_code, 2);
  EXPECT_EQ(object.err,
            "tcc: error: --emit=obj: standard output takes the object of one target, there are two [invalid-argument]\n"
            "tcc: help: name one with --target, or write --emit=obj=PATH\n");
  EXPECT_EQ(new_files(), Files{});
}

TEST_F(CommandLine, SeveralProductsGoToFiles) {
  EXPECT_EQ(good("--from=graph small.graph --emit=groups,ptx,asm,manifest"), "");
  EXPECT_EQ(new_files(), (Files{"small.cpu.groups", "small.cpu.s", "small.cuda.groups", "small.cuda.ptx", "small.json"}));
}

TEST_F(CommandLine, PathsAndFolders) {
  EXPECT_EQ(good("--from=graph small.graph --emit=plan=out.txt,graph=- --emit=ptx=only.ptx").find("graph @small("), 0U);
  EXPECT_EQ(new_files(), (Files{"only.ptx", "out.cpu.txt", "out.cuda.txt"}));
  EXPECT_EQ(good("--from=graph --target=cpu small.graph --dump-dir=all"), "");
  std::set<std::string> kinds;
  for (const std::string& file : new_files()) {
    if (file.starts_with("all/")) kinds.insert(file.substr(4));
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"small.graph", "small.graph.safetensors", "small.prims", "small.prims.safetensors",
                                          "small.cpu.groups", "small.cpu.loop", "small.cpu.schedule", "small.cpu.kernel", "small.cpu.plan",
                                          "small.cpu.ll", "small.cpu.s", "small.cpu.o", "small.h", "small.json"}));
}

TEST_F(CommandLine, WeightsGoBesideTheText) {
  good("--from=graph small.graph --emit=prims=p.prims");
  EXPECT_EQ(new_files(), (Files{"p.prims", "p.prims.safetensors"}));
  EXPECT_TRUE(folder_.read("p.prims").starts_with("weights \"p.prims.safetensors\"\n"));
  EXPECT_FALSE(read_safetensors(folder_ / "p.prims.safetensors").tensors.empty());
  // From there to the same library, byte for byte, as from the graph.
  good("--from=prims p.prims -o a.so --soname=none");
  good("--from=graph small.graph -o b.so --soname=none");
  EXPECT_EQ(shell("cmp a.so b.so").exit_code, 0);
  const std::string text = good("--from=graph small.graph --emit=graph --emit-weights=w.safetensors");
  EXPECT_TRUE(text.starts_with("weights \"w.safetensors\"\n")) << text;
}

TEST_F(CommandLine, LoopsAndKernelsComeBackIn) {
  folder_.write("u.graph", "graph @u(%x: f32[64, 48]) -> (%y: f32[64, 48]) {\n  %y: f32[64, 48] = softmax(%x) {axis=1}\n}\n");
  good("--from=graph u.graph --emit=loop=u.loop --target=cpu");
  good("--from=graph u.graph --emit=kernel=u.kernel --target=cpu");
  // Without the model nothing knows its names.
  const std::regex names("// y\\.[^\n]*\n");
  const std::string loops = folder_.read("u.loop"), kernels = folder_.read("u.kernel");
  EXPECT_TRUE(std::regex_search(loops, names) && std::regex_search(kernels, names)) << loops << kernels;
  EXPECT_EQ(good("--from=loop u.loop --emit=loop --target=cpu"), std::regex_replace(loops, names, ""));
  EXPECT_EQ(good("--from=loop u.loop --emit=kernel --target=cpu"), std::regex_replace(kernels, names, ""));
  EXPECT_EQ(good("--from=kernel u.kernel --emit=kernel"), std::regex_replace(kernels, names, ""));
  good("--from=loop u.loop -o u.so");
  EXPECT_NE(good("run u.so --device cpu --random").find("f32[64, 48]"), std::string::npos);
}

TEST_F(CommandLine, PassesRunAlone) {
  folder_.write("g.graph",
                "graph @g(%x: f32[2, 3]) -> (%y: f32[2, 3]) {\n  %a: f32[2, 3] = relu(%x)\n  %dead: f32[2, 3] = exp(%x)\n  %y: f32[2, 3] = "
                "relu(%x)\n}\n");
  const std::string dead = good("--from=graph g.graph --pass=eliminate-dead-code --emit=graph");
  EXPECT_EQ(dead.find("exp"), std::string::npos);
  const std::string model = "\"$MODELS/mnist_mlp/unoptimized.onnx\" --mode=grad --emit=graph --pass=";
  const Result unresolved = tcc(model + "build-joint");
  EXPECT_EQ(unresolved.exit_code, 2);
  EXPECT_NE(unresolved.err.find("--pass=build-joint takes a graph in which all types are known [invalid-argument]"), std::string::npos)
      << unresolved.err;
  EXPECT_NE(good(model + "bind-shapes --pass=resolve --pass=build-joint --pass=decompose").find("%grad.1.weight: f32[64, 784] = "),
            std::string::npos);
  const Result printed = tcc("--from=graph g.graph --emit=prims --print-after=eliminate-dead-code,changed");
  EXPECT_EQ(printed.exit_code, 0);
  EXPECT_NE(printed.err.find("// after eliminate-dead-code"), std::string::npos) << printed.err;
  const Result report = tcc("--from=graph g.graph -o g.so --time-report");
  for (const char* stage : {" split-wide-nodes\n", " form-groups\n", " lower-units\n", " schedule-units\n", " make-plan\n"})
    EXPECT_NE(report.err.find(stage), std::string::npos) << stage << report.err;
}

TEST_F(CommandLine, SameInputsGiveTheSameBytes) {
  for (const char* model : {"$MODELS/mnist_cnn/dynamo.onnx", "$MODELS/bert_tiny/legacy.onnx"}) {
    good(std::string(model) + " -j 1 -o a.so");
    good(std::string(model) + " -j 3 -o sub.so --soname=a.so");
    EXPECT_EQ(shell("cmp a.so sub.so").exit_code, 0) << model;
  }
}

TEST_F(CommandLine, NeedsOnlyTheCLibrary) {
  good("--from=graph small.graph -o small.so");
  const Result result = shell(
      "readelf --dynamic --wide small.so | grep NEEDED | grep -vE "
      "'\\[(libc\\.so\\.6|libm\\.so\\.6|libpthread\\.so\\.0|libdl\\.so\\.2)\\]'");
  EXPECT_EQ(result.out, "");
}

TEST_F(CommandLine, TheLibraryIsAskedForByItsFileName) {
  const auto soname = [&](const std::string& file) {
    return shell("readelf --dynamic --wide " + file + " | sed -n 's/.*SONAME.*\\[\\(.*\\)\\]/\\1/p'").out;
  };
  shell("mkdir sub");
  good("--from=graph small.graph -o sub/libsmall.so");
  EXPECT_EQ(soname("sub/libsmall.so"), "libsmall.so\n");
  good("--from=graph small.graph -o small.so --soname=libsmall.so.1");
  EXPECT_EQ(soname("small.so"), "libsmall.so.1\n");
  good("--from=graph small.graph -o small.so --soname=none");
  EXPECT_EQ(soname("small.so"), "");
}

TEST_F(CommandLine, EqualBodiesAreCompiledOnce) {
  // Two layers of a transformer: the second is the first again.
  const std::string plan = good("$MODELS/vit_tiny/dynamo.onnx --target=cpu --emit=plan");
  const std::string kernels = good("$MODELS/vit_tiny/dynamo.onnx --target=cpu --emit=kernel");
  const auto count = [](const std::string& text, const std::string& word) {
    int found = 0;
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += word.size()) ++found;
    return found;
  };
  // What makes constants has no code in the library.
  const int num_kernels = count("\n" + kernels, "\nkernel #") - count("\n" + kernels, "\n// constants of ");
  EXPECT_GE(count(plan, "\n  launch "), 2 * num_kernels - 4) << plan;
  const std::string assembly = good("$MODELS/vit_tiny/dynamo.onnx --target=cpu --emit=asm");
  EXPECT_EQ(count(assembly, "\t.globl\ttcc_v3_k"), num_kernels);
}

TEST_F(CommandLine, RowsAreOneKernel) {
  const std::string in = "(%x: f32[64, 48]) -> (%y: f32[64, 48])", t = "f32[64, 48]";
  folder_.write("softmax.graph", "graph @g" + in + " {\n  %y: " + t + " = softmax(%x) {axis=1}\n}\n");
  folder_.write("norm.graph", "graph @g(%x: " + t + ", %g: f32[48], %b: f32[48]) -> (%y: " + t + ") {\n  %y: " + t +
                                  " = layer_norm(%x, %g, %b) {axis=1, epsilon=1e-05}\n}\n");
  std::string chain = "graph @g(%v0: " + t + ") -> (%v10: " + t + ") {\n";
  const char* ops[] = {"relu", "tanh", "exp", "neg", "sigmoid", "abs", "sqrt", "tanh", "neg", "relu"};
  for (int i = 0; i < 10; ++i) chain += "  %v" + std::to_string(i + 1) + ": " + t + " = " + ops[i] + "(%v" + std::to_string(i) + ")\n";
  folder_.write("chain.graph", chain + "}\n");
  for (const char* target : {"cpu", "cuda"}) {
    for (const char* name : {"softmax", "norm", "chain"}) {
      const std::string plan = good(std::string("--from=graph --emit=plan --target=") + target + " " + name + ".graph");
      const size_t first = plan.find("\n  launch ");
      EXPECT_NE(first, std::string::npos);
      EXPECT_EQ(plan.find("\n  launch ", first + 1), std::string::npos) << plan;
    }
  }
}

TEST_F(CommandLine, MakefileRules) {
  good("--from=graph small.graph -o small.so -MD");
  EXPECT_EQ(folder_.read("small.so.d"), "small.so: small.graph\n");
  good("--from=graph small.graph -o small.so -MF rule.d");
  EXPECT_EQ(folder_.read("rule.d"), "small.so: small.graph\n");
  EXPECT_EQ(good("--from=graph small.graph --emit=header=m.h,plan=m.plan --target=cpu -MF -"), "m.h m.plan: small.graph\n");
}

// Every file that is read is in the rule; one that changes or vanishes makes the library anew.
TEST_F(CommandLine, MakeRebuilds) {
  if (shell("make --version").exit_code != 0) GTEST_SKIP() << "there is no make";
  write_npy(folder_ / "a value #1.npy", Tensor(DType::f32, {4, 3}));
  good("--from=graph small.graph --emit=graph='g$(touch PWN).graph'");
  folder_.write("Makefile",
                "m.so:\n\t\"$$TCC\" --from=graph 'g$$(touch PWN).graph' --bind 'x=a value #1.npy' -MD -o $@\n-include m.so.d\n");
  const auto make = [&] {
    const Result result = shell("make -rR m.so");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out.find("is up to date") == std::string::npos;
  };
  EXPECT_TRUE(make());
  EXPECT_FALSE(make());
  EXPECT_EQ(folder_.read("m.so.d"),
            "m.so: g$$(touch\\ PWN).graph a\\ value\\ \\#1.npy g$$(touch\\ PWN).graph.safetensors\n\n"
            "a\\ value\\ \\#1.npy:\n\ng$$(touch\\ PWN).graph.safetensors:\n");
  for (const std::string name : {"g$(touch PWN).graph", "g$(touch PWN).graph.safetensors", "a value #1.npy"}) {
    EXPECT_EQ(shell("touch -d '+1 hour' '" + name + "' && touch -d '+1 minute' m.so").exit_code, 0);
    EXPECT_TRUE(make()) << name;
    EXPECT_EQ(shell("touch -d '+2 hours' m.so").exit_code, 0);
    EXPECT_FALSE(make()) << name;
    EXPECT_EQ(shell("touch '" + name + "' m.so").exit_code, 0);
  }
  EXPECT_EQ(shell("rm 'a value #1.npy'; make -rR m.so").err.find("No rule to make target"), std::string::npos);
  const Files files = folder_.files();
  EXPECT_EQ(std::count(files.begin(), files.end(), "PWN"), 0);
}

TEST_F(CommandLine, StandardInput) {
  const Result result = shell("cat \"$MODELS/mnist_mlp/dynamo.onnx\" | \"$TCC\" - -o piped.so");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  good("$MODELS/mnist_mlp/dynamo.onnx -o named.so");
  EXPECT_EQ(folder_.files(), (Files{"named.so", "piped.so", "small.graph"}));
}

TEST_F(CommandLine, WeightsInAFileOfTheirOwn) {
  good("--from=graph --weights=file small.graph -o small.so");
  EXPECT_EQ(new_files(), (Files{"small.so", "small.so.weights"}));
  good("--from=graph small.graph -o whole.so");
  const auto outputs = [&](const std::string& arguments) {
    const std::string text = good("run " + arguments + " --device cpu --random");
    return text.substr(text.find('\n'));
  };
  EXPECT_EQ(outputs("small.so"), outputs("whole.so"));
  EXPECT_EQ(outputs("small.so --weights small.so.weights"), outputs("whole.so"));
}

// What fails last takes back, or never shows, what was ready before: here the library, behind its weights and the products.
TEST_F(CommandLine, ALibraryAndItsWeightsAppearTogether) {
  const std::string all = " --weights=file --emit=header=m.h,graph=m.graph -MD";
  good("--from=graph small.graph -o m.so" + all);
  const Files before = folder_.files();
  const auto contents = [&] { return shell("cat m.so m.so.weights m.h m.graph m.graph.safetensors m.so.d | cksum").out; };
  const std::string old = contents();
  folder_.write("other.graph", std::string(small_graph()).replace(small_graph().find("0.5"), 3, "7.5"));
  // A limit on file sizes below the library's stops the last of the files, as a full disk does.
  const Result full = shell("ulimit -f 40; \"$TCC\" --from=graph other.graph -o m.so" + all);
  EXPECT_EQ(full.exit_code, 5) << full.err;
  EXPECT_NE(full.err.find("ile too large"), std::string::npos) << full.err;
  const Result device = tcc("--from=graph other.graph -o m.so" + all + " --emit=plan=/dev/full --target=cpu");
  EXPECT_EQ(device.exit_code, 5);
  EXPECT_EQ(contents(), old);
  good("run m.so --device cpu --random");
  Files files = folder_.files();
  std::erase(files, "other.graph");
  EXPECT_EQ(files, before);
  good("--from=graph other.graph -o m.so" + all);
  EXPECT_NE(contents(), old);
  good("run m.so --device cpu --random");
}

}  // namespace
}  // namespace tcc::test
