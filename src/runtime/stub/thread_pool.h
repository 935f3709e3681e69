// The threads of a CPU instance: made once, they share the chunks of one launch at a time.
//
// Models launch hundreds of kernels of a few microseconds each, so what counts is how soon a launch is known to the workers and its
// end to the caller. Both are one atomic variable that is spun on for some tens of microseconds before the thread sleeps in the kernel.
//
//   state       number of chunks of the current launch that nobody took yet. A thread takes one by counting it down; what it then reads
//               of the launch cannot change before it has done that chunk. A worker that comes late finds 0 and has touched nothing, so
//               the caller waits for chunks, never for workers.
//   unfinished  number of chunks that are not done. At 0 the caller goes on.
//
// Only atomics, futexes and pthread_create: condition variables exist twice in libc under one name (versions 2.2.5 and 2.3.2), and
// a library must not depend on which of them it gets.
#pragma once

#include <pthread.h>
#include <stdint.h>

#include <atomic>

#include "runtime/stub/payload.h"

namespace tcc::stub {

class ThreadPool {
 public:
  /// `num_threads` counts the caller; 1 makes no thread. `workers` holds num_threads - 1 handles and stays the caller's.
  /// `spin`: false where more threads were asked for than there are CPUs, where spinning keeps the others from working.
  /// False when the system gives no thread; those already started are ended.
  bool start(int num_threads, bool spin, pthread_t* workers);
  void stop();
  int num_threads() const { return num_threads_; }

  /// Computes all items of [0, grid), cut into `num_chunks` (1 <= num_chunks <= grid) equal parts, and returns when they are done.
  void run(CpuFunction function, void* const* buffers, int64_t grid, uint32_t num_chunks);
  /// Wakes sleeping workers ahead of the first launch of a run, since waking takes longer than a small launch.
  void wake();

 private:
  static void* worker_main(void* pool);
  void work();
  bool take_and_run_chunk();
  bool spin_for_chunk() const;
  void wake_sleepers();

  // A launch. Written by the caller while `state_` is 0, read after taking a chunk.
  CpuFunction function_ = nullptr;
  void* const* buffers_ = nullptr;
  int64_t grid_ = 0;
  uint32_t num_chunks_ = 0;

  alignas(64) std::atomic<uint32_t> state_{0};
  alignas(64) std::atomic<uint32_t> unfinished_{0};
  std::atomic<uint32_t> caller_sleeps_{0};
  alignas(64) std::atomic<uint32_t> num_sleepers_{0};
  std::atomic<uint32_t> wake_ups_{0};  // what sleepers wait on
  std::atomic<uint32_t> stopping_{0};

  pthread_t* workers_ = nullptr;
  int num_threads_ = 1;
  int spins_ = 0;
};

}  // namespace tcc::stub
