// Captured programs compiled: the small ones of fx_cases.json and fx_training_cases.json run on the CPU, and are planned for CUDA and run by the
// interpreter of kernels.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "frontend/fx_cases.h"
#include "plan/plan_graph.h"
#include "tcc/driver/pipeline.h"
#include "tcc/group/group.h"
#include "tcc/runtime/library.h"
#include "tcc/schedule/schedule.h"
#include "unit/scratch.h"

namespace tcc {
namespace {

/// Kernels compute in the tensors' dtypes, and add in other orders.
constexpr double kFactor = 20;

void check_program(const nlohmann::json& one, const nlohmann::json& program) {
  const testing::ScratchFolder folder;
  driver::Options options;
  options.model = folder / "program.json";
  options.cuda = false;
  options.optimization = 1;
  std::ofstream(options.model) << program.dump();
  Diagnostics diagnostics;
  const std::unique_ptr<Graph> prims = driver::compile_to_prims(options, diagnostics);
  const std::vector<Tensor> inputs = testing::inputs_of(one, *prims);
  std::vector<Tensor> expected;
  for (const auto& output : one.at("outputs")) expected.push_back(testing::tensor_of(output));

  driver::compile_prims_to_library(prims->clone(), options, folder / "program.so");
  runtime::InstanceOptions on_cpu;
  on_cpu.device = runtime::Device::cpu;
  on_cpu.num_threads = 1;
  runtime::Instance instance(runtime::Library::open(folder / "program.so"), on_cpu);
  std::vector<Tensor> given;  // a library has a seed of its own
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (prims->body.args[i]->name != "seed") given.push_back(inputs[i]);
  }
  const std::vector<Tensor> found = instance.run(given);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) testing::compare(found[i], expected[i], "on the CPU, output " + std::to_string(i), kFactor);

  const plan::Plan plan = plan::plan_graph(*prims, schedule::Target::cuda_sm80());
  EXPECT_EQ(plan::verify(plan), std::vector<std::string>());
  const std::vector<Tensor> in_kernels = plan::interpret(plan, inputs);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].count() > 0) testing::compare(in_kernels[i], expected[i], "in kernels for CUDA, output " + std::to_string(i), kFactor);
  }
}

TEST(FxPrograms, RunCompiled) {
  for (const auto& one : testing::fx_cases()) {
    for (const auto& program : one.at("programs")) {
      SCOPED_TRACE(one.at("name").get<std::string>());
      try {
        check_program(one, program);
      } catch (const std::exception& error) { ADD_FAILURE() << error.what(); }
    }
  }
}

/// `y = x * 2` under guards on the elements of `k` (i64, by its shape), of `t` (f32[3], the scaled tensor) and of `b` (bool).
nlohmann::json guarded_file(const std::string& shape) {
  return nlohmann::json::parse(R"json({"format": "tcc.fx", "version": [1, 0], "entry": "g", "graphs": [{"id": "g", "role": "forward",
    "inputs": [{"name": "t", "kind": "user"}, {"name": "k", "kind": "user"}, {"name": "b", "kind": "user"}],
    "values": {"t": {"dtype": "f32", "shape": [3]}, "k": {"dtype": "i64", "shape": )json" +
                               shape + R"json(}, "b": {"dtype": "bool", "shape": []}, "y": {"dtype": "f32", "shape": [3]}},
    "nodes": [{"name": "y", "op": "aten.mul.Scalar", "args": [{"v": "t"}, 2], "outs": ["y"]}],
    "outputs": [{"value": "y", "kind": "user"}],
    "guards": [{"kind": "value", "input": "k", "equals": 3}, {"kind": "value", "input": "t", "equals": 0.1},
               {"kind": "value", "input": "b", "equals": true}]}]})json");
}

Tensor filled(DType dtype, const Shape& shape, double value) {
  Tensor tensor(dtype, shape);
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_double(i, value);
  return tensor;
}

