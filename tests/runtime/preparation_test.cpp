// What an instance makes of weights when it is created: once, before any run, and once for all instances of a process that share the weights.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <thread>

#include "runtime/toy_model.h"
#include "tcc/runtime/library.h"
#include "tcc/support/files.h"

namespace tcc {
namespace {

using namespace link;
using runtime::Device;
using runtime::Instance;
using runtime::Library;
using test::expect_toy_outputs;
using test::toy_input;

// `once` counts how often it has run; y = t + p + 1000 for each time but the first.
const char* const kCountingKernels = R"(
#include <stdint.h>
static int times;
void tcc_v1_once(void* const* b, int64_t begin, int64_t end) {
  const float* w = b[0]; float* p = b[1];
  times += begin == 0;
  for (int64_t i = begin * 3; i < end * 3; i++) p[i] = 2 * w[i];
}
void tcc_v1_count(void* const* b, int64_t begin, int64_t end) {
  const float* t = b[0]; const float* p = b[1]; float* y = b[2];
  for (int64_t i = begin * 3; i < end * 3; i++) y[i] = t[i] + p[i] + 1000 * (times - 1);
}
)";

class Preparation : public testing::Test {
 protected:
  LinkInput counting_model() const {
    LinkInput input = test::toy_model(folder_);
    test::add_preparation(&input);
    TargetDesc& target = input.program.targets[0];
    target.kernels.push_back({.name = "once", .num_buffers = 2, .images = {}});
    target.kernels.push_back({.name = "count", .num_buffers = 3, .images = {}});
    target.preparation.launches[0].kernel = 2;
    target.functions[0].launches[1].kernel = 3;
    input.cpu_objects.push_back({"counting.o", test::compile_c(folder_, kCountingKernels)});
    return input;
  }
  std::shared_ptr<const Library> open(const LinkInput& input, const std::string& name = "toy.so") const {
    link_shared_object(input, folder_ / name);
    return Library::open(folder_ / name);
  }
  /// How often it was prepared, by an instance that runs.
  static int times(Instance& instance) {
    const float y = instance.run({toy_input(1)})[0].data<float>()[0];
    return static_cast<int>(y - 2) / 1000 + 1;
  }
  const test::TemporaryFolder folder_;
};

TEST_F(Preparation, RunsOnceForAllRunsAndInstances) {
  const auto library = open(counting_model());
  for (int round = 1; round <= 3; round++) {
    auto first = std::make_unique<Instance>(library, runtime::InstanceOptions{.device = Device::cpu, .num_threads = round});
    EXPECT_EQ(first->info().prepared_bytes, 512u);
    EXPECT_EQ(first->info().weights_bytes, 0u);  // nothing else reads w
    EXPECT_EQ(first->info().num_launches, 5u);
    EXPECT_EQ(first->function_info(0).planned_peak_bytes, 512 + 512u);
    for (int run = 0; run < 5; run++) EXPECT_EQ(times(*first), round);
    Instance second(library, {.device = Device::cpu, .num_threads = 1});
    EXPECT_EQ(times(second), round);
    first.reset();
    EXPECT_EQ(times(second), round);  // the last one keeps it; a later one makes it anew
  }
}

TEST_F(Preparation, ThreadsThatCreateInstancesAtOnceShareIt) {
  const auto library = open(counting_model());
  std::vector<std::unique_ptr<Instance>> instances(8);
  std::vector<std::thread> threads;
  for (auto& instance : instances) {
    threads.emplace_back(
        [&] { instance = std::make_unique<Instance>(library, runtime::InstanceOptions{.device = Device::cpu, .num_threads = 1}); });
  }
  for (std::thread& thread : threads) thread.join();
  for (auto& instance : instances) EXPECT_EQ(times(*instance), 1);
}

/// A caller that counts what it allocated.
struct Allocator {
  size_t bytes = 0;
  size_t limit = SIZE_MAX;
  static void* allocate(void* user, size_t size, size_t alignment) {
    auto& self = *static_cast<Allocator*>(user);
    if (size > self.limit) return nullptr;
    self.bytes += size;
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  }
  static void deallocate(void* user, void* block, size_t size) {
    static_cast<Allocator*>(user)->bytes -= size;
    free(block);
  }
};

TEST_F(Preparation, LiesInTheMemoryOfACallerThatAllocates) {
  LinkInput input = counting_model();
  input.program.targets[0].prepared_bytes = 1 << 20;
  const auto library = open(input);
  Instance shared(library, {.device = Device::cpu, .num_threads = 1});
  const tcc_api& api = library->api();
  Allocator allocator;
  tcc_create_options options = {};
  options.struct_size = sizeof options;
  options.device = TCC_DEVICE_CPU;
  options.num_threads = 1;
  options.allocate = Allocator::allocate;
  options.deallocate = Allocator::deallocate;
  options.allocator_user = &allocator;
  tcc_instance* instance = nullptr;
  ASSERT_EQ(api.create(&options, &instance), TCC_OK) << api.last_error();
  EXPECT_GE(allocator.bytes, size_t{1} << 20);
  EXPECT_EQ(times(shared), 2);
  api.destroy(instance);
  EXPECT_EQ(allocator.bytes, 0u);
  allocator.limit = 1 << 19;
  EXPECT_EQ(api.create(&options, &instance), TCC_OUT_OF_MEMORY);
  EXPECT_STREQ(api.last_error(), "no memory for what is made of the weights: 1048576 bytes");
  EXPECT_EQ(allocator.bytes, 0u);
}

TEST_F(Preparation, WeightsInAFileOfTheirOwnAreItsOperands) {
  LinkInput input = counting_model();
  input.embed_weights = false;
  write_weights_file(input, folder_ / "toy.weights");
  const auto library = open(input);
  Instance instance(library, {.device = Device::cpu, .weights_path = folder_ / "toy.weights", .check_weights = true});
  expect_toy_outputs(instance.run({toy_input(3)}), 3);
}

TEST_F(Preparation, DamagedWeightsAreFound) {
  const std::string path = folder_ / "damaged.so";
  link_shared_object(counting_model(), path);
  std::string bytes(MappedFile::open(path)->text());
  float values[6];
  for (int i = 0; i < 6; i++) values[i] = static_cast<float>(5 * i);
  const size_t at = bytes.find(std::string_view(reinterpret_cast<const char*>(values), sizeof values));
  ASSERT_NE(at, std::string::npos);
  bytes[at + 5] ^= 16;
  write_file_atomically(path, std::string_view(bytes), 0777);
  const auto library = Library::open(path);
  const std::string message =
      test::message_of([&] { Instance instance(library, {.device = Device::cpu, .check_weights = true}); }, ExitCode::environment);
  EXPECT_NE(message.find("the weights inside this library are damaged"), std::string::npos) << message;
}

TEST_F(Preparation, LinkerNamesWhatDoesNotFit) {
  LinkInput input = counting_model();
  TargetDesc& target = input.program.targets[0];
  target.preparation.buffers[1].offset = 500;
  target.preparation.buffers.push_back({BufferKind::arena, 0, 0, 24, "t"});
  target.preparation.launches.push_back({.kind = LaunchKind::copy, .arguments = {0, 1}, .label = "copy", .size_bytes = 24});
  target.functions[0].buffers.push_back({BufferKind::prepared, 0, 512, 8, "behind"});
  target.functions[0].launches[2].arguments = {0, 1};
  const std::string message = test::message_of([&] { link_shared_object(input, folder_ / "a.so"); }, ExitCode::internal);
  for (const char* part :
       {"buffer 1 `w.twice` ends at 524 in a block of what is prepared of 512 bytes", "buffer 2 `t` is neither a weight nor prepared",
        "launch 1 `copy` runs no kernel", "buffer 7 `behind` ends at 520 in a block of what is prepared of 512 bytes",
        "launch 2 `copy of x` writes to an input, weight or scalar, or to what is prepared"})
    EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
}

}  // namespace
}  // namespace tcc
