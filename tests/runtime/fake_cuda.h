// Tests against a CUDA driver made of host memory (fake_cuda.c), which runs kernels given as C.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "runtime/toy_model.h"
#include "tcc/runtime/library.h"

namespace tcc::test {

/// What the driver counts; as in fake_cuda.c.
struct FakeCounts {
  int kernel_launches, graph_launches, graphs, patched_nodes, fills, live_allocations, live_host_allocations, live_modules, live_events,
      live_graphs, context_depth, primary_retained;
  long long live_bytes;
};

/// Checks after each test that nothing is left behind. A test suite calls start() and stop() in its set-up and tear-down.
class FakeCuda : public testing::Test {
 protected:
  /// One driver for the process; a library loaded under that name is what dlopen("libcuda.so.1") then gives, whatever is installed.
  static void start(const char* kernels);
  static void stop();
  static const TemporaryFolder& folder() { return *folder_; }
  static void* driver() { return driver_; }

  template <class T> static T& variable(const char* name) { return *static_cast<T*>(dlsym(driver_, name)); }
  static FakeCounts& counts() { return variable<FakeCounts>("fake_counts"); }
  static void fail_next(const char* call) { variable<const char*>("fake_failing_call") = call; }
  static void* capturing_stream() { return variable<void*>("fake_capturing_stream"); }
  static std::shared_ptr<const runtime::Library> link_and_open(const link::LinkInput& input);

  void SetUp() override;
  void TearDown() override;

 private:
  static inline TemporaryFolder* folder_ = nullptr;
  static inline void* driver_ = nullptr;
};

}  // namespace tcc::test
