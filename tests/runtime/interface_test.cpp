// What the C interface refuses beside tensors: reserved fields, copies, instances that are in use, destroyed, or left behind by dlclose.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "runtime/toy_model.h"
#include "tcc/runtime/runtime.h"

namespace tcc {
namespace {

using test::TemporaryFolder;

/// The toy library through dlopen, as a C program has it. `spin`: its kernel `scale` takes a millisecond an item.
class Interface : public testing::Test {
 protected:
  void SetUp() override {
    link::LinkInput input = test::toy_model(folder_);
    input.cpu_objects = {{"kernels.o", test::compile_c(folder_, R"(
      #include <stdint.h>
      void tcc_v1_scale(void* const* b, int64_t begin, int64_t end) {
        for (int64_t i = begin * 3; i < end * 3; i++) {
          for (volatile int j = 0; j < 100000; j++) {}
          ((float*)b[1])[i] = 2 * ((const float*)b[0])[i];
        }
      }
      void tcc_v1_add__weight(void* const* b, int64_t begin, int64_t end) {
        for (int64_t i = begin * 3; i < end * 3; i++) ((float*)b[2])[i] = ((const float*)b[0])[i] + ((const float*)b[1])[i];
      })")}};
    link::link_shared_object(input, path_);
    load();
  }
  void TearDown() override {
    if (handle_) dlclose(handle_);
  }

  void load() {
    handle_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(handle_, nullptr) << dlerror();
    api_ = reinterpret_cast<tcc_query_function>(dlsym(handle_, "tcc_model_query"))(TCC_ABI_VERSION);
    ASSERT_NE(api_, nullptr);
  }
  static tcc_create_options options(int threads = 1) {
    tcc_create_options options = {};
    options.struct_size = sizeof options;
    options.device = TCC_DEVICE_CPU;
    options.num_threads = threads;
    return options;
  }
  tcc_instance* create(int threads = 1) const {
    const tcc_create_options given = options(threads);
    tcc_instance* instance = nullptr;
    EXPECT_EQ(api_->create(&given, &instance), TCC_OK) << api_->last_error();
    return instance;
  }
  /// The tensors of one run.
  struct Tensors {
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {}, z[6] = {};
    int32_t u[4] = {};
    int64_t shape[2] = {2, 3}, four[1] = {4};
    tcc_tensor in = {x, shape, nullptr, 2, TCC_F32, 0, 0, {}};
    tcc_tensor out[3] = {
        {y, shape, nullptr, 2, TCC_F32, 0, 0, {}}, {z, shape, nullptr, 2, TCC_F32, 0, 0, {}}, {u, four, nullptr, 1, TCC_I32, 0, 0, {}}};
  };
  int run(tcc_instance* instance, const Tensors& tensors) const {
    return api_->run(instance, &tensors.in, 1, tensors.out, 3, nullptr, 0, nullptr);
  }
  std::string error() const { return api_->last_error(); }
  /// The exit code of a child that does it, 128 + the signal that ended it; ten seconds are a hang.
  static int in_child(const std::function<void()>& action) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      action();
      exit(0);  // with destructors
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "toy.so";
  void* handle_ = nullptr;
  const tcc_api* api_ = nullptr;
};

TEST_F(Interface, SpeaksEarlierVersions) {
  const auto query = reinterpret_cast<tcc_query_function>(dlsym(handle_, "tcc_model_query"));
  for (uint32_t version = 1; version <= TCC_ABI_VERSION; version++) {
    const tcc_api* api = query(version);
    ASSERT_NE(api, nullptr) << version;
    EXPECT_EQ(api->abi_version, version);
    EXPECT_LE(api->struct_size, sizeof(tcc_api));
  }
  EXPECT_EQ(query(0), nullptr);
  EXPECT_EQ(query(TCC_ABI_VERSION + 1), nullptr);
}

TEST_F(Interface, ReservedFieldsAreZero) {
  tcc_create_options given = options();
  tcc_instance* instance = nullptr;
  for (uint64_t& field : given.reserved) {
    field = 7;
    EXPECT_EQ(api_->create(&given, &instance), TCC_INVALID_ARGUMENT);
    EXPECT_NE(error().find("create_options: reserved["), std::string::npos) << error();
    EXPECT_EQ(instance, nullptr);
    field = 0;
  }
  given.check_weights = 2;
  EXPECT_EQ(api_->create(&given, &instance), TCC_INVALID_ARGUMENT);
  EXPECT_EQ(error(), "create_options: check_weights is 2, expected 0 or 1");
  instance = create();
  Tensors tensors;
  for (tcc_tensor* tensor : {&tensors.in, &tensors.out[0], &tensors.out[2]}) {
    tensor->reserved[1] = 5;
    EXPECT_EQ(run(instance, tensors), TCC_INVALID_ARGUMENT);
    EXPECT_NE(error().find("a reserved field is 0x5, expected 0"), std::string::npos) << error();
    tensor->reserved[1] = 0;
  }
  EXPECT_EQ(run(instance, tensors), TCC_OK) << error();
  api_->destroy(instance);
}

TEST_F(Interface, CopiesAreChecked) {
  tcc_instance* instance = create();
  char a[4] = {1, 2, 3, 4}, b[4] = {};
  const auto copy = [&](void* to, int32_t to_device, const void* from, int32_t from_device, uint64_t bytes = 4) {
    return api_->copy(instance, to, to_device, from, from_device, bytes);
  };
  EXPECT_EQ(copy(b, TCC_DEVICE_CPU, a, TCC_DEVICE_AUTO), TCC_OK);
  EXPECT_EQ(b[3], 4);
  EXPECT_EQ(copy(nullptr, TCC_DEVICE_CPU, nullptr, TCC_DEVICE_CPU, 0), TCC_OK);
  EXPECT_EQ(copy(nullptr, TCC_DEVICE_CPU, a, TCC_DEVICE_CPU), TCC_INVALID_ARGUMENT);
  EXPECT_EQ(error(), "copy: the destination is NULL, for 4 bytes");
  EXPECT_EQ(copy(b, TCC_DEVICE_CPU, nullptr, TCC_DEVICE_CPU), TCC_INVALID_ARGUMENT);
  EXPECT_EQ(error(), "copy: the source is NULL, for 4 bytes");
  EXPECT_EQ(copy(b, 7, a, TCC_DEVICE_CPU), TCC_INVALID_ARGUMENT);
  EXPECT_EQ(error(), "copy: the device of the destination is 7, expected 1 (CPU) or 2 (CUDA)");
  EXPECT_EQ(copy(b, TCC_DEVICE_CPU, a, -1), TCC_INVALID_ARGUMENT);
  EXPECT_EQ(copy(b, TCC_DEVICE_CPU, a, TCC_DEVICE_CUDA), TCC_INVALID_ARGUMENT);
  EXPECT_NE(error().find("this instance runs on the CPU"), std::string::npos);
  api_->destroy(instance);
}

TEST_F(Interface, OneThreadAtATime) {
  tcc_instance* instance = create(2);
  std::atomic<bool> refused{false};
  std::atomic<int> failures{0};
  const auto work = [&] {
    Tensors tensors;
    for (int i = 0; i < 2000 && !refused; i++) {
      const int status = run(instance, tensors);
      if (status == TCC_INVALID_ARGUMENT && error().find("in use by another thread") != std::string::npos) refused = true;
      else if (status != TCC_OK || tensors.y[5] != 62) failures++;
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_TRUE(refused);
  EXPECT_EQ(failures, 0);
  // The refusal holds for that moment only.
  Tensors tensors;
  EXPECT_EQ(run(instance, tensors), TCC_OK) << error();
  EXPECT_EQ(tensors.y[5], 62);
  api_->destroy(instance);
}

TEST_F(Interface, ADestroyedInstanceIsTold) {
  EXPECT_EQ(in_child([&] {
              tcc_instance* instance = create(2);
              Tensors tensors;
              if (run(instance, tensors) != TCC_OK) _exit(1);
              api_->destroy(instance);
              if (run(instance, tensors) != TCC_INVALID_ARGUMENT || error().find("has been destroyed") == std::string::npos) _exit(2);
              api_->destroy(instance);
              if (error().find("destroy: the instance has been destroyed already") == std::string::npos) _exit(3);
              api_->destroy(reinterpret_cast<tcc_instance*>(&tensors));
            }),
            0);
}

TEST_F(Interface, WhatIsLeftAtTheEndDoesNoHarm) {
  // The threads spin, or sleep already: both ways their code goes away under them.
  for (const int milliseconds : {0, 30}) {
    EXPECT_EQ(in_child([&] {
                load();
                tcc_instance* instance = create(3);
                Tensors tensors;
                if (run(instance, tensors) != TCC_OK) _exit(1);
                std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
                dlclose(handle_);
                dlclose(handle_);                                             // SetUp() has opened it too
                if (dlopen(path_.c_str(), RTLD_NOW | RTLD_NOLOAD)) _exit(2);  // it is gone
                std::this_thread::sleep_for(std::chrono::milliseconds(30));
              }),
              0);
  }
  // The end of a process, also of a forked one, in which the threads are none.
  EXPECT_EQ(in_child([&] {
              tcc_instance* instance = create(3);
              Tensors tensors;
              if (run(instance, tensors) != TCC_OK) _exit(1);
              if (in_child([] {}) != 0) _exit(2);
              static tcc_instance* last = instance;
              static const tcc_api* api = api_;
              if (atexit([] { api->destroy(last); }) != 0) _exit(3);
            }),
            0);
}

}  // namespace
}  // namespace tcc
