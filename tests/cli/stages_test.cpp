// Single passes and stages: run alone, printed, changed by hand, and put back into a model (--pass, --print-after, --schedule, --kernel).
#include <sstream>

#include "cli/commands.h"

namespace tcc::test {
namespace {

using Stages = Commands;

TEST_F(Stages, PassesOnPrimsRunAlone) {
  const std::string model = "\"$MODELS/mnist_mlp/unoptimized.onnx\" --target=cpu --emit=prims --pass=bind-shapes --pass=resolve --pass=";
  refused(model + "split-wide-nodes", 2, "--pass=split-wide-nodes takes a graph of prims [invalid-argument]");
  refused(model + "decompose --pass=forward-half", 2, "--pass=forward-half takes a graph with its gradients [invalid-argument]");
  refused(model + "decompose --pass=choose-residuals", 2, "--pass=choose-residuals takes a graph with its gradients [invalid-argument]");
  const std::string joint = model + "build-joint --pass=decompose --mode=grad --remat=full --pass=";
  const std::string saves = good(joint + "split-wide-nodes --pass=choose-residuals");
  EXPECT_NE(saves.find("%grad.1.weight: f32[64, 784] = "), std::string::npos);
  EXPECT_NE(good(joint + "choose-residuals --pass=forward-half").find("%saved."), std::string::npos);
  const std::string backward = good(joint + "choose-residuals --pass=backward-half");
  EXPECT_NE(backward.find("%grad.1.weight: f32[64, 784] = "), std::string::npos) << backward;
}

TEST_F(Stages, StagesBehindThePassesArePrinted) {
  folder_.write("g.graph", "graph @g(%x: f32[2, 3]) -> (%y: f32[2, 3]) {\n  %y: f32[2, 3] = relu(%x)\n}\n");
  const std::string command = "--from=graph g.graph --target=cpu --print-after=";
  const auto expect = [&](const std::string& stages, const std::vector<std::string>& parts) {
    const Result result = tcc(command + stages);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    size_t at = 0;
    for (const std::string& part : parts) {
      at = result.err.find(part, at);
      EXPECT_NE(at, std::string::npos) << part << " in\n" << result.err;
    }
  };
  expect("lower-units", {"// after lower-units\nunit (%a0: f32[2, 3]) -> (%r0: f32[2, 3]) {"});
  const std::vector<std::string> all = {"// after form-groups\ngroups @g", "// after lower-units\nunit (",
                                        "// after schedule-units for cpu\n// ", "\nkernel #unit0_0 target x86-64-v3 ",
                                        "// after make-plan for cpu\nplan @g "};
  expect("form-groups,lower-units,schedule-units,make-plan", all);
  expect("all", all);
  EXPECT_EQ(tcc(command + "changed").err.find("lower-units"), std::string::npos);  // of passes on graphs
}

/// The lines that say why a form was taken left out.
std::string without_comments(const std::string& text) {
  std::istringstream lines(text);
  std::string kept;
  for (std::string line; std::getline(lines, line);) kept += line.starts_with("//") ? "" : line + "\n";
  return kept;
}

class Replace : public Commands {
 protected:
  const std::string model_ = "\"$MODELS/mnist_mlp/dynamo.onnx\" ";
  const std::string training_ = "\"$MODELS/mnist_mlp/unoptimized.onnx\" --mode=train --loss=cross_entropy --optimizer=adamw ";

