// How the launcher uses the CUDA driver, against a fake one (fake_cuda.c): which code it loads, when it builds, patches and bypasses the
// graph, what it says when a call fails, and that nothing is left behind.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "runtime/fake_cuda.h"
#include "tcc/runtime/library.h"
#include "tcc/runtime/program.h"
#include "tcc/support/files.h"

namespace tcc {
namespace {

using runtime::Device;
using runtime::Instance;
using runtime::Library;
using test::expect_toy_outputs;
using test::toy_input;

class FakeCuda : public test::FakeCuda {
 protected:
  static void SetUpTestSuite() { start(test::kToyKernels); }
  static void TearDownTestSuite() { stop(); }

  std::shared_ptr<const Library> library(const std::function<void(link::LinkInput&)>& change = [](link::LinkInput&) {}) {
    link::LinkInput input = test::toy_model(folder(), true);
    change(input);
    return link_and_open(input);
  }
};

std::string message_of(const std::function<void()>& action) { return test::message_of(action, ExitCode::environment); }

TEST_F(FakeCuda, BuildsTheGraphOnceAndPatchesWhatMoved) {
  std::string log;
  Instance instance(library(), {.log = [&](const std::string& message) { log = message; }});
  ASSERT_TRUE(instance.on_cuda());
  EXPECT_NE(log.find("toy runs on Fake GPU (CUDA device 0, compute capability 9.0)"), std::string::npos) << log;
  for (int i = 0; i < 3; i++) expect_toy_outputs(instance.run({toy_input(static_cast<float>(i))}), static_cast<float>(i));
  EXPECT_EQ(counts().graphs, 1);
  EXPECT_EQ(counts().graph_launches, 3);
  EXPECT_EQ(counts().patched_nodes, 0);
  const int allocations = counts().live_allocations;  // weights, workspace, four staged tensors
  EXPECT_EQ(allocations, 6);

  instance.prepare({toy_input(50)});
  instance.run_prepared();
  expect_toy_outputs(instance.prepared_outputs(), 50);
  EXPECT_EQ(counts().graphs, 1);
  EXPECT_EQ(counts().patched_nodes, 5);  // every launch touches an input or output
  const runtime::Timing timing = instance.run_prepared();
  EXPECT_EQ(timing.device_us, 250);
  EXPECT_EQ(counts().patched_nodes, 5);
  instance.run_prepared_many(10);
  EXPECT_EQ(counts().graph_launches, 15);
  const auto profile = instance.profile_prepared();
  ASSERT_EQ(profile.size(), 5u);
  EXPECT_EQ(profile[0].time_us, 250);
  EXPECT_EQ(counts().graph_launches, 15);
  expect_toy_outputs(instance.run({toy_input(3)}), 3);
  EXPECT_EQ(counts().patched_nodes, 10);
}

// What kernels found is there once something has waited: no run waits for it.
TEST_F(FakeCuda, ReportsBadIndicesWhenTheyAreKnown) {
  const auto model = library([](link::LinkInput& input) { test::add_check(&input); });
  const tcc_api& api = model->api();
  const std::string message = "input `x` has the index 100 at gather `block/Scale`, valid are -100 to 99";
  {
    Instance instance(model, {.device = Device::cuda});
    EXPECT_EQ(counts().live_host_allocations, 1);
    expect_toy_outputs(instance.run({toy_input(90)}), 90);
    // Host tensors, timed runs and profiles wait, so they report themselves.
    const auto reports = [&](const std::function<void()>& action) {
      const std::string text = test::message_of(action, ExitCode::usage);
      EXPECT_NE(text.find(message), std::string::npos) << text;
    };
    reports([&] { instance.run({toy_input(95)}); });
    instance.prepare({toy_input(95)});
    reports([&] { instance.run_prepared(); });
    reports([&] { instance.profile_prepared(); });
    expect_toy_outputs(instance.run({toy_input(1)}), 1);
  }
  tcc_create_options options = {};
  options.struct_size = sizeof options;
  options.device = TCC_DEVICE_CUDA;
  for (const bool check : {true, false}) {
    options.no_index_check = !check;
    tcc_instance* instance = nullptr;
    ASSERT_EQ(api.create(&options, &instance), TCC_OK) << api.last_error();
    void* memory[4] = {};
    for (void*& block : memory) ASSERT_EQ(api.allocate(instance, 24, &block), TCC_OK);
    const int64_t shape[] = {2, 3}, four[] = {4};
    const tcc_tensor in = {memory[0], shape, nullptr, 2, TCC_F32, TCC_DEVICE_CUDA, 0, {}};
    const tcc_tensor out[] = {{memory[1], shape, nullptr, 2, TCC_F32, TCC_DEVICE_CUDA, 0, {}},
                              {memory[2], shape, nullptr, 2, TCC_F32, TCC_DEVICE_CUDA, 0, {}},
                              {memory[3], four, nullptr, 1, TCC_I32, TCC_DEVICE_CUDA, 0, {}}};
    const auto give = [&](float first) {
      const Tensor x = toy_input(first);
      ASSERT_EQ(api.copy(instance, memory[0], TCC_DEVICE_CUDA, x.bytes(), TCC_DEVICE_CPU, 24), TCC_OK);
    };
    const auto run = [&](void* stream) { return api.run(instance, &in, 1, out, 3, nullptr, 0, stream); };
    const int bad = check ? TCC_INDEX_OUT_OF_RANGE : TCC_OK;
    give(95);
    EXPECT_EQ(run(nullptr), TCC_OK) << api.last_error();
    EXPECT_EQ(api.synchronize(instance, nullptr), bad);
    if (check) { EXPECT_EQ(api.last_error(), message); }
    EXPECT_EQ(api.synchronize(instance, nullptr), TCC_OK);
    // Without a synchronize() the next run tells, and does nothing else.
    EXPECT_EQ(run(nullptr), TCC_OK);
    give(2);
    const int launches = counts().kernel_launches;
    EXPECT_EQ(run(nullptr), bad);
    EXPECT_EQ(counts().kernel_launches, launches + (check ? 0 : 2));
    EXPECT_EQ(run(nullptr), TCC_OK);
    for (void* block : memory) EXPECT_EQ(api.deallocate(instance, block), TCC_OK);
    api.destroy(instance);
  }
  EXPECT_EQ(counts().live_host_allocations, 0);
}

TEST_F(FakeCuda, LaunchesIntoACaptureAndKeepsItsGraphRight) {
  const auto model = library();
  const tcc_api& api = model->api();
  Instance other(model, {.device = Device::cuda, .cuda_graph = false});
  expect_toy_outputs(other.run({toy_input(1)}), 1);
  EXPECT_EQ(counts().graphs, 0);

  tcc_create_options options = {};
  options.struct_size = sizeof options;
  options.device = TCC_DEVICE_CUDA;
  tcc_instance* instance = nullptr;
  ASSERT_EQ(api.create(&options, &instance), TCC_OK) << api.last_error();
  void* memory[2][4] = {};
  const int64_t shape[] = {2, 3}, four[] = {4};
  for (auto& set : memory) {
    for (void*& block : set) ASSERT_EQ(api.allocate(instance, 24, &block), TCC_OK);
  }
  const auto run = [&](int set, void* stream) {
    const tcc_tensor in = {memory[set][0], shape, nullptr, 2, TCC_F32, TCC_DEVICE_CUDA, 0, {}};
    const tcc_tensor out[] = {{memory[set][1], shape, nullptr, 2, TCC_F32, TCC_DEVICE_CUDA, 0, {}},
                              {memory[set][2], shape, nullptr, 2, TCC_F32, TCC_DEVICE_CUDA, 0, {}},
                              {memory[set][3], four, nullptr, 1, TCC_I32, TCC_DEVICE_CUDA, 0, {}}};
    return api.run(instance, &in, 1, out, 3, nullptr, 0, stream);
  };
  const Tensor x = toy_input(4);
  ASSERT_EQ(api.copy(instance, memory[1][0], TCC_DEVICE_CUDA, x.bytes(), TCC_DEVICE_CPU, 24), TCC_OK);
  ASSERT_EQ(run(0, nullptr), TCC_OK) << api.last_error();
  const int before = counts().graph_launches;
  ASSERT_EQ(run(1, *static_cast<void**>(dlsym(driver(), "fake_capturing_stream"))), TCC_OK) << api.last_error();
  EXPECT_EQ(counts().graph_launches, before);
  // The addresses are those of the captured run, the graph's are older: it has to be patched all the same.
  ASSERT_EQ(run(1, nullptr), TCC_OK) << api.last_error();
  float y[6];
  ASSERT_EQ(api.copy(instance, y, TCC_DEVICE_CPU, memory[1][1], TCC_DEVICE_CUDA, 24), TCC_OK);
  EXPECT_EQ(y[5], 2 * 9 + 50);

  float host[6] = {};
  const tcc_tensor in = {host, shape, nullptr, 2, TCC_F32, TCC_DEVICE_CPU, 0, {}};
  const tcc_tensor out[] = {{memory[0][1], shape, nullptr, 2, TCC_F32, TCC_DEVICE_CUDA, 0, {}},
                            {memory[0][2], shape, nullptr, 2, TCC_F32, TCC_DEVICE_CUDA, 0, {}},
                            {memory[0][3], four, nullptr, 1, TCC_I32, TCC_DEVICE_CUDA, 3, {}}};
  EXPECT_EQ(api.run(instance, &in, 1, out, 2, nullptr, 0, nullptr), TCC_INVALID_ARGUMENT);
  EXPECT_EQ(api.run(instance, &in, 1, out, 3, nullptr, 0, nullptr), TCC_INVALID_ARGUMENT);
  EXPECT_NE(std::string(api.last_error()).find("output `block/u:0`: device is CUDA 3, expected CUDA 0"), std::string::npos)
      << api.last_error();
  for (auto& set : memory) {
    for (void* block : set) EXPECT_EQ(api.deallocate(instance, block), TCC_OK);
  }
  api.destroy(instance);
}

TEST_F(FakeCuda, TakesTheImageThatFitsTheChip) {
  const auto three_images = [](link::LinkInput& input) {
    const auto image = [](link::ImageKind kind, uint32_t arch, bool specific, const char* name) {
      return link::CudaImage{kind, arch, specific, std::string(name) + "\n"};
    };
    input.images = {image(link::ImageKind::ptx, 80, false, "ptx80"), image(link::ImageKind::ptx, 90, true, "ptx90a"),
                    image(link::ImageKind::cubin, 90, true, "cubin90a")};
    input.images[2].bytes.push_back('\0');
    input.program.targets[1].kernels[0].images = {0, 1, 2};
    input.program.targets[1].kernels[1].images = {1, 0};
  };
  const auto loaded = [&](int capability) {
    variable<int>("fake_capability") = capability;
    variable<char[256]>("fake_loaded_images")[0] = '\0';
    Instance instance(library(three_images), {.device = Device::automatic});
    return instance.on_cuda() ? std::string(variable<char[256]>("fake_loaded_images")) : "cpu: " + instance.device_reason();
  };
  const std::string hopper = loaded(90);
  EXPECT_TRUE(hopper == "ptx90a;cubin90a;" || hopper == "cubin90a;ptx90a;") << hopper;
  EXPECT_EQ(loaded(80), "ptx80;");
  EXPECT_EQ(loaded(120), "ptx80;");
  EXPECT_NE(loaded(75).find("cpu: Fake GPU has compute capability 7.5, for which the library has no code: kernel `scale`"),
            std::string::npos);
}

TEST_F(FakeCuda, NamesTheCallTheErrorAndTheKernel) {
  const auto model = library();
  const auto contains = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  const auto create = [&] { Instance instance(model, {.device = Device::cuda}); };
  fail_next("cuMemAlloc");
  std::string message = message_of(create);
  EXPECT_TRUE(contains(message, "cuMemAlloc of 256 bytes of weights: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory [out-of-memory]"))
      << message;
  fail_next("cuModuleGetFunction");
  message = message_of(create);
  EXPECT_TRUE(contains(message, "cuModuleGetFunction of kernel `scale`: CUDA_ERROR_INVALID_VALUE (1): invalid argument [driver-error]"))
      << message;
  const auto broken = library([](link::LinkInput& input) { input.images[0].bytes = "broken\n"; });
  message = message_of([&] { Instance instance(broken, {.device = Device::cuda}); });
  EXPECT_TRUE(contains(
      message, "cuModuleLoadDataEx of PTX for sm_80 with kernel `scale`, log: ptxas fatal: broken: CUDA_ERROR_NO_BINARY_FOR_GPU (209)"))
      << message;
  // `auto` takes the CPU for want of a device, not because something is broken.
  EXPECT_THROW(Instance(broken, {}), Error);
  EXPECT_TRUE(contains(message_of([&] { Instance instance(model, {.device = Device::cuda, .device_ordinal = 2}); }),
                       "there is no CUDA device 2, the driver has 1"));

  Instance instance(model, {.device = Device::cuda});
  fail_next("cuGraphAddKernelNode");
  message = message_of([&] { instance.run({toy_input(0)}); });
  EXPECT_TRUE(contains(message, "cuGraphAddKernelNode of kernel `scale` (`block/Scale`), grid 2: CUDA_ERROR_INVALID_VALUE")) << message;
  expect_toy_outputs(instance.run({toy_input(8)}), 8);  // the next run begins anew
  fail_next("cuGraphExecMemsetNodeSetParams");
  instance.prepare({toy_input(1)});
  message = message_of([&] { instance.run_prepared(); });
  EXPECT_TRUE(contains(message, "cuGraphExecMemsetNodeSetParams of kernel `fill` (`zeros`)")) << message;
  instance.run_prepared();
  expect_toy_outputs(instance.prepared_outputs(), 1);
}

TEST_F(FakeCuda, PreparesOnceForEachInstance) {
  const auto model = library([](link::LinkInput& input) { test::add_preparation(&input); });
  {
    Instance first(model, {.device = Device::cuda}), second(model, {.device = Device::cuda, .cuda_graph = false});
    EXPECT_EQ(counts().kernel_launches, 2);
    EXPECT_EQ(counts().live_bytes, 2 * 512);  // w itself is not needed any more
    EXPECT_EQ(first.info().weights_bytes, 0u);
    EXPECT_EQ(first.info().prepared_bytes, 512u);
    for (int i = 0; i < 3; i++) expect_toy_outputs(first.run({toy_input(static_cast<float>(i))}), static_cast<float>(i));
    EXPECT_EQ(counts().kernel_launches, 2 + 3 * 2);
    expect_toy_outputs(second.run({toy_input(7)}), 7);
    EXPECT_EQ(counts().kernel_launches, 2 + 4 * 2);
  }
  const auto create = [&] { Instance instance(model, {.device = Device::cuda}); };
  for (const char* call : {"cuMemAlloc", "cuMemcpyHtoD", "cuLaunchKernel", "cuStreamSynchronize"}) {
    fail_next(call);
    const std::string message = message_of(create);
    EXPECT_NE(message.find(std::string(call) + " of "), std::string::npos) << message;
    EXPECT_EQ(counts().live_allocations, 0) << call;
  }
}

// A driver does not survive everything that it is given as code.
TEST_F(FakeCuda, DamagedCodeIsNotGivenToTheDriver) {
  const std::string path = folder() / "damaged.so";
  link::link_shared_object(test::toy_model(folder(), true), path);
  std::string bytes(MappedFile::open(path)->text());
  bytes.resize(bytes.size() - sizeof(program::LibrarySeal));  // the library itself has to find it
  const size_t entry = bytes.find(".visible .entry add_weight");
  ASSERT_NE(entry, std::string::npos);
  bytes[entry + 40] ^= 8;
  write_file_atomically(path, std::string_view(bytes), 0777);
  const auto damaged = Library::open(path);
  EXPECT_EQ(message_of([&] { Instance instance(damaged, {.device = Device::cuda}); }),
            path +
                ": error: the code for sm_80 inside this library is damaged: its checksum is another; compile the model again "
                "[unusable-library]");
  Instance cpu(damaged, {.device = Device::cpu});
  expect_toy_outputs(cpu.run({toy_input(3)}), 3);
}

TEST_F(FakeCuda, UsesTheCallersContext) {
  void* context = nullptr;
  reinterpret_cast<int (*)(void**, int)>(dlsym(driver(), "cuDevicePrimaryCtxRetain"))(&context, 5);
  const auto model = library();
  const tcc_api& api = model->api();
  tcc_create_options options = {};
  options.struct_size = sizeof options;
  options.cuda_context = context;
  tcc_instance* instance = nullptr;
  ASSERT_EQ(api.create(&options, &instance), TCC_OK) << api.last_error();
  tcc_instance_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(api.instance_info(instance, &info), TCC_OK);
  EXPECT_EQ(info.device, TCC_DEVICE_CUDA);
  EXPECT_EQ(counts().primary_retained, 1);  // ours alone
  api.destroy(instance);
  reinterpret_cast<int (*)(int)>(dlsym(driver(), "cuDevicePrimaryCtxRelease"))(5);
}

}  // namespace
}  // namespace tcc
