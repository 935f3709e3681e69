// Running the program on a CUDA device. cuda_load.cpp finds the device and loads code and weights, cuda_run.cpp runs.
#pragma once

#include "runtime/stub/cuda_driver.h"
#include "runtime/stub/instance.h"

namespace tcc::stub {

/// A function's launches as a CUDA graph.
struct CudaFunction {
  bool use_graph = true;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode* nodes = nullptr;  ///< per launch; null where it launches nothing
  bool* stale = nullptr;         ///< per launch: its node in `exec` has addresses of an earlier run
};

struct CudaState {
  const CudaDriver* driver = nullptr;
  CUdevice device = 0;
  CUcontext context = nullptr;
  bool primary_context = false;  ///< ours to release
  int capability = 0;            ///< 90 for 9.0

  uint32_t* image_of = nullptr;   ///< per kernel: the image chosen for this chip
  CUmodule* modules = nullptr;    ///< per image; null where it was not chosen
  CUfunction* kernels = nullptr;  ///< per kernel
  CudaFunction* functions = nullptr;

  CUdeviceptr weights = 0;
  CUdeviceptr prepared = 0;   ///< tcc_instance::prepared
  CUdeviceptr workspace = 0;  ///< the instance's own, for the largest function that ran without one of the caller's
  uint64_t workspace_bytes = 0;
  bool workspace_captured = false;  ///< the caller's graphs have its address: it must stay as long as the instance
  CUdeviceptr* retired = nullptr;   ///< workspaces that were too small for a later function, and had to stay
  uint32_t num_retired = 0;
  CUdeviceptr* staging = nullptr;  ///< the device's copies of host tensors, once a run needed them
  uint32_t* staging_of = nullptr;  ///< per tensor of the program: which; functions share those of equal name and size

  CUevent timer_start = nullptr, timer_stop = nullptr;
};

/// Whether this process can run the program on the device that the options ask for. When not, `reason` says what is missing: `auto` then
/// takes the CPU. Touches no context.
bool cuda_usable(const ProgramView& view, const program::Target& target, const tcc_create_options& options, char* reason,
                 size_t reason_bytes);

/// All but the state.
int cuda_create(tcc_instance* instance, const tcc_create_options& options);
void cuda_destroy(tcc_instance* instance);

/// Runs the preparation and waits for it; for cuda_create().
int cuda_run_preparation(tcc_instance* instance, BoundFunction* preparation, CUdeviceptr weights);

struct CudaMeasure {
  tcc_timing* timing;  ///< null, or filled; waits for the work
  double* launch_us;   ///< null, or the time of each launch; waits for the work
};
/// `waited`: whether the work is done on return.
int cuda_run(tcc_instance* instance, const RunCall& call, const CudaMeasure& measure, bool* waited);

int cuda_allocate(tcc_instance* instance, uint64_t bytes, void** memory);
int cuda_deallocate(tcc_instance* instance, void* memory);
int cuda_copy(tcc_instance* instance, void* destination, bool to_device, const void* source, bool from_device, uint64_t bytes);
int cuda_synchronize(tcc_instance* instance, void* stream);

// For state.cpp, which waits for the device first: memory that the instance owns.
int cuda_allocate_state(tcc_instance* instance, uint32_t block, uint64_t bytes);
int cuda_fill(tcc_instance* instance, void* memory, uint64_t pattern, uint32_t pattern_bytes, uint64_t bytes);
int cuda_wait_for_all(tcc_instance* instance);

}  // namespace tcc::stub