TEST(FxPrograms, GuardsOnElementsAreCheckedByEachRun) {
  for (const Shape& shape : {Shape{}, Shape{2, 5}}) {
    const testing::ScratchFolder folder;
    driver::Options options;
    options.model = folder / "guarded.json";
    options.cuda = false;
    std::ofstream(options.model) << guarded_file(shape.empty() ? "[]" : "[2, 5]").dump();
    Diagnostics diagnostics;
    const std::unique_ptr<Graph> prims = driver::compile_to_prims(options, diagnostics);
    EXPECT_TRUE(diagnostics.all().empty());
    driver::compile_prims_to_library(prims->clone(), options, folder / "guarded.so");
    const auto library = runtime::Library::open(folder / "guarded.so");
    runtime::Instance instance(library, {.device = runtime::Device::cpu, .num_threads = 1});
    // What is guarded is not an index: nothing is said of its range.
    EXPECT_FALSE(library->inputs().at(1).range.has_value());

    const plan::Plan plan = plan::plan_graph(*prims, schedule::Target::cuda_sm80());
    ASSERT_EQ(plan.checks.size(), 3U);
    const std::vector<Tensor> good{filled(DType::f32, {3}, 0.1), filled(DType::i64, shape, 3), filled(DType::boolean, {}, 1)};
    EXPECT_FLOAT_EQ(static_cast<float>(instance.run(good)[0].as_double(2)), 0.2F);
    std::vector<int64_t> failed;
    plan::interpret(plan, good, nullptr, &failed);
    EXPECT_EQ(failed, (std::vector<int64_t>{0, 0, 0}));

    const std::vector<std::pair<size_t, std::string>> faults = {{0, "the guard that input `t` is 0.1 fails"},
                                                                {1, "the guard that input `k` is 3 fails"},
                                                                {2, "the guard that input `b` is true fails"}};
    for (const auto& [input, message] : faults) {
      std::vector<Tensor> wrong = good;
      wrong[input] = Tensor(wrong[input].dtype(), wrong[input].shape());
      std::memcpy(wrong[input].mutable_bytes(), good[input].bytes(), static_cast<size_t>(good[input].size_bytes()));
      wrong[input].set_double(wrong[input].count() - 1, 0);  // one of the elements alone
      const std::string found = testing::error_of(ExitCode::usage, [&] { instance.run(wrong); });
      EXPECT_NE(found.find("error: " + message + " [invalid-argument]"), std::string::npos) << found;
      EXPECT_NO_THROW(instance.run(good));  // reported once
      plan::interpret(plan, wrong, nullptr, &failed);
      for (size_t i = 0; i < failed.size(); ++i) EXPECT_EQ(failed[i] != 0, plan.checks[i].index == message) << plan.checks[i].index;
    }
  }
}

/// The file with one guard, on the elements of `k`, which is of the dtype.
std::unique_ptr<Graph> prims_under_guard(const char* dtype, const char* value) {
  nlohmann::json file = guarded_file("[]");
  file["graphs"][0]["values"]["k"]["dtype"] = dtype;
  file["graphs"][0]["guards"] = nlohmann::json::parse(std::string(R"json([{"kind": "value", "input": "k", "equals": )json") + value + "}]");
  const testing::ScratchFolder folder;
  driver::Options options;
  options.model = folder / "guarded.json";
  std::ofstream(options.model) << file.dump();
  Diagnostics diagnostics;
  return driver::compile_to_prims(options, diagnostics);
}

TEST(FxPrograms, GuardsThatNoElementFulfilsAreRefused) {
  const std::pair<const char*, const char*> cases[] = {{"i64", "2.5"}, {"i64", "1e+300"}, {"i8", "200"}, {"i8", "-129"},
                                                       {"u8", "256"},  {"u64", "-1"},     {"bool", "2"}, {"i32", "2147483648"}};
  for (const auto& [dtype, value] : cases) {
    const std::string found = testing::error_of(ExitCode::model, [&, dtype = dtype, value = value] { prims_under_guard(dtype, value); });
    const std::string message = std::string("the guard that input `k` is ") + value + " fails: it is of " + dtype + " [failed-guard]";
    EXPECT_NE(found.find(message), std::string::npos) << found;
  }
}

/// Numbers that doubles don't tell apart.
TEST(FxPrograms, GuardsOnElementsAreExact) {
  constexpr int64_t wanted = (int64_t{1} << 53) + 1;
  const plan::Plan plan = plan::plan_graph(*prims_under_guard("i64", std::to_string(wanted).c_str()), schedule::Target::cuda_sm80());
  for (const int64_t value : {wanted - 1, wanted, wanted + 1}) {
    Tensor k(DType::i64, {});
    k.set_int64(0, value);
    std::vector<int64_t> failed;
    plan::interpret(plan, {filled(DType::f32, {3}, 1), k, filled(DType::boolean, {}, 1)}, nullptr, &failed);
    EXPECT_EQ(failed.at(0) == 0, value == wanted) << value;
  }
}

}  // namespace
}  // namespace tcc
