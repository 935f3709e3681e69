// A training library on the CPU: steps in place, the parts of a step, accumulation, scalars, state by name and flat, older callers.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stddef.h>
#include <string.h>

#include "runtime/toy_trainer.h"
#include "tcc/runtime/library.h"
#include "tcc/support/files.h"

namespace tcc {
namespace {

using runtime::Device;
using runtime::Instance;
using runtime::Library;
using test::floats;
using test::message_of;
using test::TrainerReference;
using test::values_of;

const std::vector<float> kX = {1, 0.5f, -1, 2}, kTarget = {0, 1, 2, 3};

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

class Training : public testing::Test {
 protected:
  std::shared_ptr<const Library> library(int accumulate = 1) {
    link::link_shared_object(test::toy_trainer(folder_, accumulate), folder_ / "trainer.so");
    return Library::open(folder_ / "trainer.so");
  }
  test::TemporaryFolder folder_;
};

void expect_state(const Instance& instance, const TrainerReference& reference) {
  EXPECT_EQ(values_of(instance.read_state("w")), reference.w);
  EXPECT_EQ(values_of(instance.read_state("optimizer.momentum.w")), reference.m);
  EXPECT_EQ(values_of(instance.read_state("b")), std::vector<float>(70, reference.b));
  EXPECT_EQ(values_of(instance.read_state("optimizer.step")), std::vector<float>{reference.steps});
}

TEST_F(Training, DescribesWhatItKeeps) {
  const auto trainer = library();
  EXPECT_TRUE(trainer->trains());
  EXPECT_EQ(trainer->accumulate(), 1);
  std::vector<std::string> names;
  for (const runtime::FunctionInfo& function : trainer->functions()) names.push_back(function.name);
  EXPECT_EQ(names, (std::vector<std::string>{"infer", "step", "forward", "backward", "update"}));
  EXPECT_EQ(trainer->functions()[3].inputs[2].name, "saved");
  const runtime::StateInfo* b = trainer->find_state("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->offset, 256);
  EXPECT_FALSE(b->trained);
  EXPECT_EQ(trainer->sections()[static_cast<size_t>(b->section)].name, "parameters.f32");
  EXPECT_EQ(trainer->sections()[static_cast<size_t>(b->section)].size_bytes, 256 + 512);
  EXPECT_EQ(trainer->find_state("flat"), nullptr);  // a view is for the compiler
  ASSERT_EQ(trainer->scalars().size(), 2u);
  EXPECT_EQ(trainer->scalars()[0].value, 0.125);

  Instance instance(trainer, {.device = Device::cpu});
  const tcc_function_info step = instance.function_info(trainer->function("step"));
  EXPECT_EQ(step.workspace_bytes, 768u);
  EXPECT_EQ(step.uses_gradients, 0u);
  // No weight is used: parameters are state. Two sections of 768 bytes, six of 256, and the scalars.
  EXPECT_EQ(step.planned_peak_bytes, 2 * 768 + 5 * 256 + 256 + 768u);
  const tcc_function_info backward = instance.function_info(trainer->function("backward"));
  EXPECT_EQ(backward.uses_gradients, 1u);
  EXPECT_EQ(backward.planned_peak_bytes, 2 * 768 + 5 * 256 + 256 + 768u);
  EXPECT_EQ(values_of(instance.read_state("running")), (std::vector<float>{1, 1}));
  EXPECT_EQ(instance.read_state("h").as_double(2), 2.5);
  EXPECT_EQ(trainer->find_state("calls")->role, StateRole::buffer);
  Tensor calls = instance.read_state("calls");
  EXPECT_EQ(calls.as_int64(0), 7);
  calls.set_int64(0, int64_t{1} << 40);
  instance.write_state("calls", calls);
  EXPECT_EQ(instance.read_state("calls").as_int64(0), int64_t{1} << 40);
  instance.reset_state();
  EXPECT_EQ(instance.read_state("calls").as_int64(0), 7);
}

TEST_F(Training, StepsInPlaceAndInfersWithWhatItLearned) {
  Instance instance(library(), {.device = Device::cpu});
  TrainerReference reference;
  for (int i = 0; i < 5; i++) {
    if (i == 3) instance.set_scalar("lr", reference.lr = 0.0625f);
    const std::vector<Tensor> loss = instance.step({floats(kX), floats(kTarget)});
    EXPECT_EQ(values_of(loss[0]), std::vector<float>{reference.accumulate(kX, kTarget)});
    reference.update();
    expect_state(instance, reference);
  }
  const std::vector<float> y = values_of(instance.run({floats({1, 1, 1, 1})})[0]);
  EXPECT_EQ(y, reference.w);
  // Another instance has a state of its own.
  Instance other(instance.library().shared_from_this(), {.device = Device::cpu});
  EXPECT_EQ(values_of(other.read_state("w")), TrainerReference().w);
  instance.reset_state();
  reference = TrainerReference();
  expect_state(instance, reference);
  EXPECT_EQ(instance.get_scalar("lr"), 0.0625);
}

TEST_F(Training, InPartsWithASavedTensor) {
  Instance instance(library(), {.device = Device::cpu});
  TrainerReference reference;
  for (int i = 0; i < 3; i++) {
    const std::vector<Tensor> forward = instance.run("forward", {floats(kX), floats(kTarget)});
    EXPECT_EQ(values_of(forward[0]), std::vector<float>{reference.accumulate(kX, kTarget)});
    EXPECT_TRUE(instance.run("backward", {floats(kX), floats(kTarget), forward[1]}).empty());
    EXPECT_EQ(values_of(instance.read_state("grad.w")), reference.gradient);
    EXPECT_TRUE(instance.run("update", {}).empty());
    reference.update();
    expect_state(instance, reference);
  }
  EXPECT_TRUE(
      contains(message_of([&] { instance.run("backward", {floats(kX), floats(kTarget), Tensor(DType::u8, {500})}); }, ExitCode::usage),
               "backward: input `saved`: axis 0 is 500, expected 512"));
  EXPECT_TRUE(contains(message_of([&] { instance.run("sideways", {}); }, ExitCode::usage),
                       "there is no function `sideways`, the library has `infer`, `step`"));
}

TEST_F(Training, AccumulatesMicroBatches) {
  Instance instance(library(2), {.device = Device::cpu});
  EXPECT_EQ(instance.library().accumulate(), 2);
  TrainerReference reference;
  const std::vector<float> other = {2, 1, 0, -1};
  for (int i = 0; i < 3; i++) {
    EXPECT_EQ(values_of(instance.step({floats(kX), floats(kTarget)})[0]), std::vector<float>{reference.accumulate(kX, kTarget, 0.5f)});
    expect_state(instance, i == 0 ? TrainerReference() : reference);  // nothing is updated yet
    EXPECT_EQ(values_of(instance.step({floats(other), floats(kTarget)})[0]),
              std::vector<float>{reference.accumulate(other, kTarget, 0.5f)});
    reference.update();
    expect_state(instance, reference);
    // Gradients that backward left, or a caller wrote, do not reach the next micro-batch.
    if (i == 0) instance.run("backward", {floats(kX), floats(kTarget), instance.run("forward", {floats(kX), floats(kTarget)})[1]});
    if (i == 1) instance.write_state("grad.w", floats({9, 9, 9, 9}));
  }
}

TEST_F(Training, FlatBuffersAreOneTensor) {
  Instance instance(library(), {.device = Device::cpu});
  const Library& trainer = instance.library();
  const auto section = [&](const char* name) {
    uint32_t index = 99;
    EXPECT_EQ(trainer.api().find_section(name, &index), TCC_OK);
    return static_cast<float*>(instance.section_data(static_cast<int>(index)));
  };
  // What an all-reduce over two processes does.
  float* gradients = section("gradients.f32");
  EXPECT_EQ(std::vector<float>(gradients, gradients + 192), std::vector<float>(192, 0));
  const std::vector<Tensor> forward = instance.run("forward", {floats(kX), floats(kTarget)});
  instance.run("backward", {floats(kX), floats(kTarget), forward[1]});
  EXPECT_EQ(gradients, section("gradients.f32"));
  for (int i = 0; i < 192; i++) gradients[i] /= 2;
  instance.run("update", {});
  TrainerReference reference;
  reference.accumulate(kX, kTarget, 0.5f);
  reference.update();
  expect_state(instance, reference);
  float* parameters = section("parameters.f32");
  EXPECT_EQ(memcmp(parameters, reference.w.data(), 16), 0);
  for (int i = 4; i < 64; i++) EXPECT_EQ(parameters[i], 0);  // the gap
  EXPECT_EQ(parameters[64 + 69], reference.b);
  uint32_t index;
  EXPECT_EQ(trainer.api().find_section("gradients.f16", &index), TCC_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(trainer.api().last_error(), "there is no section `gradients.f16`"));
}

TEST_F(Training, MastersBeginAsTheirParameters) {
  const std::vector<float> first = {0.5f, 1.5f, 2.5f};
  Instance instance(library(), {.device = Device::cpu});
  EXPECT_EQ(values_of(instance.read_state("optimizer.master.h")), first);
  instance.write_state("optimizer.master.h", floats({7, 8, 9}, {3}));
  instance.reset_state();
  EXPECT_EQ(values_of(instance.read_state("optimizer.master.h")), first);
}

TEST_F(Training, WritesMastersAlong) {
  Instance instance(library(), {.device = Device::cpu});
  Tensor h(DType::bf16, {3});
  for (int i = 0; i < 3; i++) h.set_double(i, -3 * i);
  instance.write_state("h", h);
  EXPECT_EQ(values_of(instance.read_state("optimizer.master.h")), (std::vector<float>{0, -3, -6}));
  EXPECT_TRUE(contains(message_of([&] { instance.write_state("h", floats({1, 2, 3}, {3})); }, ExitCode::usage),
                       "state tensor `h` is f32[3], expected bf16[3]"));
  EXPECT_TRUE(contains(message_of([&] { instance.write_state("x", h); }, ExitCode::usage), "there is no state tensor `x`"));
  EXPECT_EQ(instance.library().api().read_state(instance.handle(), "h", &h, 5), TCC_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(instance.library().api().last_error(), "state tensor `h`: 5 bytes are given, expected 6"));
}

TEST_F(Training, ChecksScalarsStateAndWorkspace) {
  Instance instance(library(2), {.device = Device::cpu});
  const tcc_api& api = instance.library().api();
  const auto said = [&](const char* part) { return contains(api.last_error(), part); };
  EXPECT_EQ(api.set_scalar(instance.handle(), "momentum", 1), TCC_INVALID_ARGUMENT);
  EXPECT_TRUE(said("there is no scalar `momentum`, the library has `lr`, `seed`")) << api.last_error();
  EXPECT_EQ(api.set_scalar(instance.handle(), "seed", 0.5), TCC_INVALID_ARGUMENT);
  EXPECT_TRUE(said("scalar `seed` is an integer")) << api.last_error();
  EXPECT_EQ(api.set_scalar(instance.handle(), "seed", 1e17), TCC_INVALID_ARGUMENT);
  EXPECT_EQ(api.set_scalar(instance.handle(), "seed", -3), TCC_OK);
  EXPECT_EQ(instance.get_scalar("seed"), -3);

  const int64_t shape[] = {4};
  float loss, x[4] = {}, target[4] = {};
  tcc_tensor in[] = {{x, shape, nullptr, 1, TCC_F32, 0, 0, {}}, {target, shape, nullptr, 1, TCC_F32, 0, 0, {}}};
  const tcc_tensor out = {&loss, nullptr, nullptr, 0, TCC_F32, 0, 0, {}};
  // Room for `accumulate`, which would run now, is not room for a step.
  alignas(256) static char workspace[1024];
  EXPECT_EQ(api.step(instance.handle(), in, 2, &out, 1, workspace, 256, nullptr, nullptr), TCC_INVALID_ARGUMENT);
  EXPECT_TRUE(said("accumulate: workspace has 256 bytes, expected 1024")) << api.last_error();
  EXPECT_EQ(api.step(instance.handle(), in, 2, &out, 1, workspace, sizeof workspace, nullptr, nullptr), TCC_OK);
  in[0].data = instance.section_data(0);
  EXPECT_EQ(api.step(instance.handle(), in, 2, &out, 1, nullptr, 0, nullptr, nullptr), TCC_INVALID_ARGUMENT);
  EXPECT_TRUE(said("step: input `x` lies in the instance's state")) << api.last_error();
  EXPECT_EQ(api.call(instance.handle(), 6, in, 2, &out, 1, nullptr, 0, nullptr, nullptr), TCC_INVALID_ARGUMENT);
  EXPECT_TRUE(said("function 6 is asked for, the library has 6")) << api.last_error();

  // A library without any of it says so.
  link::link_shared_object(test::toy_model(folder_), folder_ / "toy.so");
  Instance toy(Library::open(folder_ / "toy.so"), {.device = Device::cpu});
  EXPECT_FALSE(toy.library().trains());
  EXPECT_TRUE(contains(message_of([&] { toy.save_state(folder_ / "s"); }, ExitCode::usage), "compiled without --mode=train"));
  EXPECT_EQ(toy.library().api().step(toy.handle(), in, 2, &out, 1, nullptr, 0, nullptr, nullptr), TCC_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(toy.library().api().last_error(), "no function `step`")) << toy.library().api().last_error();
}

TEST_F(Training, AllocatesNothingAfterTheFirstCallOfEachFunction) {
  const auto trainer = library(2);
  static int balance, calls;
  balance = calls = 0;
  tcc_create_options options = {};
  options.struct_size = sizeof options;
  options.device = TCC_DEVICE_CPU;
  options.allocate = [](void*, size_t size, size_t alignment) {
    balance++, calls++;
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  };
  options.deallocate = [](void*, void* block, size_t) {
    balance--;
    free(block);
  };
  const tcc_api& api = trainer->api();
  tcc_instance* instance = nullptr;
  ASSERT_EQ(api.create(&options, &instance), TCC_OK) << api.last_error();
  const int64_t shape[] = {4};
  float loss, x[4] = {}, target[4] = {};
  const tcc_tensor in[] = {{x, shape, nullptr, 1, TCC_F32, 0, 0, {}}, {target, shape, nullptr, 1, TCC_F32, 0, 0, {}}};
  const tcc_tensor out = {&loss, nullptr, nullptr, 0, TCC_F32, 0, 0, {}};
  const int before = calls;
  for (int i = 0; i < 2; i++) ASSERT_EQ(api.step(instance, in, 2, &out, 1, nullptr, 0, nullptr, nullptr), TCC_OK) << api.last_error();
  EXPECT_EQ(calls, before + 3);  // gradients, a workspace, and a larger one in its place
  for (int i = 0; i < 6; i++) ASSERT_EQ(api.step(instance, in, 2, &out, 1, nullptr, 0, nullptr, nullptr), TCC_OK);
  EXPECT_EQ(calls, before + 3);
  api.destroy(instance);
  EXPECT_EQ(balance, 0);
}

TEST_F(Training, CallersOfTheFirstVersionRunTheFirstFunction) {
  const auto trainer = library();
  void* handle = dlopen(trainer->path().c_str(), RTLD_NOW);
  const auto query = reinterpret_cast<tcc_query_function>(dlsym(handle, "tcc_model_query"));
  const tcc_api* api = query(1);
  ASSERT_NE(api, nullptr);
  EXPECT_EQ(api->abi_version, 1u);
  EXPECT_EQ(api->struct_size, offsetof(tcc_api, find_function));
  EXPECT_EQ(query(TCC_ABI_VERSION)->struct_size, sizeof(tcc_api));
  EXPECT_EQ(query(TCC_ABI_VERSION + 1), nullptr);
  // A struct as it was: the last words were reserved.
  tcc_model_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(api->model_info(&info), TCC_OK);
  EXPECT_EQ(info.num_inputs, 1u);
  tcc_instance* instance = nullptr;
  tcc_create_options options = {};
  options.struct_size = sizeof options;
  options.device = TCC_DEVICE_CPU;
  ASSERT_EQ(api->create(&options, &instance), TCC_OK) << api->last_error();
  const int64_t shape[] = {4};
  float x[4] = {1, 1, 1, 1}, y[4];
  const tcc_tensor in = {x, shape, nullptr, 1, TCC_F32, 0, 0, {}}, out = {y, shape, nullptr, 1, TCC_F32, 0, 0, {}};
  ASSERT_EQ(api->run(instance, &in, 1, &out, 1, nullptr, 0, nullptr), TCC_OK) << api->last_error();
  EXPECT_EQ(y[3], 4);
  api->destroy(instance);
  dlclose(handle);
}

TEST_F(Training, FromItsHeader) {
  link::LinkInput input = test::toy_trainer(folder_, 2);
  input.symbol_prefix = "toy";
  link::link_shared_object(input, folder_ / "toy.so");
  write_file_atomically(folder_ / "toy.h", std::string_view(link::write_header(input.program, "toy")));
  write_file_atomically(folder_ / "main.c", std::string_view(R"(
#include "toy.h"
#include <stdio.h>
int main(void) {
  float x[TOY_STEP_INPUT_X_ELEMENTS] = {1, 0.5f, -1, 2}, target[TOY_STEP_INPUT_TARGET_ELEMENTS] = {0, 1, 2, 3};
  float loss, y[TOY_OUTPUT_Y_ELEMENTS];
  uint8_t saved[TOY_FORWARD_OUTPUT_SAVED_BYTES + 16];
  tcc_instance* model;
  if (TOY_FUNCTION_INFER != 0 || TOY_FUNCTION_STEP != 1 || TOY_STEP_OUTPUT_LOSS_RANK != 0) return 9;
  if (toy_create(TCC_DEVICE_CPU, &model)) return puts(toy_error()), 1;
  if (toy_set_lr(model, 0.0625) || toy_set_seed(model, 7)) return puts(toy_error()), 2;
  for (int i = 0; i < 6; i++) {
    if (toy_step(model, x, target, &loss)) return puts(toy_error()), 3;
    printf("%g\n", loss);
  }
  if (toy_save(model, "state.safetensors")) return puts(toy_error()), 4;
  if (toy_forward(model, x, target, &loss, (uint8_t*)(((uintptr_t)saved + 15) & ~(uintptr_t)15))) return puts(toy_error()), 5;
  if (toy_update(model)) return puts(toy_error()), 6;
  if (toy_load(model, "state.safetensors")) return puts(toy_error()), 7;
  if (toy_run(model, x, y)) return puts(toy_error()), 8;
  printf("%g\n", y[0]);
  toy_destroy(model);
  return 0;
}
)"));
  for (const char* compiler : {"cc -std=c11 -Wall -Wextra -Werror -pedantic", "c++ -x c++ -Wall -Wextra -Werror"}) {
    const std::string prefix = "cd '" + folder_.path() + "' && ";
    const auto compiled = test::run_command(prefix + compiler + " main.c -x none ./toy.so -o main");
    ASSERT_EQ(compiled.exit_code, 0) << compiled.output;
    const auto ran = test::run_command(prefix + "./main");
    EXPECT_EQ(ran.exit_code, 0) << ran.output;
    EXPECT_EQ(ran.output, "51\n51\n26.1562\n26.1562\n12.854\n12.854\n0.529297\n") << ran.output;
  }
}

}  // namespace
}  // namespace tcc
