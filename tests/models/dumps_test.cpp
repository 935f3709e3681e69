// The dumps of models/fx, made by scripts/tcc_torch.py with PyTorch, compiled and run without it: what each captured graph computes is what
// PyTorch computed there. models/fx/make_dumps.py says what the arrays are.
//
//   test_models_dumps [--device=cuda]
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cli/program.h"
#include "models/exported.h"
#include "tcc/runtime/library.h"
#include "tcc/support/npy.h"

namespace tcc::test {
namespace {

namespace fs = std::filesystem;

const std::string kFolder = TCC_SOURCE_DIR "/models/fx/";

std::vector<std::string> dumps() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_close(const Tensor& found, const Tensor& expected) {
  if (found.shape() != expected.shape() || found.dtype() != expected.dtype()) return false;
  const double atol = std::max(1e-5 * largest_magnitude(expected), 1e-7);
  for (int64_t i = 0; i < expected.count(); ++i) {
    const double a = found.as_double(i), b = expected.as_double(i);
    if (!(std::abs(a - b) <= atol + 1e-4 * std::abs(b))) return false;
  }
  return true;
}

class Dumps : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    arrays_ = read_npz(kFolder + GetParam() + ".npz");
    std::string sizes;
    if (const auto found = arrays_.find("sizes"); found != arrays_.end()) sizes = bindings(found->second);
    const std::string target = device() == runtime::Device::cuda ? "cuda" : "cpu";
    const Result result = run_tcc(kFolder + GetParam() + ".json" + sizes + " --target=" + target + " -o m.so", folder_.path());
    ASSERT_EQ(result.exit_code, 0) << result.err;
    library_ = runtime::Library::open(folder_ / "m.so");
  }

  /// The symbols of the file, in its order, with these sizes.
  static std::string bindings(const Tensor& sizes) {
    const Folder empty;
    // What is not bound is named in the message.
    const std::string text = run_tcc(kFolder + GetParam() + ".json -o m.so", empty.path()).err;
    const std::string begin = "help: the sizes at capture were --bind ";
    const size_t at = text.find(begin);
    EXPECT_NE(at, std::string::npos) << text;
    const std::string word = text.substr(at + begin.size(), text.find('\n', at) - at - begin.size());
    for (int64_t i = 0; i < sizes.count(); ++i) EXPECT_NE(word.find("=" + std::to_string(sizes.as_int64(i))), std::string::npos) << word;
    return " --bind " + word;
  }

  Folder folder_;
  std::map<std::string, Tensor> arrays_;
  std::shared_ptr<const runtime::Library> library_;
};

TEST_P(Dumps, ComputeWhatTorchComputed) {
  runtime::Instance instance(library_, {.device = device()});
  int compared = 0;
  const std::vector<runtime::FunctionInfo>& functions = library_->functions();
  for (size_t f = 0; f < functions.size(); ++f) {
    // A library of one function calls it `infer`.
    const std::string graph = functions.size() == 1 ? "g0" : functions[f].name;
    SCOPED_TRACE(graph);
    std::vector<Tensor> inputs;
    for (const runtime::TensorInfo& info : functions[f].inputs) {
      ASSERT_TRUE(arrays_.contains(graph + ".in." + info.name)) << info.name;
      inputs.push_back(arrays_.at(graph + ".in." + info.name));
    }
    const std::vector<Tensor> outputs = instance.run(static_cast<int>(f), inputs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::string name = functions[f].outputs[i].name;
      ++compared;
      if (const auto expected = arrays_.find(graph + ".out." + name); expected != arrays_.end()) {
        EXPECT_TRUE(is_close(outputs[i], expected->second)) << name;
        continue;
      }
      const std::string either = graph + ".either." + name;
      ASSERT_TRUE(arrays_.contains(either + ".0")) << name;
      EXPECT_TRUE(is_close(outputs[i], arrays_.at(either + ".0")) || is_close(outputs[i], arrays_.at(either + ".1"))) << name;
    }
  }
  int expected = 0;
  for (const auto& [name, tensor] : arrays_) expected += name.find(".out.") != std::string::npos || name.ends_with(".0");
  EXPECT_EQ(compared, expected);
}

INSTANTIATE_TEST_SUITE_P(All, Dumps, testing::ValuesIn(dumps()), [](const auto& info) { return info.param; });

// A decision taken by numbers is one graph and one kernel, and so is a stack of tensors with what is done to all of them.
TEST(DumpsOfPatterns, AreOneKernel) {
  for (const std::string name : {"where", "stack", "loop"}) {
    const Folder folder;
    const Result result = run_tcc(kFolder + name + ".json --target=cpu -o m.so", folder.path());
    ASSERT_EQ(result.exit_code, 0) << result.err;
    runtime::Instance instance(runtime::Library::open(folder / "m.so"), {.device = runtime::Device::cpu});
    EXPECT_EQ(instance.info().num_launches, 1U) << name;
  }
}

}  // namespace
}  // namespace tcc::test

int main(int argc, char** argv) { return tcc::test::run_tests(argc, argv); }
