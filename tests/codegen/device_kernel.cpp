#include "device_kernel.h"

#include <dlfcn.h>

#include <cstring>

#include "kernel_memory.h"
#include "tcc/codegen/codegen.h"
#include "tcc/loop/row_padding.h"
#include "tcc/support/diagnostics.h"

namespace tcc::codegen {
namespace {

/// A function of the driver, by its name.
template <class F> F* driver(const char* name) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  return library ? reinterpret_cast<F*>(dlsym(library, name)) : nullptr;
}

void call(int result, const std::string& what) {
  if (result != 0) internal_error(what + " of the CUDA driver gave error " + std::to_string(result));
}

using Address = unsigned long long;

/// The first device is made current, once.
bool start() {
  static const bool started = [] {
    const auto init = driver<int(unsigned)>("cuInit");
    if (!init || init(0) != 0) return false;
    int device = 0;
    void* context = nullptr;
    if (driver<int(int*, int)>("cuDeviceGet")(&device, 0) != 0) return false;
    return driver<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, device) == 0 &&
           driver<int(void*)>("cuCtxSetCurrent")(context) == 0;
  }();
  return started;
}

}  // namespace

bool DeviceKernels::available() { return start(); }

DeviceKernels::DeviceKernels(const std::string& ptx) {
  check(start(), "a CUDA device");
  call(driver<int(void**, const void*)>("cuModuleLoadData")(&module_, ptx.c_str()), "loading a module");
}

DeviceKernels::~DeviceKernels() { driver<int(void*)>("cuModuleUnload")(module_); }

void DeviceKernels::run(const std::string& name, const loop::Kernel& kernel, std::vector<Tensor>& params) const {
  void* function = nullptr;
  call(driver<int(void**, void*, const char*)>("cuModuleGetFunction")(&function, module_, name.c_str()), "finding a kernel");
  std::vector<Address> addresses(params.size());
  std::vector<void*> arguments;
  std::vector<Tensor> memory;
  for (size_t i = 0; i < params.size(); ++i) {
    memory.push_back(in_memory(*kernel.params[i].buffer, params[i]));
    const auto size = static_cast<size_t>(memory[i].size_bytes());
    constexpr size_t kWord = 4;  // what an atomic operation takes, and an allocation of nothing is refused
    call(driver<int(Address*, size_t)>("cuMemAlloc_v2")(&addresses[i], (size / kWord + 1) * kWord), "memory");
    call(driver<int(Address, const void*, size_t)>("cuMemcpyHtoD_v2")(addresses[i], memory[i].bytes(), size), "a copy to the device");
    arguments.push_back(&addresses[i]);
  }
  constexpr int64_t kSharedByDefault = 48 << 10;
  constexpr int kMostDynamicShared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
  if (kernel.shared_bytes > kSharedByDefault)
    call(driver<int(void*, int, int)>("cuFuncSetAttribute")(function, kMostDynamicShared, static_cast<int>(kernel.shared_bytes)),
         "shared memory");
  const auto launch =
      driver<int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**)>("cuLaunchKernel");
  call(launch(function, static_cast<unsigned>(kernel.grid), 1, 1, static_cast<unsigned>(kernel.threads), 1, 1,
              static_cast<unsigned>(kernel.shared_bytes), nullptr, arguments.data(), nullptr),
       "a launch");
  call(driver<int()>("cuCtxSynchronize")(), "the end of a launch");
  for (size_t i = 0; i < params.size(); ++i) {
    call(driver<int(void*, Address, size_t)>("cuMemcpyDtoH_v2")(memory[i].mutable_bytes(), addresses[i],
                                                                static_cast<size_t>(memory[i].size_bytes())),
         "a copy from the device");
    loop::unpad_rows(*kernel.params[i].buffer, memory[i].bytes(), params[i].mutable_bytes());
    driver<int(Address)>("cuMemFree_v2")(addresses[i]);
  }
}

void run_on_device(const loop::Kernel& kernel, std::vector<Tensor>& params) {
  Options options;
  options.target = kernel.target;
  DeviceKernels(emit_nvptx({{"k", &kernel}}, options).assembly).run("k", kernel, params);
}

}  // namespace tcc::codegen
