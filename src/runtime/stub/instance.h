// An instance: one device, its resources, and the program bound to it.
#pragma once

#include <pthread.h>

#include "runtime/stub/memory.h"
#include "runtime/stub/program_view.h"
#include "runtime/stub/thread_pool.h"

namespace tcc::stub {

struct CudaState;  // cuda_device.cpp

/// What a run was called with.
struct RunCall {
  const tcc_tensor* inputs;
  const tcc_tensor* outputs;
  void* workspace;  ///< null: the instance's own
  void* stream;
};

}  // namespace tcc::stub

struct tcc_instance {
  tcc::stub::ProgramView view;
  const tcc::program::Target* target = nullptr;
  tcc::stub::Memory memory;
  tcc::stub::Arguments arguments;

  const char* weights = nullptr;  ///< in the host's memory: the library's own or a mapped file
  void* weights_mapping = nullptr;
  uint64_t weights_mapping_bytes = 0;
  void* own_workspace = nullptr;

  int32_t device = TCC_DEVICE_CPU;
  int32_t device_ordinal = 0;
  char device_name[192] = {};
  char device_reason[320] = {};
  uint64_t device_weights_bytes = 0;

  // CPU
  int num_threads = 1;
  tcc::stub::ThreadPool pool;
  pthread_t* workers = nullptr;
  const tcc::stub::CpuFunction* functions = nullptr;  ///< of the level in use, by kernel
  uint32_t* chunks = nullptr;                         ///< per launch: parts it is cut into; 1 runs on the caller
  double* fastest_us = nullptr;                       ///< per launch: over the measured runs
  int num_runs = 0;                                   ///< counted until the last measured one
  bool runs_in_parallel = false;                      ///< some launch is cut

  // CUDA
  tcc::stub::CudaState* cuda = nullptr;
};
