#include "runtime/stub/thread_pool.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tcc::stub {
namespace {

// About 50 to 100 us: longer than the gaps between the launches of a model, shorter than anybody notices.
constexpr int kSpins = 2000;

void pause_cpu() { __builtin_ia32_pause(); }

void futex_wait(std::atomic<uint32_t>* word, uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>* word, int count) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

// floor(grid * chunk / num_chunks) without a product that may overflow.
int64_t chunk_begin(int64_t grid, uint32_t chunk, uint32_t num_chunks) {
  return grid / num_chunks * chunk + grid % num_chunks * chunk / num_chunks;
}

}  // namespace

bool ThreadPool::start(int num_threads, bool spin, pthread_t* workers) {
  spins_ = spin ? kSpins : 0;
  workers_ = workers;
  num_threads_ = 1;
  while (num_threads_ < num_threads) {
    if (pthread_create(&workers_[num_threads_ - 1], nullptr, worker_main, this) != 0) {
      stop();
      return false;
    }
    num_threads_++;
  }
  return true;
}

void ThreadPool::stop() {
  stopping_.store(1, std::memory_order_seq_cst);
  wake_sleepers();
  for (int i = 0; i < num_threads_ - 1; i++) pthread_join(workers_[i], nullptr);
  num_threads_ = 1;
}

void* ThreadPool::worker_main(void* pool) {
  // Signals are the application's business: none is delivered to a thread that it does not know.
  uint64_t all = ~uint64_t{0};
  syscall(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, &all, nullptr, sizeof all);
  static_cast<ThreadPool*>(pool)->work();
  return nullptr;
}

void ThreadPool::work() {
  while (!stopping_.load(std::memory_order_acquire)) {
    if (take_and_run_chunk() || spin_for_chunk()) continue;
    // The order matters: this thread counts itself before it looks again, the caller publishes before it counts sleepers, so that one
    // of the two sees the other. `seen` is older than both: a wake-up in between makes the wait return at once.
    const uint32_t seen = wake_ups_.load(std::memory_order_seq_cst);
    num_sleepers_.fetch_add(1, std::memory_order_seq_cst);
    if (state_.load(std::memory_order_seq_cst) == 0 && !stopping_.load(std::memory_order_seq_cst)) futex_wait(&wake_ups_, seen);
    num_sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  }
}

bool ThreadPool::spin_for_chunk() const {
  for (int i = 0; i < spins_; i++) {
    if (state_.load(std::memory_order_relaxed) != 0 || stopping_.load(std::memory_order_relaxed)) return true;
    pause_cpu();
  }
  return false;
}

bool ThreadPool::take_and_run_chunk() {
  uint32_t left = state_.load(std::memory_order_relaxed);
  do {
    if (left == 0) return false;
  } while (!state_.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel, std::memory_order_relaxed));
  const uint32_t chunk = num_chunks_ - left;
  function_(buffers_, chunk_begin(grid_, chunk, num_chunks_), chunk_begin(grid_, chunk + 1, num_chunks_));
  if (unfinished_.fetch_sub(1, std::memory_order_seq_cst) == 1 && caller_sleeps_.load(std::memory_order_seq_cst))
    futex_wake(&unfinished_, 1);
  return true;
}

void ThreadPool::run(CpuFunction function, void* const* buffers, int64_t grid, uint32_t num_chunks) {
  if (num_chunks <= 1 || num_threads_ == 1) {
    function(buffers, 0, grid);
    return;
  }
  function_ = function;
  buffers_ = buffers;
  grid_ = grid;
  num_chunks_ = num_chunks;
  unfinished_.store(num_chunks, std::memory_order_relaxed);
  state_.store(num_chunks, std::memory_order_seq_cst);
  if (num_sleepers_.load(std::memory_order_seq_cst) > 0) wake_sleepers();

  while (take_and_run_chunk()) {}
  for (int i = 0; i < spins_; i++) {
    if (unfinished_.load(std::memory_order_acquire) == 0) return;
    pause_cpu();
  }
  caller_sleeps_.store(1, std::memory_order_seq_cst);
  for (uint32_t left; (left = unfinished_.load(std::memory_order_seq_cst)) != 0;) futex_wait(&unfinished_, left);
  caller_sleeps_.store(0, std::memory_order_relaxed);
}

void ThreadPool::wake() {
  if (num_threads_ > 1 && spins_ > 0 && num_sleepers_.load(std::memory_order_relaxed) > 0) wake_sleepers();
}

void ThreadPool::wake_sleepers() {
  wake_ups_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(&wake_ups_, num_threads_);
}

}  // namespace tcc::stub
