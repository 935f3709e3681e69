// models/mnist_train as docs/training.md says: a C program that trains, and one that trains in two processes.
//
//   test_models_mnist_train [--device=cuda]
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "cli/program.h"
#include "models/exported.h"
#include "tcc/runtime/library.h"
#include "tcc/support/safetensors.h"

namespace tcc::test {
namespace {

constexpr const char* kCompile = "--mode=train --loss=cross_entropy --optimizer=adam --symbol-prefix=mnist";
constexpr int64_t kBatch = 8, kPixels = 28 * 28;

class MnistTrain : public testing::Test {
 protected:
  void SetUp() override {
    good("ln -s '" TCC_SOURCE_DIR "/models' models");
    good("python3 models/mnist_train/make_data.py 1000");
    compile("libmnist.so --emit=header=mnist.h");
  }
  std::string good(const std::string& command) const {
    const Result result = run_shell(command, folder_.path());
    EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.out << result.err;
    return result.out;
  }
  void compile(const std::string& output) const {
    const char* target = device() == runtime::Device::cuda ? "cuda" : "cpu";
    good("\"$TCC\" models/mnist_mlp/unoptimized.onnx " + std::string(kCompile) + " --target=" + target + " -o " + output);
  }
  /// The batch of that number, with its labels.
  std::vector<Tensor> batch(int64_t number) const {
    const std::string images = folder_.read("images.bin"), labels = folder_.read("labels.bin");
    std::vector<Tensor> tensors = {Tensor(DType::f32, {kBatch, 1, 28, 28}), Tensor(DType::i64, {kBatch})};
    for (size_t i = 0; i < 2; ++i) {
      const std::string& bytes = i == 0 ? images : labels;
      const auto size = static_cast<size_t>(tensors[i].size_bytes());
      std::memcpy(tensors[i].mutable_bytes(), bytes.data() + static_cast<size_t>(number) * size, size);
    }
    return tensors;
  }
  Folder folder_;
};

TEST_F(MnistTrain, ACProgramTrains) {
  const std::string source = folder_.read("models/mnist_train/train.c");
  EXPECT_LT(std::count(source.begin(), source.end(), '\n'), 100);
  good("cc -O2 -Wall -Wextra -Werror -I. models/mnist_train/train.c ./libmnist.so -Wl,-rpath,'$ORIGIN' -o train");
  std::istringstream lines(good(std::string("./train ") + (device() == runtime::Device::cuda ? "cuda" : "cpu") + " 4"));
  std::string line;
  double last_loss = 1e9, right = 0;
  int epochs = 0;
  for (; std::getline(lines, line); ++epochs) {
    double loss = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "epoch %*d: loss %lf, right on unseen images %lf", &loss, &right), 2) << line;
    EXPECT_LT(loss, last_loss);
    last_loss = loss;
  }
  EXPECT_EQ(epochs, 4);
  EXPECT_GT(right, 0.9);
  const auto state = read_safetensors(folder_ / "mnist.safetensors").tensors;
  for (const char* name : {"1.weight", "1.bias", "3.weight", "3.bias", "optimizer.exp_avg.1.weight", "optimizer.step"})
    EXPECT_TRUE(state.contains(name)) << name;
  // The library infers with them.
  good("\"$TCC\" run libmnist.so --random --weights mnist.safetensors");
}

/// Gradients averaged over two processes are those of one that takes both batches.
TEST_F(MnistTrain, TwoProcessesAreOne) {
  if (device() == runtime::Device::cuda) GTEST_SKIP() << "the example averages memory of the host";
  if (run_shell("command -v mpicc && command -v mpirun", folder_.path()).exit_code != 0) GTEST_SKIP() << "there is no mpicc or no mpirun";
  good("mpicc -O2 -Wall -Wextra -Werror -I. models/mnist_train/data_parallel.c ./libmnist.so -Wl,-rpath,'$ORIGIN' -o data_parallel");
  // Open MPI asks for these where it runs as root, or on fewer cores than processes.
  const std::string allow = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 ";
  const std::string text = good(allow + "mpirun -n 2 ./data_parallel 30");
  double losses[3] = {};
  ASSERT_EQ(std::sscanf(text.c_str(), "step 10: loss %lf step 20: loss %lf step 30: loss %lf", &losses[0], &losses[1], &losses[2]), 3)
      << text;
  EXPECT_GT(losses[0], losses[2]);
  EXPECT_NE(text.find("parameters are equal in all processes\n"), std::string::npos) << text;

  compile("both.so --accumulate=2");
  runtime::Instance both(runtime::Library::open(folder_ / "both.so"), {.device = device()});
  double loss = 0;
  for (int64_t step = 0; step < 30; ++step) {
    loss = 0;
    for (int64_t rank = 0; rank < 2; ++rank) loss += both.step(batch(2 * step + rank)).at(0).as_double(0) / 2;
  }
  EXPECT_NEAR(loss, losses[2], 1e-3);  // four digits are printed
  const auto state = read_safetensors(folder_ / "mnist.safetensors").tensors;
  for (const char* name : {"1.weight", "1.bias", "3.weight", "3.bias"}) {
    const Tensor expected = both.read_state(name);
    const double tolerance = 1e-5 * largest_magnitude(expected);
    for (int64_t i = 0; i < expected.count(); ++i)
      ASSERT_NEAR(state.at(name).as_double(i), expected.as_double(i), tolerance) << name << " at " << i;
  }
}

}  // namespace
}  // namespace tcc::test

int main(int argc, char** argv) { return tcc::test::run_tests(argc, argv); }
