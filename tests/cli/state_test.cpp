// Models that change their own state: libraries of every mode keep it, and run, verify, bench and inspect know it.
#include <gtest/gtest.h>

#include "cli/commands.h"
#include "tcc/support/npy.h"
#include "tcc/support/safetensors.h"

namespace tcc::test {
namespace {

/// A counter that is an output, and a cache of five rows with the place of the next one. %y reads the new cache.
constexpr const char* kCache = R"(graph @cache(%x: f32[4]) -> (%n2: i64[1], %y: f32[5]) {
  weight @n: i64[1] buffer state = [0]
  weight @rows: f32[5, 4] buffer state = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
  weight @one: i64[1] made = [1]
  %n2: i64[1] = add(@n, @one)
  %at: i64[1, 4] = broadcast_in_dim(@n) {dims=[0], shape=[1, 4]}
  %row: f32[1, 4] = reshape(%x) {shape=[1, 4]}
  %new: f32[5, 4] = scatter_elements(@rows, %at, %row) {axis=0, combiner="assign"}
  %y: f32[5] = reduce_sum(%new) {axes=[1]}
  return %n2, %y, state(@n = %n2, @rows = %new)
}
)";

class State : public Commands {
 protected:
  void SetUp() override {
    folder_.write("cache.graph", kCache);
    Tensor x(DType::f32, {4});
    for (int i = 0; i < 4; ++i) x.mutable_data<float>()[i] = 1;
    write_npy(folder_ / "x.npy", x);
  }
  static bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
  double n_of(const std::string& file) const { return read_safetensors(folder_ / file).tensors.at("n").as_double(0); }
};

TEST_F(State, RunsGoOnFromOneAnother) {
  good("--from=graph --target=cpu cache.graph -o c.so --emit=header=c.h,manifest=c.json");
  EXPECT_TRUE(contains(folder_.read("c.h"), "What the model changes when it runs, to and from a safetensors file"));
  EXPECT_TRUE(contains(folder_.read("c.json"), "\"name\": \"rows\", \"role\": \"buffer\""));
  EXPECT_TRUE(contains(good("inspect c.so --tensors"), "rows"));
  const std::string run = "run c.so --device cpu --input x.npy ";
  EXPECT_TRUE(contains(good(run), "n2: i64[1] min 1 max 1 mean 1\n"));
  EXPECT_TRUE(
      contains(good(run + "--runs 3 --save-state s.safetensors"), "n2: i64[1] min 3 max 3 mean 3\ny: f32[5] min 0 max 4 mean 2.4\n"));
  EXPECT_EQ(n_of("s.safetensors"), 3);
  EXPECT_TRUE(contains(good(run + "--runs 2 --load-state s.safetensors --save-state t.safetensors"), "y: f32[5] min 4 max 4 mean 4\n"));
  EXPECT_EQ(n_of("t.safetensors"), 5);
  // The cache is full: a message of the place, and what is saved before stays.
  refused(run + "--load-state t.safetensors --save-state t.safetensors", 2, "`n` has the index 5 at scatter");
  refused(run + "--runs 0", 2, "--runs=0: a number of runs was expected, at least 1 [invalid-argument]");
  // Timed for longer than the cache has rows.
  for (const char* flags : {"", " --profile"})
    EXPECT_TRUE(contains(good("bench c.so --device cpu --runs 50 --warmup 2" + std::string(flags)), "state"));
  // What a state file holds can be what a library begins with.
  good("--from=graph --target=cpu cache.graph --parameters=s.safetensors -o later.so");
  EXPECT_TRUE(contains(good("run later.so --device cpu --input x.npy"), "n2: i64[1] min 4 max 4 mean 4\n"));
  good("--from=graph --target=cpu cache.graph --weights=file -o apart.so");
  EXPECT_TRUE(
      contains(good("run apart.so --device cpu --input x.npy --runs 2 --weights apart.so.weights"), "n2: i64[1] min 2 max 2 mean 2\n"));
}

TEST_F(State, IsWrittenAsTccFxAndReadsBack) {
  good("--from=graph cache.graph --emit=fx=cache.json");
  good("cache.json --emit=graph=back.graph");
  EXPECT_TRUE(contains(folder_.read("back.graph"), "weight @rows: f32[5, 4] buffer state"));
  good("cache.json --target=cpu -o back.so");
  EXPECT_TRUE(contains(good("run back.so --device cpu --input x.npy --runs 2"), "n2: i64[1] min 2 max 2 mean 2\n"));
}

