// `tcc run` and `tcc bench` as a user meets them: damaged libraries, expected outputs, archives, signals, what bench reports and refuses.
#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "cli/program.h"
#include "tcc/runtime/program.h"
#include "tcc/support/npy.h"

namespace tcc::test {
namespace {

class Run : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("small.graph", small_graph());
    good("--from=graph --target=cpu small.graph -o small.so");
    Tensor x(DType::f32, {4, 3});
    for (int i = 0; i < 12; ++i) x.mutable_data<float>()[i] = 0.25F * static_cast<float>(i) - 1;
    x_ = x;
    write_npy(folder_ / "x.npy", x);
  }
  Result tcc(const std::string& arguments) const { return run_tcc(arguments, folder_.path()); }
  Result shell(const std::string& command) const { return run_shell(command, folder_.path()); }
  std::string good(const std::string& arguments) const {
    const Result result = tcc(arguments);
    EXPECT_EQ(result.exit_code, 0) << arguments;
    EXPECT_EQ(result.err, "") << arguments;
    return result.out;
  }
  void refused(const std::string& arguments, int exit_code, const std::string& message) const {
    const Result result = tcc(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << arguments;
    EXPECT_EQ(result.err, message + "\n") << arguments;
  }
  static bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

  Folder folder_;
  Tensor x_ = Tensor(DType::f32, {0});
};

TEST_F(Run, DamagedLibraries) {
  const std::string whole = folder_.read("small.so");
  program::LibrarySeal seal;
  std::memcpy(&seal, whole.data() + whole.size() - sizeof seal, sizeof seal);
  const std::string run = "run small.so --device cpu --input x.npy";
  const std::string right = good(run + " --check");
  EXPECT_EQ(good(run), right);

  std::string bytes = whole;
  for (uint64_t at = seal.weights_begin + 3; at < seal.weights_end; at += 4) bytes[at] = static_cast<char>(bytes[at] ^ 1);  // exponents
  folder_.write("small.so", bytes);
  EXPECT_NE(good(run), right);
  for (const char* verb : {"run", "bench"}) {
    refused(verb + std::string(" small.so --device cpu --random --check"), 5,
            "small.so: error: the weights inside this library are damaged: compile the model again [unusable-library]");
  }
  bytes = whole;
  bytes[seal.weights_begin - 1] = static_cast<char>(bytes[seal.weights_begin - 1] ^ 1);
  folder_.write("small.so", bytes);
  refused(run, 5,
          "small.so: error: is damaged: its checksum is not the one that tcc wrote at its end [unusable-library]\n"
          "small.so: help: compile the model again");
  folder_.write("small.so", whole.substr(0, 5000));
  refused(run, 5,
          "small.so: error: is truncated: it has 5000 bytes of " + std::to_string(seal.file_bytes) +
              " [unusable-library]\nsmall.so: help: copy it again, or compile the model again");
  refused("bench net.onnx", 5, "net.onnx: error: cannot be opened: No such file or directory [unusable-library]");
  folder_.write("net.onnx", "\x08\x07 model");
  refused(
      "bench net.onnx", 5,
      "net.onnx: error: is a model, expected a library [unusable-library]\nnet.onnx: help: compile it first: `tcc net.onnx -o model.so`");
}

TEST_F(Run, ADeviceThatIsNotThere) {
  refused("run small.so --device cuda --random", 5, "small.so: error: the library was compiled without --target=cuda [no-device]");
}

TEST_F(Run, AWeightsFileThatWasChanged) {
  good("--from=graph --target=cpu --weights=file small.graph -o apart.so");
  const std::string run = "run apart.so --device cpu --input x.npy";
  EXPECT_EQ(good(run + " --check"), good("run small.so --device cpu --input x.npy"));
  std::string bytes = folder_.read("apart.so.weights");
  bytes[program::kWeightsFileHeaderBytes] = static_cast<char>(bytes[program::kWeightsFileHeaderBytes] ^ 1);
  folder_.write("apart.so.weights", bytes);
  refused(
      run + " --check", 5,
      "apart.so: error: weights file `apart.so.weights` is damaged: it was changed after it was written with this library [file-error]");
}

TEST_F(Run, ExpectedOutputsAndArchives) {
  const std::string run = "run small.so --device cpu --input x.npy ";
  good(run + "--save out.npz");
  good(run + "--save folder");
  auto arrays = read_npz(folder_ / "out.npz");
  ASSERT_EQ(arrays.size(), 1U);
  const Tensor p = arrays.at("p");
  const Tensor of_folder = read_npy(folder_ / "folder/0.npy");
  EXPECT_EQ(std::memcmp(p.bytes(), of_folder.bytes(), static_cast<size_t>(p.size_bytes())), 0);
  EXPECT_TRUE(contains(good(run + "--expect out.npz"), ", largest difference 0 (largest element 0.883719), as expected\n"));

  // One file may hold both, and another dtype.
  Tensor wide(DType::f64, p.shape());
  for (int64_t i = 0; i < p.count(); ++i) wide.set_double(i, p.as_double(i));
  write_npz(folder_ / "both.npz", {{"x", x_}, {"p", wide}});
  EXPECT_TRUE(contains(good("run small.so --device cpu --input both.npz --expect both.npz --json"), "\"different\": 0,"));
  refused("run small.so --device cpu --input both.npz", 2,
          "both.npz: error: array `p` is not an input of the model [unknown-input]\nboth.npz: help: inputs are `x`");
  write_npz(folder_ / "more.npz", {{"x", x_}, {"q", x_}, {"r", x_}});
  refused("run small.so --device cpu --input more.npz", 2,
          "more.npz: error: arrays `q`, `r` are not inputs of the model [unknown-input]\nmore.npz: help: inputs are `x`");

  wide.set_double(3, wide.as_double(3) + 0.5);
  write_npz(folder_ / "wrong.npz", {{"p", wide}});
  const Result differs = tcc(run + "--expect wrong.npz");
  EXPECT_EQ(differs.exit_code, 3);
  EXPECT_TRUE(contains(differs.out, ", differs\n")) << differs.out;
  EXPECT_TRUE(differs.err.starts_with("wrong.npz: error: output `p`: 1 of 8 elements differ, the worst at [1, 1]: ")) << differs.err;
  EXPECT_TRUE(contains(good(run + "--expect wrong.npz --atol 0.6"), "as expected"));
  write_npz(folder_ / "names.npz", {{"q", p}, {"r", p}});
  refused(run + "--expect names.npz", 2,
          "names.npz: error: array `q` is neither an output nor an input of the library [unknown-output]\n"
          "names.npz: error: array `r` is neither an output nor an input of the library [unknown-output]\n"
          "names.npz: help: outputs are `p`");
  write_npz(folder_ / "shape.npz", {{"p", x_}});
  refused(run + "--expect shape.npz", 2, "shape.npz: error: array `p` is [4, 3], the output is [4, 2] [invalid-argument]");
  refused(run + "--expect out.npz --rtol -1", 2, "tcc: error: --rtol=-1: a number was expected, at least 0 [invalid-argument]");
}

TEST_F(Run, StateIsSavedWhenASignalEndsTheTraining) {
  good("--from=graph --target=cpu small.graph --mode=train --loss=mse --optimizer=adam -o step.so");
  const std::string run = "\"$TCC\" run step.so --device cpu --threads 1 --random --steps 1000000000 ";
  for (const auto& [signal, code] : {std::pair("INT", 130), std::pair("TERM", 143)}) {
    const Result ended =
        shell(std::string("timeout --preserve-status -s ") + signal + " 1 " + run + "--save-state s.safetensors --save losses > steps");
    EXPECT_EQ(ended.exit_code, code);
    EXPECT_TRUE(ended.err.starts_with("tcc: note: interrupted after step ") &&
                ended.err.ends_with("; the state is saved in s.safetensors\n"))
        << ended.err;
    const std::string report = ended.err.substr(std::strlen("tcc: note: interrupted after step "));
    EXPECT_EQ(read_npy(folder_ / "losses/losses.npy").count(), std::stoll(report));
    good("run step.so --device cpu --random --steps 1 --load-state s.safetensors");
    shell("rm s.safetensors");
  }
  // A second signal ends it at once: here, while the micro-batches of one update are not done.
  good("--from=graph --target=cpu small.graph --mode=train --loss=mse --optimizer=adam --accumulate=1000000000 -o slow.so");
  const Result twice = shell(
      "\"$TCC\" run slow.so --device cpu --threads 1 --random --steps 1000000000 --save-state s.safetensors > /dev/null & pid=$!; sleep 1; "
      "kill -TERM $pid; sleep 0.3; kill -TERM $pid; wait $pid");
  EXPECT_EQ(twice.exit_code, 143);
  EXPECT_FALSE(contains(twice.err, "saved")) << twice.err;
  for (const std::string& file : folder_.files()) EXPECT_FALSE(contains(file, "safetensors") || contains(file, ".tmp")) << file;
}

TEST_F(Run, ZerosAndNansHaveNoSign) {
  folder_.write("g.graph", "graph @g(%x: f32[2]) -> (%y: f32[2], %z: f32[2]) {\n  %y: f32[2] = mul(%x, %x)\n  %z: f32[2] = sqrt(%x)\n}\n");
  good("--from=graph --target=cpu g.graph -o g.so");
  Tensor x(DType::f32, {2});
  x.set_double(0, -1);
  x.set_double(1, -1);
  write_npy(folder_ / "nan.npy", x);
  const std::string text = good("run g.so --device cpu --input nan.npy");
  EXPECT_TRUE(contains(text, "z: f32[2] min nan max nan mean nan nan 2\n")) << text;
  folder_.write("neg.graph", "graph @g(%x: f32[2]) -> (%y: f32[2]) {\n  %y: f32[2] = neg(%x)\n}\n");
  good("--from=graph --target=cpu neg.graph -o neg.so");
  write_npy(folder_ / "zero.npy", Tensor(DType::f32, {2}));
  EXPECT_TRUE(contains(good("run neg.so --device cpu --input zero.npy"), "y: f32[2] min 0 max 0 mean 0\n"));
}

TEST_F(Run, BenchReportsEveryKey) {
  const std::string json = good("bench small.so --device cpu --runs 7 --warmup 1 --threads 1 --profile --json");
  for (const char* key : {"device",
                          "reason",
                          "function",
                          "runs",
                          "runs_per_second",
                          "median_us",
                          "p90_us",
                          "p99_us",
                          "min_us",
                          "max_us",
                          "mean_us",
                          "host_median_us",
                          "peak_bytes",
                          "planned_peak_bytes",
                          "weights_bytes",
                          "state_bytes",
                          "gradient_bytes",
                          "launches",
                          "threads",
                          "profile",
                          "label",
                          "kernel",
                          "grid",
                          "us",
                          "profile_runs",
                          "profile_sum_us",
                          "overhead_us"}) {
    EXPECT_TRUE(contains(json, "\"" + std::string(key) + "\": ")) << key << "\n" << json;
  }
  EXPECT_TRUE(contains(json, "\"profile_runs\": 7,")) << json;
  const std::string text = good("bench small.so --device cpu --runs 9 --threads 1 --profile");
  for (const char* word : {" launches, medians over 9 runs\n", "the whole run, median\n", " overhead: "})
    EXPECT_TRUE(contains(text, word)) << text;
  good("--from=graph --target=cpu small.graph --mode=train --loss=mse --optimizer=adam --accumulate=2 -o step.so");
  const std::string step = good("bench step.so --device cpu --runs 5 --threads 1 --function step");
  for (const char* word : {"function           step\n", "\nstate ", "\ngradients ", "\nplanned peak "})
    EXPECT_TRUE(contains(step, word)) << step;
}

TEST_F(Run, BenchRefusesWhatSaysNothing) {
  refused("bench small.so --runs 0", 2, "tcc: error: --runs=0: a number of runs was expected, at least 1 [invalid-argument]");
  refused("bench small.so --warmup -2", 2, "tcc: error: --warmup=-2: a number of runs was expected [invalid-argument]");
  const Result many = shell("taskset -c 0 \"$TCC\" bench small.so --device cpu --runs 3 --warmup 0 --threads 9");
  EXPECT_EQ(many.exit_code, 0);
  EXPECT_EQ(many.err, "tcc: note: --threads=9: this process may use 1 CPU, threads will wait for each other\n");
}

// A system that gives no thread is not a bug of tcc.
TEST_F(Run, ThreadsThatTheSystemRefuses) {
  folder_.write("none.c",
                "#include <errno.h>\nint pthread_create(void* a, const void* b, void* c, void* d) { (void)a; (void)b; (void)c; (void)d; "
                "return EAGAIN; }\n");
  if (shell("cc -w -shared -fPIC -fno-builtin none.c -o none.so").exit_code != 0) GTEST_SKIP() << "no C compiler";
  const std::vector<std::string> before = folder_.files();
  const Result compiled = shell("LD_PRELOAD=./none.so \"$TCC\" --from=graph small.graph -o new.so");
  if (contains(compiled.err, "Sanitizer")) GTEST_SKIP() << "a sanitizer has a pthread_create of its own";
  EXPECT_EQ(compiled.exit_code, 5) << compiled.err;
  EXPECT_EQ(compiled.err,
            "tcc: error: the system refuses to start a thread: Resource temporarily unavailable [thread-limit]\n"
            "tcc: help: use fewer with -j 1, or raise the limits (`ulimit -u`, `ulimit -v`)\n");
  EXPECT_EQ(folder_.files(), before);
  folder_.write("wide.graph", "graph @g(%x: f32[4096, 64]) -> (%y: f32[4096, 64]) {\n  %y: f32[4096, 64] = exp(%x)\n}\n");
  good("--from=graph --target=cpu wide.graph -o wide.so");
  const Result run = shell("LD_PRELOAD=./none.so \"$TCC\" run wide.so --device cpu --random --threads 2");
  EXPECT_EQ(run.exit_code, 5);
  EXPECT_EQ(run.err, "wide.so: error: the system gives no 2 threads: create the instance with fewer [out-of-memory]\n");
}

}  // namespace
}  // namespace tcc::test
