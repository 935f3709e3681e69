// The same toy model on a CUDA device: graph, patched addresses, host and device tensors, profile. Skipped where there is no device.
#include <gtest/gtest.h>

#include "runtime/toy_model.h"
#include "tcc/runtime/library.h"

namespace tcc {
namespace {

using runtime::Device;
using runtime::Instance;
using runtime::Library;

Tensor numbers(float first) {
  Tensor x(DType::f32, {2, 3});
  for (int i = 0; i < 6; i++) x.mutable_data<float>()[i] = first + static_cast<float>(i);
  return x;
}

void expect_outputs(const std::vector<Tensor>& outputs, float first) {
  for (int i = 0; i < 6; i++) {
    EXPECT_EQ(outputs[0].data<float>()[i], 2 * (first + static_cast<float>(i)) + static_cast<float>(10 * i));
    EXPECT_EQ(outputs[1].data<float>()[i], first + static_cast<float>(i));
  }
  const int32_t expected[] = {0, 0, 7, 7};
  for (int i = 0; i < 4; i++) EXPECT_EQ(outputs[2].data<int32_t>()[i], expected[i]);
}

TEST(Cuda, RunsLikeTheCpu) {
  test::TemporaryFolder folder;
  link::link_shared_object(test::toy_model(folder, true), folder / "toy.so");
  const auto library = Library::open(folder / "toy.so");
  EXPECT_TRUE(library->has_cuda());
  std::string log;
  Instance automatic(library, {.log = [&](const std::string& message) { log = message; }});
  expect_outputs(automatic.run({numbers(1)}), 1);
  if (!automatic.on_cuda()) {
    EXPECT_NE(log.find("runs on CPU"), std::string::npos) << log;
    EXPECT_THROW(Instance(library, {.device = Device::cuda}), Error);
    GTEST_SKIP() << log;
  }
  for (const bool cuda_graph : {true, false}) {
    Instance instance(library, {.device = Device::cuda, .cuda_graph = cuda_graph});
    for (int i = 0; i < 3; i++) expect_outputs(instance.run({numbers(static_cast<float>(i))}), static_cast<float>(i));
    // Other addresses: the nodes of the graph are patched.
    instance.prepare({numbers(50)});
    EXPECT_GT(instance.run_prepared().device_us, 0);
    expect_outputs(instance.prepared_outputs(), 50);
    EXPECT_GT(instance.run_prepared_many(20).device_us, 0);
    EXPECT_EQ(instance.profile_prepared().size(), 5u);
    expect_outputs(instance.prepared_outputs(), 50);
    expect_outputs(instance.run({numbers(7)}), 7);
  }
}

}  // namespace
}  // namespace tcc