TEST_F(State, APartOfACacheIsWrittenInPlace) {
  for (const char* target : {"cpu", "cuda"}) {
    const std::string plan = good("--from=graph cache.graph --emit=plan --target=" + std::string(target));
    EXPECT_TRUE(contains(plan, "buffer %new: f32[5, 4] alias of @rows offset 0 overwrites")) << plan;
    EXPECT_FALSE(contains(plan, "copy \"rows\"")) << plan;
    // No kernel moves the rows that stay.
    const std::string kernels = good("--from=graph cache.graph --emit=kernel --target=" + std::string(target));
    size_t stores = 0;
    for (size_t at = kernels.find("store "); at != std::string::npos; at = kernels.find("store ", at + 1)) ++stores;
    EXPECT_EQ(stores, 2U) << kernels;  // the counter and %y
  }
}

TEST_F(State, VerifyComparesTheStateOfEachRun) {
  for (const char* form : {"graph", "prims"}) {
    const std::string out = good("verify --target=cpu --device=cpu --input x.npy cache.graph --from=" + std::string(form));
    EXPECT_TRUE(contains(out, "run 3, state rows: f32[5, 4] largest difference 0")) << out;
    EXPECT_TRUE(contains(out, "passed: 6 outputs and 6 state tensors of 3 runs")) << out;
  }
  // Of a cache that is full after one run, one run is compared.
  std::string almost_full = kCache;
  almost_full.replace(almost_full.find("[0]\n"), 4, "[4]\n");
  folder_.write("cache.graph", almost_full);
  EXPECT_TRUE(contains(good("verify --target=cpu --device=cpu --random --from=graph cache.graph"), "of 1 run"));
}

/// y = x * w + b, and b += the mean of y: a forward pass with a state.
constexpr const char* kTrained = R"(graph @m(%x: f32[2, 3]) -> (%y: f32[2, 3]) {
  weight @w: f32[3] = [1, 2, 3]
  weight @b: f32[3] buffer state = [0, 0, 0]
  weight @p: f32[3]PARAMETER = [1, 1, 1]
  weight @n: i64[1] buffer state = [0]
  weight @one: i64[1] made = [1]
  %p2: f32[3] = mul(@p, @p)
  %wp: f32[3] = mul(@w, @p)
  %xw: f32[2, 3] = mul(%x, %wp)
  %y: f32[2, 3] = add(%xw, @b)
  %m: f32[3] = reduce_sum(%y) {axes=[0]}
  %b2: f32[3] = add(@b, %m)
  %n2: i64[1] = add(@n, @one)
  return %y, state(@b = %b2, @n = %n2UPDATE)
}
)";

std::string trained_graph(bool changes_parameter) {
  std::string text = kTrained;
  text.replace(text.find("PARAMETER"), 9, changes_parameter ? " state" : "");
  text.replace(text.find("UPDATE"), 6, changes_parameter ? ", @p = %p2" : "");
  return text;
}

TEST_F(State, IsUpdatedByTheForwardPassOfATraining) {
  folder_.write("m.graph", trained_graph(false));
  good("--from=graph --target=cpu m.graph --mode=train --loss=mse --optimizer=sgd --accumulate=2 -o t.so");
  good("run t.so --device cpu --random --steps 6 --save-state s.safetensors");
  EXPECT_EQ(n_of("s.safetensors"), 6);  // each micro-batch is a forward pass
  EXPECT_NE(read_safetensors(folder_ / "s.safetensors").tensors.at("b").as_double(0), 0);
  good("run t.so --device cpu --random --runs 2 --load-state s.safetensors --save-state s.safetensors");
  EXPECT_EQ(n_of("s.safetensors"), 8);
  // Without a loss all outputs are there, and gradients.
  const std::string out = good("verify --target=cpu --device=cpu --random --from=graph m.graph --mode=grad --loss=mse");
  EXPECT_TRUE(contains(out, "state tensors of 3 runs")) << out;
  EXPECT_TRUE(contains(out, "grad.w")) << out;
  good("--from=graph --target=cpu m.graph --mode=grad --loss=mse -o g.so");
  good("run g.so --device cpu --random --runs 4 --save-state g.safetensors");
  EXPECT_EQ(n_of("g.safetensors"), 4);
  // The joint graph reads back with its state.
  good("--from=graph m.graph --mode=grad --loss=mse --emit=joint=m.joint");
  good("--from=graph --target=cpu m.joint --mode=grad -o j.so");
  good("run j.so --device cpu --random --runs 4 --save-state j.safetensors");
  EXPECT_EQ(folder_.read("j.safetensors"), folder_.read("g.safetensors"));
}