  /// The text of one kernel of what --emit=kernel prints.
  static std::string cut(const std::string& text, const std::string& name) {
    const size_t begin = text.find("kernel #" + name + " ");
    if (begin == std::string::npos) return "";
    return text.substr(begin, text.find("\nkernel #", begin) + 1 - begin);
  }
  static std::string replaced(std::string text, const std::string& old, const std::string& by) {
    const size_t at = text.find(old);
    EXPECT_NE(at, std::string::npos) << old << " in\n" << text;
    return at == std::string::npos ? text : text.replace(at, old.size(), by);
  }
};

TEST_F(Replace, WhatIsPrintedReadsBackUnchanged) {
  for (const std::string& model : {model_, training_}) {
    for (const std::string target : {"cpu", "cuda"}) {
      const std::string command = model + "--target=" + target + " --emit=";
      const std::string schedules = good(command + "schedule"), kernels = good(command + "kernel");
      folder_.write("s", schedules);
      EXPECT_EQ(good(command + "schedule --schedule=s"), schedules);
      EXPECT_EQ(good(command + "kernel --schedule=" + target + "=s"), kernels);
      folder_.write("k0", cut(kernels, "k0"));
      EXPECT_EQ(good(command + "kernel --kernel=k0=k0"), kernels);
    }
  }
}

TEST_F(Replace, AScheduleGoesIn) {
  const std::pair<std::string, std::string> changes[] = {{"cpu", "bind(i, parallel)"},
                                                         {"cuda", "split(i, 2) bind(i_0, block) bind(i_1, thread)"}};
  for (const auto& [target, schedule] : changes) {
    const std::string command = model_ + "--target=" + target + " --emit=";
    const std::string before = good(command + "kernel");
    folder_.write("s", "// the last layer\n\nk1:  " + schedule + "\n");
    const std::string flag = " --schedule=" + target + "=s", after = good(command + "kernel" + flag);
    EXPECT_EQ(cut(after, "k0"), cut(before, "k0"));
    EXPECT_NE(cut(after, "k1"), cut(before, "k1"));
    EXPECT_NE(good(command + "schedule" + flag).find("\nk1: " + schedule + "\n"), std::string::npos);
    EXPECT_NE(good(command + (target == "cpu" ? "asm" : "ptx") + flag), good(command + (target == "cpu" ? "asm" : "ptx")));
    // The units of both targets are the same; each below the names of its kernels.
    EXPECT_NE(good(command + "loop").find("// k1\n// 3/node_linear_1\nunit ("), std::string::npos);
  }
  folder_.write("s", "k1: bind(i, parallel)\n");
  good("verify " + model_ + "--device cpu --target=cpu --schedule=s");
  good(model_ + "--target=cpu --schedule=s -o a.so");
  good(model_ + "--target=cpu -o b.so");
  EXPECT_NE(folder_.read("a.so"), folder_.read("b.so"));
}

TEST_F(Replace, AUnitOfSeveralKernelsHasOneSchedule) {
  folder_.write("g.graph", "graph @g(%x: f32[1048576]) -> (%y: f32[]) {\n  %y: f32[] = reduce_sum(%x) {axes=[0]}\n}\n");
  const std::string command = "--from=graph g.graph --target=cuda --emit=";
  const std::string lines = without_comments(good(command + "schedule"));
  const size_t second = lines.find("\nk1: ");
  ASSERT_NE(second, std::string::npos) << lines;
  const std::string line = lines.substr(4, second - 4);
  ASSERT_EQ(lines, "k0: " + line + "\nk1: " + line + "\n");
  EXPECT_TRUE(good(command + "loop").starts_with("// k0, k1\n"));
  // One changed line is enough; the other says what was there.
  folder_.write("s", "k0: " + line + "\nk1:\n");
  EXPECT_EQ(without_comments(good(command + "schedule --schedule=s")), "k0: \n");
  folder_.write("s", "k0: bind(i, thread)\nk1:\n");
  refused(command + "schedule --schedule=s", 2,
          "s:2: error: `k1` is cut from one unit with `k0` of s:1, which has another schedule [invalid-argument]");
}

TEST_F(Stages, CommentsNameWhatKernelsCompute) {
  const std::string labels = "// 1/node_linear + 2/node_relu\n";
  for (const char* kind : {"kernel", "loop", "schedule", "ptx"}) {
    const std::string text = good("$MODELS/mnist_mlp/dynamo.onnx --target=cuda --emit=" + std::string(kind));
    const size_t at = text.find(labels);
    ASSERT_NE(at, std::string::npos) << kind << ":\n" << text;
    const std::map<std::string, std::string> behind = {
        {"kernel", "kernel #k0 "}, {"loop", "unit ("}, {"schedule", "// contraction: "}, {"ptx", ".visible .entry k0("}};
    EXPECT_EQ(text.substr(at + labels.size(), behind.at(kind).size()), behind.at(kind));
  }
}

TEST_F(Replace, AKernelGoesIn) {
  const std::string alone = good(model_ + "--target=cpu --emit=kernel");
  // One that computes the same otherwise.
  folder_.write("k0", replaced(cut(alone, "k0"), "bind(serial)", "bind(unroll)"));
  good("verify " + model_ + "--device cpu --target=cpu --kernel=k0=k0");
  // One that stores what no layer does. Where CUDA reads the weights, too, they are as the model has them.
  good(model_ + "--target=cpu,cuda --emit=kernel=before");
  const std::string cpu = folder_.read("before.cpu"), cuda = folder_.read("before.cuda");
  const auto stores_seven = [&](const std::string& text) {
    const size_t result = text.find(", %r0["), store = text.rfind("store ", result);
    return result == std::string::npos ? text : text.substr(0, store) + "store 7.5" + text.substr(result);
  };
  folder_.write("cpu", stores_seven(cut(cpu, "k1")));
  folder_.write("cuda", stores_seven(cut(cuda, "k1")));
  const std::string both = "--kernel=k1=cpu --kernel=k1=cuda ";
  EXPECT_EQ(good(model_ + both + "--target=cpu,cuda --emit=kernel=out --emit=ptx=out.ptx"), "");
  for (const std::string target : {"cpu", "cuda"}) {
    EXPECT_EQ(cut(folder_.read("out." + target), "k1"), folder_.read(target));
    EXPECT_EQ(cut(folder_.read("out." + target), "k0"), cut(target == "cpu" ? cpu : cuda, "k0"));
  }
  EXPECT_NE(folder_.read("out.ptx").find("1089470464"), std::string::npos);  // the bits of 7.5
  good(model_ + both + "-o m.so");
  EXPECT_NE(good("run m.so --device cpu --random").find("min 7.5 max 7.5"), std::string::npos);
  EXPECT_EQ(tcc("verify " + model_ + "--device cpu --target=cpu --kernel=k1=cpu").exit_code, 3);
}

TEST_F(Replace, KernelsOfATrainingGoIn) {
  const std::string command = training_ + "--target=cpu --emit=kernel";
  const std::string before = good(command);
  folder_.write("k0", replaced(cut(before, "k0"), "bind(serial)", "bind(unroll)"));
  EXPECT_EQ(good(command + " --kernel=k0=k0"), replaced(before, cut(before, "k0"), folder_.read("k0")));
}

TEST_F(Replace, WhatDoesNotFitIsRefused) {
  const std::string cpu = model_ + "--target=cpu --emit=kernel ", kernels = good(cpu);
  const auto schedule = [&](const std::string& text, const std::string& message) {
    folder_.write("s", text);
    refused(cpu + "--schedule=s", 2, message);
  };
  schedule("k9: bind(i, parallel)\n",
           "s:1: error: there is no kernel `k9` for cpu [invalid-argument]\ns:1: help: --emit=kernel prints them: k0 to k2");
  schedule("\nbind(i, parallel)\n", "s:2: error: a kernel and its schedule were expected, found `bind(i, parallel)` [invalid-argument]");
  schedule("k1: split(i 4)\n", "s:1: error: ");
  schedule("k1: split(zz, 4)\n", "s:1: error: `split(zz, 4)` does not fit: there is no loop `zz` [invalid-schedule]");
  schedule("k0: bind(i, lane)\n",
           "s:1: error: what the schedule makes can't run on x86-64-v3: %i is bound to lane, which x86-64-v3 does not have");
  folder_.write("s", "k0: bind(i, parallel)\n");
  refused(model_ + "-o m.so --schedule=s", 2,
          "error: --schedule=s: kernels are numbered for each target, and there are two [invalid-argument]");
  refused(cpu + "--schedule=cuda=s", 2, "error: --schedule=cuda=s: --target leaves cuda out [invalid-argument]");
  refused(cpu + "--schedule=none", 5, "none: error: file can't be read");
  refused("--from=kernel s --emit=kernel --schedule=s", 2, "error: --schedule says nothing with --from=kernel");

  folder_.write("k0", cut(kernels, "k0"));
  refused(cpu + "--kernel=k0", 2,
          "error: --kernel=k0: a kernel and a file were expected [invalid-argument]\ntcc: help: it is written --kernel=k3=FILE");
  refused(cpu + "--kernel=k3=k0", 2, "error: there is no kernel `k3` for cpu [invalid-argument]");
  refused(cpu + "--kernel=k1=k0", 2, "k0: error: parameter 0 is `%a0: f32[8, 784]`, `k1` has `%a0: f32[8, 64]` [invalid-argument]");
  refused(cpu + "--kernel=k2=k0", 2, "k0: error: the kernel has 4 parameters, `k2` has 2 [invalid-argument]");
  refused(model_ + "--target=cuda --emit=kernel --kernel=k0=k0", 2,
          "k0: error: the kernel is for `x86-64-v3`, the code is for `sm_90a` and `sm_80` [invalid-argument]");
  folder_.write("two", kernels);
  refused(cpu + "--kernel=k0=two", 2, "two: error: the text has 3 kernels, one was expected [invalid-argument]");
  folder_.write("bad", replaced(cut(kernels, "k0"), "bind(parallel)", "bind(lane)"));
  refused(cpu + "--kernel=k0=bad", 1, "bad: error: not well-formed kernel: ");
  refused(cpu + "--kernel=k0=none", 5, "none: error: file can't be read");
  refused(cpu + "--kernel=k0=k0 --emit=asm=k0", 2, "[overwritten-file]");
}

}  // namespace
}  // namespace tcc::test
