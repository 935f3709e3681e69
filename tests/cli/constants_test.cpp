// Weights as kernels want them: computed when the library is made, by code or by the interpreter, embedded or in a file; or, where other code reads the weights
// as they were, when an instance is created.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "cli/program.h"
#include "plan/random_products.h"
#include "tcc/driver/pipeline.h"
#include "tcc/link/read_program.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/interpret.h"
#include "tcc/runtime/library.h"

namespace tcc::driver {
namespace {

class Constants : public testing::Test {
 protected:
  std::string compile(const Graph& graph, const std::string& name, WeightsPlace weights = WeightsPlace::embed, bool cuda = false) const {
    Options options;
    options.cuda = cuda;
    options.march = {"ptx"};
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
    std::vector<int64_t> num_launches;
    for (const bool cuda : {false, true}) {
      const std::string name = std::to_string(seed) + (cuda ? "-both.so" : ".so"), path = compile(*graph, name, place, cuda);
      const std::vector<Tensor> found = run(path, inputs);
      for (size_t i = 0; i < expected.size(); ++i) ASSERT_TRUE(found[i].same_bytes(expected[i])) << "output " << i;
      for (const link::LibraryTarget& target : link::read_library(folder_.read(name), path).targets) {
        if (target.kind == program::TargetKind::cpu) num_launches.push_back(target.plans[0].num_launches);
      }
    }
    EXPECT_EQ(num_launches[0], num_launches[1]) << "a run packs weights in one of the libraries alone";
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

/// A matmul of `rows` by weights of 4 bits, 256 x 512, with a scale for each 32 of a row.
std::unique_ptr<Graph> narrow_product(int64_t rows) {
  auto graph = std::make_unique<Graph>("product");
  Builder b(*graph, graph->body, Location{});
  Value* x = graph->add_input("x", Type(DType::f32, {rows, 512}));
  Tensor values(DType::u4, {256, 512}), scales(DType::f32, {256, 16});
  for (int64_t i = 0; i < values.count(); ++i) values.set_int64(i, i % 17);
  for (int64_t i = 0; i < scales.count(); ++i) scales.set_double(i, static_cast<double>(i % 5 + 1) / 4);
  Tensor zero(DType::u4, {});
  zero.set_int64(0, 8);
  Value* wide =
      b.emit(Op::dequantize_linear_, {graph->add_weight("w", values), graph->add_weight("s", scales), graph->add_weight("z", zero)},
             {{"axis", int64_t{1}}, {"block_size", int64_t{32}}});
  graph->add_output(b.emit(Op::matmul_, {x, b.transpose(wide, {1, 0})}), "y");
  Diagnostics diagnostics;
  decompose(*graph, diagnostics);
  for (int round = 0; round < 2; ++round) {
    canonicalize(*graph);
    fold_constants(*graph);
    if (round == 0) multiply_quantized(*graph);
  }
  eliminate_dead_code(*graph);
  return graph;
}

TEST_F(Constants, NarrowWeightsStayNarrow) {
  for (const int64_t rows : {1, 40}) {
    const auto graph = narrow_product(rows);
    std::mt19937 random(static_cast<uint32_t>(rows));
    const std::vector<Tensor> inputs = {plan::random_input(*graph, random)}, expected = interpret(*graph, inputs, false);
    for (const bool cuda : {false, true}) {
      const std::string name = std::to_string(rows) + (cuda ? "-both.so" : ".so"), path = compile(*graph, name, WeightsPlace::embed, cuda);
      const link::LibraryContents library = link::read_library(folder_.read(name), path);
      EXPECT_LE(library.weights_bytes, 256 * 512 / 2 + 256 * 16 * 4 + 64) << print(*graph);
      const std::vector<Tensor> found = run(path, inputs);
      for (int64_t i = 0; i < expected[0].count(); ++i)
        ASSERT_NEAR(found[0].as_double(i), expected[0].as_double(i), 1e-3 * (1 + std::fabs(expected[0].as_double(i))))
            << name << " at " << i;
    }
  }
}

TEST_F(Constants, WhereTargetsShareWeightsAnInstancePacksThem) {
  const auto graph = one_product();
  const std::string path = compile(*graph, "a.so", WeightsPlace::embed, true);
  const link::LibraryContents library = link::read_library(folder_.read("a.so"), path);
  ASSERT_EQ(library.weights.size(), 1u);
  EXPECT_EQ(library.weights[0].name, "w");
  for (const link::LibraryTarget& target : library.targets) {
    const bool cpu = target.kind == program::TargetKind::cpu;
    EXPECT_EQ(target.prepared_bytes, cpu ? 64 * 40 * 4 : 0);
    EXPECT_EQ(target.num_kernels, cpu ? 2 : 1);
    EXPECT_EQ(target.plans[0].num_launches, 1);
  }
}

// Words of a language model: rows are looked up, and a product reads all of them.
TEST_F(Constants, AWeightThatUnitsReadInTwoWaysIsPackedForAnInstance) {
  auto graph = std::make_unique<Graph>("words");
  Builder b(*graph, graph->body, Location{});
  Value* ids = graph->add_input("ids", Type(DType::i32, {12}));
  Tensor values(DType::f32, {64, 40}), square(DType::f32, {40, 40});
  for (int64_t i = 0; i < values.count(); ++i) values.set_int64(i, i % 17 - 8);
  for (int64_t i = 0; i < square.count(); ++i) square.set_int64(i, i % 5 - 2);
  Value* words = graph->add_weight("words", values);
  const auto product = [&](Value* x, Value* weight, int64_t axis) {
    return b.emit(Op::dot_general_, {x, weight},
                  {{"dtype", DType::f32},
                   {"lhs_batch", std::vector<int64_t>{}},
                   {"lhs_contract", std::vector<int64_t>{1}},
                   {"rhs_batch", std::vector<int64_t>{}},
                   {"rhs_contract", std::vector<int64_t>{axis}}});
  };
  Value* rows = b.emit(Op::gather_, {words, ids}, {{"axis", int64_t{0}}});
  graph->add_output(product(product(rows, graph->add_weight("w", square), 0), words, 1), "y");
  const std::string path = compile(*graph, "a.so");
  const link::LibraryContents library = link::read_library(folder_.read("a.so"), path);
  std::vector<std::string> names;
  for (const link::LibraryTensor& weight : library.weights) names.push_back(weight.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"w.packed", "words"}));
  EXPECT_EQ(library.targets[0].prepared_bytes, 64 * 40 * 4);
  Tensor input(DType::i32, {12});
  for (int64_t i = 0; i < 12; ++i) input.set_int64(i, i * 5);
  const std::vector<Tensor> inputs = {input};
  EXPECT_TRUE(run(path, inputs)[0].same_bytes(interpret(*graph, inputs, false)[0]));
}

// Its parameters change while it runs, and its memory is planned to the byte.
TEST_F(Constants, ALibraryThatTrainsPreparesNothing) {
  for (const char* mode : {"--mode=train --loss=cross_entropy --optimizer=sgd", "--mode=grad --loss=cross_entropy"}) {
    const test::Result result =
        test::run_tcc(std::string("\"$MODELS/mnist_mlp/unoptimized.onnx\" --emit=manifest=m.json ") + mode, folder_.path());
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const std::string text = folder_.read("m.json");
    EXPECT_NE(text.find("\"prepared_bytes\": 0,"), std::string::npos) << text;
    for (size_t at = 0; (at = text.find("\"prepared_bytes\": ", at)) != std::string::npos; ++at)
      EXPECT_EQ(text.substr(at, 20), "\"prepared_bytes\": 0,");
  }
}

TEST_F(Constants, TheInterpreterMakesTheSameBytesWhereCodeCannotRun) {
  const auto graph = one_product();
  compile(*graph, "a.so");
  const std::string by_code = folder_.read("a.so");
  std::filesystem::rename(folder_ / "a.so", folder_ / "b.so");
  {
    const test::Variable temporary("TMPDIR", "/nonexistent");
    compile(*graph, "a.so");
  }
  EXPECT_TRUE(by_code == folder_.read("a.so"));
}

}  // namespace
}  // namespace tcc::driver
