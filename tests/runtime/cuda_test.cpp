// The same toy model on a CUDA device: graph, patched addresses, host and device tensors, profile. Skipped where there is no device.
#include <gtest/gtest.h>

#include "runtime/toy_model.h"
#include "tcc/runtime/library.h"

namespace tcc {
namespace {

using runtime::Device;
using runtime::Instance;
using runtime::Library;

TEST(Cuda, RunsLikeTheCpu) {
  test::TemporaryFolder folder;
  link::link_shared_object(test::toy_model(folder, true), folder / "toy.so");
  const auto library = Library::open(folder / "toy.so");
  EXPECT_TRUE(library->has_cuda());
  std::string log;
  Instance automatic(library, {.log = [&](const std::string& message) { log = message; }});
  test::expect_toy_outputs(automatic.run({test::toy_input(1)}), 1);
  if (!automatic.on_cuda()) {
    EXPECT_NE(log.find("runs on CPU"), std::string::npos) << log;
    EXPECT_THROW(Instance(library, {.device = Device::cuda}), Error);
    GTEST_SKIP() << log;
  }
  for (const bool cuda_graph : {true, false}) {
    Instance instance(library, {.device = Device::cuda, .cuda_graph = cuda_graph});
    for (int i = 0; i < 3; i++) test::expect_toy_outputs(instance.run({test::toy_input(static_cast<float>(i))}), static_cast<float>(i));
    // Other addresses: the nodes of the graph are patched.
    instance.prepare({test::toy_input(50)});
    EXPECT_GT(instance.run_prepared().device_us, 0);
    test::expect_toy_outputs(instance.prepared_outputs(), 50);
    EXPECT_GT(instance.run_prepared_many(20).device_us, 0);
    EXPECT_EQ(instance.profile_prepared().size(), 5u);
    test::expect_toy_outputs(instance.prepared_outputs(), 50);
    test::expect_toy_outputs(instance.run({test::toy_input(7)}), 7);
  }
}

}  // namespace
}  // namespace tcc
