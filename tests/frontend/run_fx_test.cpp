// Captured programs compiled: the small ones of fx_cases.json and fx_training_cases.json run on the CPU, and are planned for CUDA and run by the
// interpreter of kernels.
#include <gtest/gtest.h>

#include <fstream>

#include "frontend/fx_cases.h"
#include "tcc/driver/pipeline.h"
#include "tcc/group/group.h"
#include "tcc/plan/plan.h"
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

  const plan::Plan plan = plan::make_plan(*prims, group::form_groups(*prims), schedule::Target::cuda_sm80());
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

}  // namespace
}  // namespace tcc
