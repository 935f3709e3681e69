#include "runtime/stub/cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "runtime/stub/message.h"

namespace tcc::stub {
namespace {

pthread_mutex_t load_mutex = PTHREAD_MUTEX_INITIALIZER;
bool tried = false;
CudaDriver functions;
char reason[256];

using GetProcAddress = CUresult (*)(const char* name, void** function, int version, uint64_t flags);

bool load_functions(void* library) {
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress"));
  if (!get) {
    snprintf(reason, sizeof reason, "the CUDA driver is older than 11.4 (libcuda.so.1 has no cuGetProcAddress)");
    return false;
  }
  void* address;
#define TCC_LOAD(name, parameters)                                                               \
  address = nullptr;                                                                             \
  if (get(#name, &address, kCudaInterfaceVersion, 0) != CUDA_SUCCESS || !address) {              \
    snprintf(reason, sizeof reason, "the CUDA driver is older than 11.4 (it has no %s)", #name); \
    return false;                                                                                \
  }                                                                                              \
  functions.name = reinterpret_cast<decltype(functions.name)>(address);
  TCC_CUDA_FUNCTIONS(TCC_LOAD)
#undef TCC_LOAD
  address = nullptr;
  if (get("cuTensorMapEncodeTiled", &address, kTensorMapVersion, 0) == CUDA_SUCCESS)
    functions.cuTensorMapEncodeTiled = reinterpret_cast<decltype(functions.cuTensorMapEncodeTiled)>(address);
  return true;
}

// Empty reason: usable.
void load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    snprintf(reason, sizeof reason, "no CUDA driver: libcuda.so.1 is not found");
    return;
  }
  if (!load_functions(library)) return;
  if (CUresult error = functions.cuInit(0)) {
    const char* name = nullptr;
    functions.cuGetErrorName(error, &name);
    snprintf(reason, sizeof reason, "the CUDA driver finds no device: cuInit says %s (%d)", name ? name : "an unknown error", error);
    return;
  }
  int count = 0;
  if (functions.cuDeviceGetCount(&count) != CUDA_SUCCESS || count == 0) {
    snprintf(reason, sizeof reason, "the CUDA driver finds no device");
  }
}

}  // namespace

const CudaDriver* cuda_driver(const char** why) {
  pthread_mutex_lock(&load_mutex);
  if (!tried) load();
  tried = true;
  pthread_mutex_unlock(&load_mutex);
  *why = reason;
  return reason[0] ? nullptr : &functions;
}

int cuda_fail(const CudaDriver& driver, CUresult error, const char* call, const char* what) {
  const char *name = nullptr, *text = nullptr;
  driver.cuGetErrorName(error, &name);
  driver.cuGetErrorString(error, &text);
  return fail(error == CUDA_ERROR_OUT_OF_MEMORY ? TCC_OUT_OF_MEMORY : TCC_DRIVER_ERROR, "%s of %s: %s (%d): %s", call, what,
              name ? name : "unknown error", error, text ? text : "the driver gives no text");
}

CurrentContext::CurrentContext(const CudaDriver& driver, CUcontext context) : driver_(driver) {
  CUcontext current = nullptr;
  result_ = driver_.cuCtxGetCurrent(&current);
  if (result_ == CUDA_SUCCESS && current != context) {
    result_ = driver_.cuCtxPushCurrent(context);
    pushed_ = result_ == CUDA_SUCCESS;
  }
}

CurrentContext::~CurrentContext() {
  CUcontext popped;
  if (pushed_) driver_.cuCtxPopCurrent(&popped);
}

}  // namespace tcc::stub