/// Two pieces of one model: the first counts its calls, the second reads the count. That one's own counter is nobody else's.
constexpr const char* kPieces = R"json({
  "format": "tcc.fx", "version": [1, 0], "entry": "count",
  "weights": [{"fqn": "n", "file": "w.bin", "offset": 0, "length": 4, "dtype": "f32", "shape": [1]},
              {"fqn": "own", "file": "w.bin", "offset": 0, "length": 4, "dtype": "f32", "shape": [1]}],
  "graphs": [
   {"id": "count", "role": "forward",
    "inputs": [{"name": "b_n", "kind": "buffer", "fqn": "n"}, {"name": "x", "kind": "user"}],
    "values": {"b_n": {"dtype": "f32", "shape": [1]}, "x": {"dtype": "f32", "shape": [4]}, "m": {"dtype": "f32", "shape": [1]}, "y": {"dtype": "f32", "shape": [4]}},
    "nodes": [{"name": "m", "op": "aten.add.Tensor", "args": [{"v": "b_n"}, 1], "outs": ["m"]},
              {"name": "y", "op": "aten.add.Tensor", "args": [{"v": "x"}, {"v": "m"}], "outs": ["y"]}],
    "outputs": [{"value": "m", "kind": "mutation", "target": "n"}, {"value": "y", "kind": "user"}]},
   {"id": "read", "role": "forward",
    "inputs": [{"name": "b_n", "kind": "buffer", "fqn": "n"}, {"name": "b_own", "kind": "buffer", "fqn": "own"}, {"name": "x", "kind": "user"}],
    "values": {"b_n": {"dtype": "f32", "shape": [1]}, "b_own": {"dtype": "f32", "shape": [1]}, "x": {"dtype": "f32", "shape": [4]}, "m": {"dtype": "f32", "shape": [1]},
               "t": {"dtype": "f32", "shape": [4]}, "y": {"dtype": "f32", "shape": [4]}},
    "nodes": [{"name": "m", "op": "aten.add.Tensor", "args": [{"v": "b_own"}, 10], "outs": ["m"]},
              {"name": "t", "op": "aten.mul.Tensor", "args": [{"v": "x"}, {"v": "b_n"}], "outs": ["t"]},
              {"name": "y", "op": "aten.add.Tensor", "args": [{"v": "t"}, {"v": "m"}], "outs": ["y"]}],
    "outputs": [{"value": "m", "kind": "mutation", "target": "own"}, {"value": "y", "kind": "user"}]}]})json";

TEST_F(State, FunctionsOfOneLibraryShareIt) {
  const float zero = 0;
  folder_.write("w.bin", std::string(reinterpret_cast<const char*>(&zero), sizeof zero));
  folder_.write("pieces.json", kPieces);
  good("pieces.json --target=cpu -o p.so");
  good("run p.so --device cpu --input x.npy --runs 3 --save-state s.safetensors");
  EXPECT_EQ(n_of("s.safetensors"), 3);
  const std::string out =
      good("run p.so --device cpu --input x.npy --function read --runs 2 --load-state s.safetensors --save-state s.safetensors");
  EXPECT_TRUE(contains(out, "y: f32[4] min 23 max 23 mean 23\n")) << out;
  EXPECT_EQ(n_of("s.safetensors"), 3);
  EXPECT_EQ(read_safetensors(folder_ / "s.safetensors").tensors.at("own").as_double(0), 20);
  EXPECT_TRUE(contains(good("verify pieces.json --target=cpu --device=cpu --random --function=read"), "3 state tensors of 3 runs"));
}

TEST_F(State, AParameterIsChangedByTheModelOrByTraining) {
  folder_.write("m.graph", trained_graph(true));
  const std::string train = "--from=graph --target=cpu m.graph --mode=train --loss=mse --optimizer=sgd -o t.so";
  refused(train, 2, "--mode=train: the model itself changes the parameter `p` [invalid-argument]");
  refused(train, 2, "help: it can't train as well: --freeze=p");
  good(train + " --freeze=p");
  good("run t.so --device cpu --random --steps 3 --save-state s.safetensors");
  EXPECT_EQ(n_of("s.safetensors"), 3);
}

}  // namespace
}  // namespace tcc::test
