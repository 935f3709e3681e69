// A training library on the fake CUDA driver: one graph per function, scalars written when they change, captures, what is allocated when.
#include "runtime/fake_cuda.h"
#include "runtime/toy_trainer.h"

namespace tcc {
namespace {

using runtime::Device;
using runtime::Instance;
using test::floats;
using test::TrainerReference;
using test::values_of;

const std::vector<float> kX = {1, 0.5f, -1, 2}, kTarget = {0, 1, 2, 3};

class FakeCudaTraining : public test::FakeCuda {
 protected:
  static void SetUpTestSuite() { start(test::kTrainerKernels); }
  static void TearDownTestSuite() { stop(); }
  static std::shared_ptr<const runtime::Library> library(int accumulate = 1) {
    return link_and_open(test::toy_trainer(folder(), accumulate, true));
  }
};

TEST_F(FakeCudaTraining, OneGraphLaunchPerStep) {
  Instance instance(library(), {.device = Device::cuda});
  TrainerReference reference;
  EXPECT_EQ(counts().live_allocations, 1);  // state; no weight is used, gradients and workspace are not needed yet
  const int fills = counts().fills;
  for (int i = 0; i < 4; i++) {
    if (i == 2) instance.set_scalar("lr", reference.lr = 0.0625f);
    if (i == 3) instance.set_scalar("lr", reference.lr);  // as it was
    EXPECT_EQ(values_of(instance.step({floats(kX), floats(kTarget)})[0]), std::vector<float>{reference.accumulate(kX, kTarget)});
    reference.update();
    EXPECT_EQ(values_of(instance.read_state("w")), reference.w);
    EXPECT_EQ(counts().graph_launches, i + 1);
    EXPECT_EQ(counts().fills, fills + (i >= 2 ? 2 : 0));  // both words of the new learning rate, once
  }
  EXPECT_EQ(counts().graphs, 1);
  EXPECT_EQ(counts().patched_nodes, 0);
  EXPECT_EQ(counts().live_allocations, 1 + 1 + 3);  // workspace, x, target and loss staged
  EXPECT_EQ(values_of(instance.run({floats({1, 1, 1, 1})})[0]), reference.w);
  EXPECT_EQ(counts().graphs, 2);
  EXPECT_EQ(counts().live_allocations, 5 + 1);  // y: x is shared
  instance.prepare({floats(kX), floats(kTarget)}, Instance::kStep);
  instance.run_prepared();
  EXPECT_EQ(counts().patched_nodes, 1);  // only the launch that has the caller's tensors
  instance.run_prepared_many(5);
  EXPECT_EQ(counts().patched_nodes, 1);
  EXPECT_EQ(instance.profile_prepared().size(), 2u);
}

TEST_F(FakeCudaTraining, AllocatesWhatWasPlanned) {
  const link::LinkInput input = test::toy_trainer(folder(), 2, true);
  Instance instance(library(2), {.device = Device::cuda});
  // Tensors on the device, so that nothing but the plan's is allocated.
  void* memory[3];
  const tcc_api& api = instance.library().api();
  for (void*& block : memory) ASSERT_EQ(api.allocate(instance.handle(), 16, &block), TCC_OK);
  const long long before = counts().live_bytes - static_cast<long long>(instance.info().state_bytes);
  const int64_t shape[] = {4};
  const tcc_tensor in[] = {{memory[0], shape, nullptr, 1, TCC_F32, TCC_DEVICE_CUDA, 0, {}},
                           {memory[1], shape, nullptr, 1, TCC_F32, TCC_DEVICE_CUDA, 0, {}}};
  const tcc_tensor out = {memory[2], nullptr, nullptr, 0, TCC_F32, TCC_DEVICE_CUDA, 0, {}};
  for (int i = 0; i < 4; i++) {
    ASSERT_EQ(api.step(instance.handle(), in, 2, &out, 1, nullptr, 0, nullptr, nullptr), TCC_OK) << api.last_error();
    const int function = instance.library().function(i == 0 ? "accumulate" : "step");
    const tcc_function_info info = instance.function_info(function);
    EXPECT_EQ(counts().live_bytes - before, static_cast<long long>(info.planned_peak_bytes)) << i;
    EXPECT_EQ(link::planned_memory(input, input.program.targets[1], static_cast<size_t>(function)).peak_bytes(), info.planned_peak_bytes);
  }
  for (void* block : memory) api.deallocate(instance.handle(), block);
}

TEST_F(FakeCudaTraining, AccumulatesAndSaves) {
  const std::string path = folder() / "state.safetensors";
  TrainerReference reference;
  {
    Instance instance(library(2), {.device = Device::cuda, .cuda_graph = false});
    for (int i = 0; i < 4; i++) {
      instance.step({floats(kX), floats(kTarget)});
      reference.accumulate(kX, kTarget, 0.5f);
      if (i % 2 == 1) reference.update();
    }
    EXPECT_EQ(values_of(instance.read_state("w")), reference.w);
    instance.save_state(path);
  }
  // What one device wrote goes on on another.
  for (const Device device : {Device::cuda, Device::cpu}) {
    Instance instance(library(2), {.device = device});
    TrainerReference goes_on = reference;
    instance.step({floats(kX), floats(kTarget)});  // a micro-batch that the file makes forgotten
    instance.load_state(path);
    for (int i = 0; i < 2; i++) {
      instance.step({floats(kX), floats(kTarget)});
      goes_on.accumulate(kX, kTarget, 0.5f);
    }
    goes_on.update();
    EXPECT_EQ(values_of(instance.read_state("w")), goes_on.w);
    EXPECT_EQ(values_of(instance.read_state("optimizer.step")), std::vector<float>{3});
    EXPECT_EQ(instance.read_state("calls").as_int64(0), 7);
  }
}

TEST_F(FakeCudaTraining, ACaptureTakesTheScalarsAlong) {
  Instance instance(library(), {.device = Device::cuda});
  const tcc_api& api = instance.library().api();
  void* memory[3];
  for (void*& block : memory) ASSERT_EQ(api.allocate(instance.handle(), 16, &block), TCC_OK);
  ASSERT_EQ(api.copy(instance.handle(), memory[0], TCC_DEVICE_CUDA, kX.data(), TCC_DEVICE_CPU, 16), TCC_OK);
  ASSERT_EQ(api.copy(instance.handle(), memory[1], TCC_DEVICE_CUDA, kTarget.data(), TCC_DEVICE_CPU, 16), TCC_OK);
  const int64_t shape[] = {4};
  const tcc_tensor in[] = {{memory[0], shape, nullptr, 1, TCC_F32, TCC_DEVICE_CUDA, 0, {}},
                           {memory[1], shape, nullptr, 1, TCC_F32, TCC_DEVICE_CUDA, 0, {}}};
  const tcc_tensor out = {memory[2], nullptr, nullptr, 0, TCC_F32, TCC_DEVICE_CUDA, 0, {}};
  const auto step = [&](void* stream) { return api.step(instance.handle(), in, 2, &out, 1, nullptr, 0, stream, nullptr); };
  const int fills = counts().fills, allocations = counts().live_allocations;
  ASSERT_EQ(step(capturing_stream()), TCC_OK) << api.last_error();
  EXPECT_EQ(counts().fills, fills + 4);  // two scalars of two words
  EXPECT_EQ(counts().graphs, 0);
  EXPECT_EQ(counts().live_allocations, allocations + 1);
  // A replay may have changed them: the next run of ours writes them again, once.
  ASSERT_EQ(step(nullptr), TCC_OK) << api.last_error();
  EXPECT_EQ(counts().fills, fills + 8);
  ASSERT_EQ(step(nullptr), TCC_OK);
  EXPECT_EQ(counts().fills, fills + 8);
  TrainerReference reference;
  for (int i = 0; i < 2; i++) {
    reference.accumulate(kX, kTarget);
    reference.update();
  }
  EXPECT_EQ(values_of(instance.read_state("w")), reference.w);
  for (void* block : memory) api.deallocate(instance.handle(), block);
}

TEST_F(FakeCudaTraining, AWorkspaceThatWasCapturedStays) {
  Instance instance(library(2), {.device = Device::cuda});
  const tcc_api& api = instance.library().api();
  void* memory[3];
  for (void*& block : memory) ASSERT_EQ(api.allocate(instance.handle(), 16, &block), TCC_OK);
  const int64_t shape[] = {4};
  const tcc_tensor in[] = {{memory[0], shape, nullptr, 1, TCC_F32, TCC_DEVICE_CUDA, 0, {}},
                           {memory[1], shape, nullptr, 1, TCC_F32, TCC_DEVICE_CUDA, 0, {}}};
  const tcc_tensor out = {memory[2], nullptr, nullptr, 0, TCC_F32, TCC_DEVICE_CUDA, 0, {}};
  const auto step = [&](void* stream) { return api.step(instance.handle(), in, 2, &out, 1, nullptr, 0, stream, nullptr); };
  ASSERT_EQ(step(capturing_stream()), TCC_OK) << api.last_error();  // accumulate: 256 bytes
  const int allocations = counts().live_allocations;
  ASSERT_EQ(step(nullptr), TCC_OK) << api.last_error();  // step: 1024 bytes
  EXPECT_EQ(counts().live_allocations, allocations + 1);
  for (int i = 0; i < 4; i++) ASSERT_EQ(step(nullptr), TCC_OK);
  EXPECT_EQ(counts().live_allocations, allocations + 1);
  for (void* block : memory) api.deallocate(instance.handle(), block);
}

TEST_F(FakeCudaTraining, FailuresNameTheFunctionAndTheStateStaysUsable) {
  Instance instance(library(2), {.device = Device::cuda});
  const auto step = [&] { instance.step({floats(kX), floats(kTarget)}); };
  fail_next("cuGraphCreate");
  std::string message = test::message_of(step, ExitCode::environment);
  EXPECT_NE(message.find("cuGraphCreate of function `accumulate`"), std::string::npos) << message;
  fail_next("cuMemsetD8Async");  // the gradients, which nobody has zeroed so far
  message = test::message_of(step, ExitCode::environment);
  EXPECT_NE(message.find("cuMemsetD8Async of the gradients"), std::string::npos) << message;
  TrainerReference reference;
  for (int i = 0; i < 2; i++) {
    step();
    reference.accumulate(kX, kTarget, 0.5f);
  }
  reference.update();
  EXPECT_EQ(values_of(instance.read_state("w")), reference.w);
  fail_next("cuMemAlloc");
  message =
      test::message_of([&] { Instance second(instance.library().shared_from_this(), {.device = Device::cuda}); }, ExitCode::environment);
  EXPECT_NE(message.find("bytes for the state"), std::string::npos) << message;
}

}  // namespace
}  // namespace tcc
