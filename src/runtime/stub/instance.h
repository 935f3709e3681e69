// An instance: one device, its resources, its state, and the program bound to it.
#pragma once

#include <pthread.h>

#include <atomic>

#include "runtime/stub/memory.h"
#include "runtime/stub/program_view.h"
#include "runtime/stub/thread_pool.h"

namespace tcc::stub {

struct CudaState;    // cuda_device.h
struct SharedBlock;  // shared_blocks.h

inline constexpr uint32_t kNoFunction = ~uint32_t{0};

/// A function of the library, bound to the instance's device.
struct BoundFunction {
  uint32_t number = 0;
  const program::FunctionCode* code = nullptr;
  Arguments arguments;
  bool uses_gradients = false;
  uint32_t num_inputs = 0, num_outputs = 0;
  uint32_t first_check = 0;  ///< of its checks, among those of all functions

  // CPU
  uint32_t* chunks = nullptr;     ///< per launch: parts it is cut into; 1 runs on the caller
  double* fastest_us = nullptr;   ///< per launch: over the measured runs
  int num_runs = 0;               ///< counted until the last measured one
  bool runs_in_parallel = false;  ///< some launch is cut
};

/// What a run was called with.
struct RunCall {
  BoundFunction* function;
  const tcc_tensor* inputs;
  const tcc_tensor* outputs;
  void* workspace;  ///< null: the instance's own
  void* stream;
  bool zero_gradients;  ///< before anything else
};

/// What an instance keeps between calls beside its workspace; state.h.
struct State {
  char* blocks[program::kNumStateBlocks] = {};  ///< in the device's memory; block 1 is null until somebody needs it
  uint64_t* scalars = nullptr;                  ///< their bits, as set_scalar() left them
  bool* stale_scalars = nullptr;                ///< CUDA: the device has others
  uint32_t step = kNoFunction, accumulate = kNoFunction, backward = kNoFunction;
  uint32_t micro_batch = 0;       ///< how many have been accumulated since the last update
  bool gradients_zeroed = false;  ///< once, so that the gaps between them are zeros
  bool gradients_clean = false;   ///< they are zeros, as a first micro-batch wants them
  bool gradients_shared = false;  ///< somebody has their address, and may have written
};

}  // namespace tcc::stub

struct tcc_instance {
  static constexpr uint64_t kAlive = 0x65636e6174736e69;  // no pointer, and nothing that an allocator leaves behind
  std::atomic<uint64_t> alive{kAlive};  ///< another value: destroyed, or never made. Atomic: a store ahead of free() is no dead one
  std::atomic<bool> in_use{false};      ///< by the one thread that may; see InUse
  tcc_instance* next_live = nullptr;    ///< live_instances.h

  tcc::stub::ProgramView view;
  const tcc::program::Target* target = nullptr;
  tcc::stub::Memory memory;
  tcc::stub::BoundFunction* functions = nullptr;  ///< as in the program
  tcc::stub::State state;

  const char* weights = nullptr;  ///< in the host's memory: the library's own or a mapped file
  void* weights_mapping = nullptr;
  uint64_t weights_mapping_bytes = 0;

  int32_t device = TCC_DEVICE_CPU;
  int32_t device_ordinal = 0;
  char device_name[192] = {};
  char device_reason[320] = {};
  uint64_t device_weights_bytes = 0;  ///< of the weights that the target's functions use
  char* prepared = nullptr;           ///< in the device's memory: what was made of weights, once; target->prepared_bytes
  void (*log)(void* user, int32_t level, const char* message) = nullptr;
  void* log_user = nullptr;

  // bad_indices.h
  uint32_t num_checks = 0;
  int64_t* bad_indices = nullptr;            ///< a word for each check; null when there is none
  int64_t* bad_indices_of_device = nullptr;  ///< the same memory, as kernels address it
  bool ignore_bad_indices = false;

  // CPU
  int num_threads = 1;
  tcc::stub::SharedBlock* shared = nullptr;  ///< shared_blocks.h; holds `prepared`, unless the caller's allocator does
  tcc::stub::ThreadPool pool;
  pthread_t* workers = nullptr;
  const tcc::stub::CpuFunction* kernels = nullptr;  ///< of the level in use, by kernel
  void* own_workspace = nullptr;                    ///< for the largest function that ran without one of the caller's
  uint64_t own_workspace_bytes = 0;

  // CUDA
  tcc::stub::CudaState* cuda = nullptr;
};
