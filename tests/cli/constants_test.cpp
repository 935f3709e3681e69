// Weights that a library stores as its kernels want them: computed when the library is made, by code or by the interpreter, embedded or in a file.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "cli/program.h"
#include "plan/random_products.h"
#include "tcc/driver/pipeline.h"
#include "tcc/link/read_program.h"
#include "tcc/rules/interpret.h"
#include "tcc/runtime/library.h"

namespace tcc::driver {
namespace {

class Constants : public testing::Test {
 protected:
  std::string compile(const Graph& graph, const std::string& name, WeightsPlace weights = WeightsPlace::embed) const {
    Options options;
    options.cuda = false;
    options.weights = weights;
    compile_prims_to_library(graph.clone(), options, folder_ / name);
    return folder_ / name;
  }
  static std::vector<Tensor> run(const std::string& path, const std::vector<Tensor>& inputs) {
    runtime::InstanceOptions options;
    options.device = runtime::Device::cpu;
    options.check_weights = true;
    if (std::filesystem::exists(path + ".weights")) options.weights_path = path + ".weights";
    return runtime::Instance(runtime::Library::open(path), options).run(inputs);
  }
  const test::Folder folder_;
};

TEST_F(Constants, LibrariesOfRandomProductsComputeWhatTheirGraphsDo) {
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    std::mt19937 random(seed);
    const auto graph = plan::random_products(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + print(*graph));
    const std::vector<Tensor> inputs = {plan::random_input(*graph, random)}, expected = interpret(*graph, inputs, false);
    const WeightsPlace place = seed % 3 == 0 ? WeightsPlace::file : WeightsPlace::embed;
    const std::vector<Tensor> found = run(compile(*graph, std::to_string(seed) + ".so", place), inputs);
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_TRUE(found[i].same_bytes(expected[i])) << "output " << i;
  }
}

std::unique_ptr<Graph> one_product() {
  auto graph = std::make_unique<Graph>("product");
  Builder b(*graph, graph->body, Location{});
  Value* x = graph->add_input("x", Type(DType::f32, {12, 40}));
  Tensor values(DType::f32, {64, 40});
  for (int64_t i = 0; i < values.count(); ++i) values.set_int64(i, i % 17 - 8);
  const Attrs attrs = {{"dtype", DType::f32},
                       {"lhs_batch", std::vector<int64_t>{}},
                       {"lhs_contract", std::vector<int64_t>{1}},
                       {"rhs_batch", std::vector<int64_t>{}},
                       {"rhs_contract", std::vector<int64_t>{1}}};
  graph->add_output(b.emit(Op::dot_general_, {x, graph->add_weight("w", values)}, attrs), "y");
  return graph;
}

TEST_F(Constants, TheLibraryHasThePanelsInPlaceOfTheWeight) {
  const auto graph = one_product();
  const std::string path = compile(*graph, "a.so");
  const link::LibraryContents library = link::read_library(folder_.read("a.so"), path);
  ASSERT_EQ(library.weights.size(), 1u);
  EXPECT_EQ(library.weights[0].name, "w.packed");
  EXPECT_EQ(library.weights[0].shape, (Shape{4, 40, 16}));
  EXPECT_EQ(library.weights_bytes, 64 * 40 * 4);
  EXPECT_EQ(library.targets[0].num_kernels, 1);
  EXPECT_EQ(library.targets[0].plans[0].num_launches, 1);
}

TEST_F(Constants, TheInterpreterMakesTheSameBytesWhereCodeCannotRun) {
  const auto graph = one_product();
  compile(*graph, "a.so");
  const std::string by_code = folder_.read("a.so");
  ::setenv("TMPDIR", "/nonexistent", 1);
  std::filesystem::rename(folder_ / "a.so", folder_ / "b.so");
  compile(*graph, "a.so");
  ::unsetenv("TMPDIR");
  EXPECT_TRUE(by_code == folder_.read("a.so"));
}

}  // namespace
}  // namespace tcc::driver
