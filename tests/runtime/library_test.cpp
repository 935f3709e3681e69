// A library from link to run, through the C++ wrapper, the C interface and the header of the model.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/toy_model.h"
#include "tcc/runtime/library.h"
#include "tcc/support/files.h"

namespace tcc {
namespace {

using runtime::Device;
using runtime::Instance;
using runtime::Library;
using test::message_of;
using test::run_command;
using test::TemporaryFolder;
using test::toy_model;

Tensor numbers() { return test::toy_input(0.5f); }
void expect_outputs(const std::vector<Tensor>& outputs) { test::expect_toy_outputs(outputs, 0.5f); }

class ToyLibrary : public testing::Test {
 protected:
  void SetUp() override { link::link_shared_object(toy_model(folder_), path_); }
  TemporaryFolder folder_;
  const std::string path_ = folder_ / "toy.so";
};

TEST_F(ToyLibrary, DescribesAndRuns) {
  const auto library = Library::open(path_);
  EXPECT_EQ(library->model_name(), "toy");
  ASSERT_EQ(library->inputs().size(), 1u);
  EXPECT_EQ(library->inputs()[0].name, "x");
  EXPECT_EQ(library->inputs()[0].shape, (Shape{2, 3}));
  ASSERT_EQ(library->outputs().size(), 3u);
  EXPECT_EQ(library->outputs()[2].name, "block/u:0");
  EXPECT_EQ(library->outputs()[2].dtype, DType::i32);
  EXPECT_TRUE(library->has_cpu());
  EXPECT_FALSE(library->has_cuda());

  for (const int num_threads : {1, 2, 3}) {
    Instance instance(library, {.device = Device::cpu, .num_threads = num_threads});
    for (int repeat = 0; repeat < 100; repeat++) expect_outputs(instance.run({numbers()}));
    EXPECT_EQ(instance.info().workspace_bytes, 512u);
    EXPECT_EQ(instance.info().num_launches, 5u);
  }
  std::string log;
  Instance automatic(library, {.log = [&](const std::string& message) { log = message; }});
  EXPECT_NE(log.find("toy runs on CPU, x86-64-v1"), std::string::npos) << log;
  EXPECT_NE(log.find("compiled without --target=cuda"), std::string::npos) << log;
  automatic.prepare({numbers()});
  EXPECT_GT(automatic.run_prepared().host_us, 0);
  EXPECT_GT(automatic.run_prepared_many(10).device_us, 0);
  expect_outputs(automatic.prepared_outputs());
  const auto profile = automatic.profile_prepared();
  ASSERT_EQ(profile.size(), 5u);
  EXPECT_EQ(profile[1].label, "block/Add");
  EXPECT_EQ(profile[1].kernel, "add_weight");
  EXPECT_EQ(profile[2].kernel, "copy");
}

TEST_F(ToyLibrary, ReportsIndicesThatAreOutOfRange) {
  link::LinkInput model = toy_model(folder_);
  test::add_check(&model);
  link::link_shared_object(model, path_);
  const auto library = Library::open(path_);
  Instance instance(library, {.device = Device::cpu});
  const auto run = [&](float first) { return [&instance, first] { instance.run({test::toy_input(first)}); }; };
  const std::string message = "input `x` has the index 100 at gather `block/Scale`, valid are -100 to 99";
  for (int repeat = 0; repeat < 3; repeat++) {
    test::expect_toy_outputs(instance.run({test::toy_input(94)}), 94);  // to 99
    EXPECT_NE(message_of(run(95), ExitCode::usage).find(message), std::string::npos) << message_of(run(95), ExitCode::usage);
  }
  // Once, and not in the next run.
  test::expect_toy_outputs(instance.run({numbers()}), 0.5f);
  Instance other(library, {.device = Device::cpu, .index_check = false});
  test::expect_toy_outputs(other.run({test::toy_input(97)}), 97);
}

TEST_F(ToyLibrary, WorkIsDoneWhenAnIndexIsReportedAndOldCallersHearNothing) {
  link::LinkInput model = toy_model(folder_);
  test::add_check(&model);
  link::link_shared_object(model, path_);
  const auto library = Library::open(path_);
  void* handle = dlopen(path_.c_str(), RTLD_NOW);
  const auto query = reinterpret_cast<tcc_query_function>(dlsym(handle, "tcc_model_query"));
  for (uint32_t version = 1; version <= TCC_ABI_VERSION; version++) {
    const tcc_api* api = query(version);
    ASSERT_NE(api, nullptr);
    EXPECT_EQ(api->abi_version, version);
    tcc_create_options options = {};
    options.struct_size = sizeof options;
    options.device = TCC_DEVICE_CPU;
    tcc_instance* instance = nullptr;
    ASSERT_EQ(api->create(&options, &instance), TCC_OK);
    const int64_t shape[] = {2, 3}, four[] = {4};
    const Tensor x = test::toy_input(98);
    std::vector<Tensor> outputs{Tensor(DType::f32, {2, 3}), Tensor(DType::f32, {2, 3}), Tensor(DType::i32, {4})};
    const tcc_tensor in = {const_cast<std::byte*>(x.bytes()), shape, nullptr, 2, TCC_F32, TCC_DEVICE_CPU, 0, {}};
    const tcc_tensor out[] = {{outputs[0].mutable_bytes(), shape, nullptr, 2, TCC_F32, TCC_DEVICE_CPU, 0, {}},
                              {outputs[1].mutable_bytes(), shape, nullptr, 2, TCC_F32, TCC_DEVICE_CPU, 0, {}},
                              {outputs[2].mutable_bytes(), four, nullptr, 1, TCC_I32, TCC_DEVICE_CPU, 0, {}}};
    EXPECT_EQ(api->run(instance, &in, 1, out, 3, nullptr, 0, nullptr), version < 3 ? TCC_OK : TCC_INDEX_OUT_OF_RANGE);
    test::expect_toy_outputs(outputs, 98);
    EXPECT_EQ(api->synchronize(instance, nullptr), TCC_OK);
    api->destroy(instance);
  }
  dlclose(handle);
}

TEST_F(ToyLibrary, RefusesTensorsThatDoNotFit) {
  Instance instance(Library::open(path_), {.device = Device::cpu});
  const auto message = [&](const std::vector<Tensor>& inputs) { return message_of([&] { instance.run(inputs); }, ExitCode::usage); };
  EXPECT_NE(message({}).find("0 inputs given, the model has 1: input `x` is missing"), std::string::npos) << message({});
  EXPECT_NE(message({numbers(), numbers()}).find("2 inputs given, the model has 1"), std::string::npos);
  EXPECT_NE(message({Tensor(DType::f64, {2, 3})}).find("input `x`: dtype is f64, expected f32"), std::string::npos);
  EXPECT_NE(message({Tensor(DType::f32, {6})}).find("input `x`: rank is 1 (shape [6]), expected 2 (shape [2, 3])"), std::string::npos);
  EXPECT_NE(message({Tensor(DType::f32, {2, 4})}).find("input `x`: axis 1 is 4, expected 3: shape is [2, 4], expected [2, 3]"),
            std::string::npos);
  // A run that was refused does not harm the next.
  expect_outputs(instance.run({numbers()}));
  EXPECT_NE(message_of([&] { Instance cuda(Library::open(path_), {.device = Device::cuda}); }, ExitCode::environment)
                .find("compiled without --target=cuda"),
            std::string::npos);
}

TEST_F(ToyLibrary, ChecksStridesDevicesAndWorkspace) {
  const auto library = Library::open(path_);
  const tcc_api& api = library->api();
  tcc_create_options options = {};
  options.struct_size = sizeof options;
  options.device = TCC_DEVICE_CPU;
  tcc_instance* instance = nullptr;
  ASSERT_EQ(api.create(&options, &instance), TCC_OK) << api.last_error();
  float x[8] = {}, y[6], z[6];
  int32_t u[4];
  const int64_t shape[] = {2, 3}, four[] = {4};
  tcc_tensor in = {x, shape, nullptr, 2, TCC_F32, TCC_DEVICE_CPU, 0, {}};
  tcc_tensor out[] = {
      {y, shape, nullptr, 2, TCC_F32, 0, 0, {}}, {z, shape, nullptr, 2, TCC_F32, 0, 0, {}}, {u, four, nullptr, 1, TCC_I32, 0, 0, {}}};
  alignas(256) static char workspace[512];
  const auto run = [&](void* memory = nullptr, uint64_t bytes = 0) { return api.run(instance, &in, 1, out, 3, memory, bytes, nullptr); };
  const auto refused = [&](const char* expected) { return std::string(api.last_error()).find(expected) != std::string::npos; };

  EXPECT_EQ(run(workspace, sizeof workspace), TCC_OK);
  EXPECT_EQ(run(workspace, 100), TCC_INVALID_ARGUMENT);
  EXPECT_TRUE(refused("workspace has 100 bytes, expected 512")) << api.last_error();
  EXPECT_EQ(run(workspace + 8, 504 + 8), TCC_INVALID_ARGUMENT);
  EXPECT_TRUE(refused("a multiple of 256")) << api.last_error();
  const int64_t dense[] = {3, 1}, transposed[] = {1, 2};
  in.strides = dense;
  EXPECT_EQ(run(), TCC_OK);
  in.strides = transposed;
  EXPECT_EQ(run(), TCC_INVALID_ARGUMENT);
  EXPECT_TRUE(refused("input `x`: stride of axis 1 is 2, expected 1")) << api.last_error();
  in.strides = nullptr;
  in.device = TCC_DEVICE_CUDA;
  EXPECT_EQ(run(), TCC_INVALID_ARGUMENT);
  EXPECT_TRUE(refused("this instance runs on the CPU")) << api.last_error();
  in.device = TCC_DEVICE_CPU;
  out[0].data = x + 2;
  EXPECT_EQ(run(), TCC_INVALID_ARGUMENT);
  EXPECT_TRUE(refused("output `y` overlaps input `x`")) << api.last_error();
  out[0].data = reinterpret_cast<char*>(y) + 1;
  EXPECT_EQ(run(), TCC_INVALID_ARGUMENT);
  EXPECT_TRUE(refused("a multiple of 4")) << api.last_error();
  out[0].data = nullptr;
  EXPECT_EQ(run(), TCC_INVALID_ARGUMENT);
  EXPECT_TRUE(refused("output `y`: data is NULL")) << api.last_error();
  api.destroy(instance);

  // A caller from the future, and an allocator.
  struct {
    tcc_create_options known;
    uint64_t later;
  } future = {options, 0};
  future.known.struct_size = sizeof future;
  EXPECT_EQ(api.create(&future.known, &instance), TCC_OK);
  api.destroy(instance);
  future.later = 1;
  EXPECT_EQ(api.create(&future.known, &instance), TCC_INVALID_ARGUMENT);
  EXPECT_EQ(instance, nullptr);
  int balance = 0;
  options.allocate = [](void* user, size_t size, size_t alignment) {
    ++*static_cast<int*>(user);
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  };
  options.deallocate = [](void* user, void* block, size_t) {
    --*static_cast<int*>(user);
    free(block);
  };
  options.allocator_user = &balance;
  ASSERT_EQ(api.create(&options, &instance), TCC_OK);
  EXPECT_GT(balance, 0);
  out[0].data = y;
  EXPECT_EQ(run(), TCC_OK);
  const int after_first = balance;
  EXPECT_EQ(run(), TCC_OK);
  EXPECT_EQ(balance, after_first);
  api.destroy(instance);
  EXPECT_EQ(balance, 0);
}

TEST_F(ToyLibrary, OpenTellsWhatIsWrong) {
  EXPECT_NE(message_of([&] { Library::open(folder_ / "missing.so"); }, ExitCode::environment).find("No such file"), std::string::npos);
  EXPECT_NE(message_of([&] { Library::open(folder_.path()); }, ExitCode::environment).find("is a directory"), std::string::npos);
  write_file_atomically(folder_ / "text.so", std::string_view("not a library"));
  EXPECT_NE(message_of([&] { Library::open(folder_ / "text.so"); }, ExitCode::environment).find("is not a shared library"),
            std::string::npos);
  write_file_atomically(folder_ / "net.onnx", std::string_view("\x08\x07model"));
  EXPECT_EQ(message_of([&] { Library::open(folder_ / "net.onnx"); }, ExitCode::environment),
            (folder_ / "net.onnx") + ": error: is a model, expected a library [unusable-library]\n" + (folder_ / "net.onnx") +
                ": help: compile it first: `tcc " + (folder_ / "net.onnx") + " -o model.so`");
  write_file_atomically(folder_ / "empty.so", std::string_view(""));
  EXPECT_NE(message_of([&] { Library::open(folder_ / "empty.so"); }, ExitCode::environment).find("is empty"), std::string::npos);
  EXPECT_NE(message_of([&] { Library::open("/dev/null"); }, ExitCode::environment).find("is not a regular file"), std::string::npos);
  write_file_atomically(folder_ / "object.o", std::string_view(test::compile_c(folder_, "int x;")));
  EXPECT_NE(message_of([&] { Library::open(folder_ / "object.o"); }, ExitCode::environment).find("no shared library for x86-64"),
            std::string::npos);
  EXPECT_NE(message_of([&] { Library::open("/lib/x86_64-linux-gnu/libm.so.6"); }, ExitCode::environment).find("none made by tcc"),
            std::string::npos);
}

TEST_F(ToyLibrary, NeedsOnlyLibc) {
  const auto result = run_command("readelf -dW '" + path_ + "' | grep NEEDED");
  EXPECT_NE(result.output.find("[libc.so.6]"), std::string::npos) << result.output;
  EXPECT_EQ(result.output.find('\n'), result.output.rfind('\n')) << result.output;
  const auto exports = run_command("readelf --dyn-syms -W '" + path_ + "' | grep -v ' UND ' | grep -c GLOBAL");
  EXPECT_EQ(exports.output, "1\n");
  EXPECT_EQ(run_command("readelf -lW '" + path_ + "' | grep -c 'RWE'").output, "0\n");
  EXPECT_EQ(run_command("readelf -dW '" + path_ + "' | grep -c SONAME").output, "0\n");
  link::LinkInput input = toy_model(folder_);
  input.soname = "libtoy.so.1";
  link::link_shared_object(input, folder_ / "named.so");
  EXPECT_NE(run_command("readelf -dW '" + (folder_ / "named.so") + "' | grep SONAME").output.find("[libtoy.so.1]"), std::string::npos);
}

TEST(CpuLevels, TheHighestThatTheCpuHas) {
  TemporaryFolder folder;
  link::LinkInput input = toy_model(folder);
  // The kernels of level 3 are told apart by what they compute.
  input.cpu_objects.push_back({"v3.o", test::compile_c(folder, R"(
    #include <stdint.h>
    void tcc_v3_scale(void* const* b, int64_t begin, int64_t end) { (void)b; (void)begin; (void)end; }
    void tcc_v3_add__weight(void* const* b, int64_t begin, int64_t end) { for (int64_t i = 3 * begin; i < 3 * end; i++) ((float*)b[2])[i] = 33; })")});
  input.program.targets[0].levels = {link::CpuLevel::v1, link::CpuLevel::v3};
  link::link_shared_object(input, folder / "toy.so");
  Instance instance(Library::open(folder / "toy.so"), {.device = Device::cpu});
  const std::vector<Tensor> outputs = instance.run({numbers()});
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) {
    EXPECT_EQ(outputs[0].data<float>()[5], 33);
    EXPECT_NE(instance.device_name().find("x86-64-v3"), std::string::npos);
  } else {
    expect_outputs(outputs);
  }
}

TEST(Threads, TakePartWhenALaunchTurnsOutToBeLong) {
  TemporaryFolder folder;
  link::LinkInput input;
  input.program.model_name = "long";
  input.program.functions = {{.name = "infer", .inputs = {}, .outputs = {{"threads", DType::u64, {64}}}}};
  link::TargetDesc target;
  target.levels = {link::CpuLevel::v1};
  link::FunctionCode code;
  code.buffers = {{link::BufferKind::output, 0, 0, 64 * 8, "threads"}};
  target.kernels = {{.name = "spin", .num_buffers = 1, .images = {}}};
  code.launches = {{.grid = 64, .arguments = {0}, .label = "spin", .cost_ns = 0}};  // the plan knows nothing of its cost
  target.functions = {code};
  input.program.targets = {target};
  input.cpu_objects = {{"spin.o", test::compile_c(folder, R"(
    #include <stdint.h>
    void tcc_v1_spin(void* const* b, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        for (volatile int j = 0; j < 50000; j++) {}
        ((uint64_t*)b[0])[i] = (uint64_t)__builtin_thread_pointer();
      }
    })")}};
  link::link_shared_object(input, folder / "long.so");
  Instance instance(Library::open(folder / "long.so"), {.device = Device::cpu, .num_threads = 2});
  bool shared = false;
  for (int run = 0; run < 200 && !shared; run++) {
    const std::vector<Tensor> outputs = instance.run({});
    const uint64_t* threads = outputs[0].data<uint64_t>();
    for (int i = 1; i < 64; i++) shared |= threads[i] != threads[0];
    EXPECT_TRUE(!shared || run >= 4) << run;
  }
  EXPECT_TRUE(shared);
}

TEST(Header, IsPlainCAndRunsTheModel) {
  TemporaryFolder folder;
  link::LinkInput input = toy_model(folder);
  input.symbol_prefix = "toy";
  link::link_shared_object(input, folder / "toy.so");
  write_file_atomically(folder / "toy.h", std::string_view(link::write_header(input.program, "toy")));
  // A second model in the same program: no name may clash.
  input.symbol_prefix = "other";
  input.program.functions[0].inputs[0].name = "double";
  input.program.model_name = "/* a */ name // that means something /* to C";
  link::link_shared_object(input, folder / "other.so");
  write_file_atomically(folder / "other.h", std::string_view(link::write_header(input.program, "other")));
  write_file_atomically(folder / "main.c", std::string_view(R"(
#include "toy.h"
#include "other.h"
#include <stdio.h>
#include <string.h>
#ifdef __cplusplus
#include <memory>
#endif
int main(void) {
  float x[TOY_INPUT_X_ELEMENTS] = {1, 2, 3, 4, 5, 6}, y[TOY_OUTPUT_Y_ELEMENTS], z[TOY_OUTPUT_Z_ELEMENTS];
  int32_t u[TOY_OUTPUT_BLOCK_U_0_ELEMENTS];
  tcc_instance *model, *second;
  if (strcmp(TOY_OUTPUT_BLOCK_U_0_NAME, "block/u:0") || TOY_INPUT_X_DTYPE != TCC_F32 || TOY_INPUT_X_DIM1 != 3) return 9;
  if (toy_create(TCC_DEVICE_CPU, &model)) { puts(toy_error()); return 1; }
  tcc_create_options options = other_options();
  options.num_threads = 1;
  if (other_create_with(&options, &second)) { puts(other_error()); return 2; }
  tcc_instance_info info;
  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;
  static char workspace[OTHER_WORKSPACE_BYTES + OTHER_WORKSPACE_ALIGNMENT];
  if (other_api()->instance_info(second, &info) || info.num_threads != 1) return 6;
  if (info.workspace_bytes != OTHER_WORKSPACE_BYTES || info.workspace_alignment != OTHER_WORKSPACE_ALIGNMENT) return 7;
  void* aligned = workspace + OTHER_WORKSPACE_ALIGNMENT - (size_t)workspace % OTHER_WORKSPACE_ALIGNMENT;
  if (other_run_on(second, TCC_DEVICE_CPU, 0, x, y, z, u, aligned, OTHER_WORKSPACE_BYTES, NULL)) { puts(other_error()); return 8; }
  if (toy_run(model, x, y, z, u)) { puts(toy_error()); return 3; }
  printf("%g %g %g %d\n", y[0], y[5], z[5], (int)u[3]);
  if (!toy_run(model, NULL, y, z, u)) return 4;
  puts(toy_error());
  if (other_run(second, y, x, z, u)) { puts(other_error()); return 5; }
  printf("%g\n", x[1]);
  toy_destroy(model);
#ifdef __cplusplus
  std::unique_ptr<tcc_instance, void (*)(tcc_instance*)> owner(second, other_destroy);
#else
  other_destroy(second);
#endif
  return 0;
}
)"));
  const std::string program = folder / "main";
  for (const char* compiler : {"cc -std=c11 -Wall -Wextra -Werror -pedantic", "c++ -x c++ -Wall -Wextra -Werror"}) {
    const auto compiled = run_command("cd '" + folder.path() + "' && " + compiler + " main.c -x none toy.so other.so -Wl,-rpath,'" +
                                      folder.path() + "' -o main");
    ASSERT_EQ(compiled.exit_code, 0) << compiled.output;
    const auto ran = run_command("'" + program + "'");
    EXPECT_EQ(ran.exit_code, 0);
    EXPECT_EQ(ran.output, "2 62 6 7\ninput `x`: data is NULL, expected 24 bytes\n38\n");
  }
}

TEST(Weights, InAFileOfTheirOwn) {
  TemporaryFolder folder;
  link::LinkInput input = toy_model(folder);
  input.embed_weights = false;
  link::link_shared_object(input, folder / "toy.so");
  link::write_weights_file(input, folder / "toy.weights");
  const auto library = Library::open(folder / "toy.so");
  Instance instance(library, {.device = Device::cpu, .weights_path = folder / "toy.weights"});
  expect_outputs(instance.run({numbers()}));
  const auto message = [&](const std::string& path) {
    return message_of([&] { Instance bad(library, {.device = Device::cpu, .weights_path = path}); },
                      path.empty() ? ExitCode::usage : ExitCode::environment);
  };
  EXPECT_NE(message("").find("weights_path is NULL"), std::string::npos);
  EXPECT_NE(message(folder / "missing").find("No such file"), std::string::npos);
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_NE(message(folder / "pipe").find("has 0 bytes, expected"), std::string::npos);  // and nobody is waited for
  input.weights[0].mutable_data<float>()[0] = 99;
  input.weights[1] = Tensor(DType::f32, {6});
  link::write_weights_file(input, folder / "other.weights");
  EXPECT_NE(message(folder / "other.weights").find("not the one that was written with this library"), std::string::npos)
      << message(folder / "other.weights");

  // The same bytes in the caller's memory.
  const auto file = MappedFile::open(folder / "toy.weights");
  const tcc_api& api = library->api();
  tcc_create_options options = {};
  options.struct_size = sizeof options;
  options.device = TCC_DEVICE_CPU;
  options.weights_data = file->bytes().data();
  options.weights_data_bytes = file->bytes().size();
  options.check_weights = 1;
  tcc_instance* other = nullptr;
  ASSERT_EQ(api.create(&options, &other), TCC_OK) << api.last_error();
  float x[6] = {1, 2, 3, 4, 5, 6}, y[6], z[6];
  int32_t u[4];
  const int64_t shape[] = {2, 3}, four[] = {4};
  const tcc_tensor in = {x, shape, nullptr, 2, TCC_F32, 0, 0, {}};
  const tcc_tensor out[] = {
      {y, shape, nullptr, 2, TCC_F32, 0, 0, {}}, {z, shape, nullptr, 2, TCC_F32, 0, 0, {}}, {u, four, nullptr, 1, TCC_I32, 0, 0, {}}};
  EXPECT_EQ(api.run(other, &in, 1, out, 3, nullptr, 0, nullptr), TCC_OK) << api.last_error();
  EXPECT_EQ(y[5], 62);
  api.destroy(other);
  const auto refused = [&](int status, const std::string& expected) {
    EXPECT_EQ(api.create(&options, &other), status);
    EXPECT_EQ(api.last_error(), expected);
  };
  const std::string path = folder / "toy.weights";
  options.weights_path = path.c_str();
  refused(TCC_INVALID_ARGUMENT, "weights_path and weights_data are both set, expected one of them");
  options.weights_path = nullptr;
  options.weights_data_bytes -= 1;
  refused(TCC_FILE_ERROR, "weights_data has " + std::to_string(options.weights_data_bytes) + " bytes, expected " +
                              std::to_string(options.weights_data_bytes + 1) + ": it is not the one that was written with this library");
  options.weights_data = file->bytes().data() + 1;
  EXPECT_EQ(api.create(&options, &other), TCC_INVALID_ARGUMENT);
  EXPECT_NE(std::string(api.last_error()).find("expected a multiple of 64"), std::string::npos);
}

}  // namespace
}  // namespace tcc
