// Inputs whose elements are indices: what random ones are drawn from, and what is said of one that is out of range.
#include <gtest/gtest.h>

#include "cli/commands.h"
#include "tcc/support/npy.h"

namespace tcc::test {
namespace {

class Indices : public Commands {
 protected:
  void SetUp() override {
    std::string rows, columns;
    for (int i = 0; i < 30; ++i) rows += (i > 0 ? ", " : "") + std::to_string(0.1 * i);
    for (int i = 0; i < 15; ++i) columns += (i > 0 ? ", " : "") + std::to_string(0.2 - 0.05 * i);
    // 10 rows of 3, 5 classes.
    folder_.write("embed.graph",
                  "graph @embed(%ids: i64[4], %mask: i64[4], %scale: f32[4, 3]) -> (%y: f32[4, 5]) {\n  weight @table: f32[10, 3] = [" +
                      rows + "]\n  weight @out: f32[3, 5] = [" + columns +
                      "]\n  %rows: f32[4, 3] = gather(@table, %ids) {axis=0}    loc(\"embed/Gather\")\n"
                      "  %keep: f32[4] = cast(%mask) {dtype=f32}\n"
                      "  %wide: f32[4, 3] = broadcast_in_dim(%keep) {dims=[0], shape=[4, 3]}\n"
                      "  %kept: f32[4, 3] = mul(%rows, %wide)\n  %scaled: f32[4, 3] = mul(%kept, %scale)\n"
                      "  %y: f32[4, 5] = matmul(%scaled, @out)    loc(\"out/MatMul\")\n}\n");
  }
};

TEST_F(Indices, RandomOnesAreDrawnFromWhatTheirUseAllows) {
  const auto holds = [](const std::string& text, const std::string& line) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  };
  const std::string library = "--from=graph --target=cpu embed.graph --emit=manifest=m.json -o e.so";
  good(library);
  EXPECT_NE(folder_.read("m.json").find("\"name\": \"ids\", \"dtype\": \"i64\", \"shape\": [4], \"bytes\": 32, \"range\": [0, 9]"),
            std::string::npos);
  for (const std::string& text :
       {good("run e.so --device cpu --random --seed 3"), good("bench e.so --device cpu --runs 2 --warmup 0 --seed 3"),
        good("verify --from=graph --target=cpu embed.graph --seed 3")}) {
    holds(text, "ids: i64[4] random in 0:9, seed 3\n");
    holds(text, "mask: i64[4] random in 0:1, seed 3\n");
    holds(text, "scale: f32[4, 3] random normal, seed 3\n");
  }
  holds(good("run e.so --device cpu --random --range ids=4:4 --range scale=-0.5:2 --range mask=1:1"),
        "ids: i64[4] random in 4:4, seed 0\n");
  holds(good("run e.so --device cpu --random --range scale=-0.5:2"), "scale: f32[4, 3] random in -0.5:2, seed 0\n");
  const std::string json = good("run e.so --device cpu --random --json");
  holds(json, "\"low\": 0,\n      \"high\": 9\n");
  for (const char* range : {"ids", "ids=", "ids=1", "ids=2:1", "ids=0.5:1", "ids=a:1", "ids=0:4294967296", "scale=1:nan"})
    refused(std::string("run e.so --device cpu --random --range ") + range, 2, std::string("--range=") + range + ": ");
  refused("run e.so --device cpu --random --range idx=0:1", 2, "--range: `idx` is not an input of the model [unknown-input]");
  refused("run e.so --device cpu --random --range ids=0:1 --range ids=0:2", 2, "--range is given twice for `ids`");
  write_npy(folder_ / "ids.npy", Tensor::from_ints({0, 1, 2, 3}));
  refused("run e.so --device cpu --random --input ids=ids.npy --range ids=0:1", 2, "--range is about random elements, but `ids` is given");
}

TEST_F(Indices, ClassesOfALossAreDrawnFromItsClasses) {
  good("--from=graph --target=cpu --mode=train --loss=cross_entropy --optimizer=sgd --train=out embed.graph -o step.so");
  EXPECT_NE(good("run step.so --device cpu --random --steps 1").find("target: i64[4] random in 0:4, seed 0\n"), std::string::npos);
}

TEST_F(Indices, OutOfRangeAreReportedByEveryVerb) {
  good("--from=graph --target=cpu embed.graph -o e.so");
  const auto give = [&](const std::string& name, std::vector<int64_t> values) { write_npy(folder_ / name, Tensor::from_ints(values)); };
  give("good.npy", {0, 9, -1, -10});
  give("bad.npy", {0, 9, 9999, -11});
  const std::string random = " --device cpu --random --input ids=";
  good("run e.so" + random + "good.npy");
  for (const std::string& command : {"run e.so" + random + "bad.npy", "bench e.so" + random + "bad.npy --runs 2 --warmup 1",
                                     "verify --from=graph --target=cpu embed.graph" + random + "bad.npy"}) {
    refused(command, 2, "input `ids` has the index 9999 at gather `embed/Gather`, valid are -10 to 9 [index-out-of-range]");
  }
  refused("run e.so --device cpu --random --range ids=-11:-11", 2, "input `ids` has the index -11 at gather `embed/Gather`");
}

TEST_F(Indices, ClassesOutOfRangeStopATraining) {
  good("--from=graph --target=cpu --mode=train --loss=cross_entropy:ignore_index=-7 --optimizer=sgd --train=out embed.graph -o step.so");
  const std::string step = "run step.so --device cpu --random --steps 2";
  good(step);
  good(step + " --range target=-7:-7");  // what is ignored is not a class, and valid
  refused(step + " --range target=5:5", 2, "input `target` has the class 5 at loss `");
  refused(step + " --range target=-1:-1", 2, "valid are 0 to 4 [index-out-of-range]");
  refused(step + " --range ids=10:10", 2, "input `ids` has the index 10 at gather `embed/Gather`, valid are -10 to 9");
}

// A node's own name where the index is computed; a model that reads no index has no check.
TEST_F(Indices, ComputedOnesAreNamedByTheirNode) {
  folder_.write("sum.graph",
                "graph @sum(%d: f32[4, 3], %x: i64[2]) -> (%y: f32[2, 3]) {\n  %p: i64[2] = add(%x, %x)    loc(\"shift/Add\")\n"
                "  %y: f32[2, 3] = gather(%d, %p) {axis=0}    loc(\"rows/Gather\")\n}\n");
  good("--from=graph --target=cpu sum.graph -o s.so");
  good("run s.so --device cpu --random --range x=-2:1");
  refused("run s.so --device cpu --random --range x=3:3", 2,
          "the result of `shift/Add` has the index 6 at gather `rows/Gather`, valid are -4 to 3 [index-out-of-range]");
  folder_.write("small.graph", small_graph());
  EXPECT_EQ(good("--from=graph small.graph --emit=plan=p.plan --target=cpu").find("check"), std::string::npos);
  EXPECT_EQ(folder_.read("p.plan").find("check"), std::string::npos);
}

}  // namespace
}  // namespace tcc::test
