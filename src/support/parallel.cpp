// A pool of threads that waits for parallel_for calls.
//
// A call is a Job: its chunks are handed out in order by a counter, to the caller and to whichever threads are idle. Every chunk writes its
// own part of the result, so neither the number of threads nor the order of chunks is seen in it. Since chunks start in order, the failed
// chunk with the lowest index is the same in every run, and its exception is the one rethrown.

#include "tcc/support/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "tcc/support/diagnostics.h"
#include "tcc/support/integer_math.h"

namespace tcc {
namespace {

thread_local bool inside_body = false;

struct Job {
  const std::function<void(int64_t, int64_t)>* body = nullptr;
  int64_t count = 0, chunk_size = 0, num_chunks = 0;
  std::atomic<int64_t> next_chunk{0};
  std::atomic<bool> failed{false};

  std::mutex mutex;  // guards what follows
  std::condition_variable done;
  int64_t chunks_left = 0;
  int64_t failed_chunk = std::numeric_limits<int64_t>::max();
  std::exception_ptr exception;

  bool exhausted() const { return next_chunk.load() >= num_chunks; }

  /// Runs chunks until none is left to start.
  void work() {
    int64_t finished = 0;
    while (true) {
      const int64_t chunk = next_chunk.fetch_add(1);
      if (chunk >= num_chunks) break;
      if (!failed.load()) run(chunk);
      ++finished;
    }
    if (finished == 0) return;
    std::lock_guard lock(mutex);
    chunks_left -= finished;
    if (chunks_left == 0) done.notify_all();
  }

  void run(int64_t chunk) {
    inside_body = true;
    try {
      const int64_t begin = chunk * chunk_size;
      (*body)(begin, std::min(count, begin + chunk_size));
    } catch (...) {
      std::lock_guard lock(mutex);
      failed.store(true);
      if (chunk < failed_chunk) {
        failed_chunk = chunk;
        exception = std::current_exception();
      }
    }
    inside_body = false;
  }

  /// Waits for the chunks of other threads; gives the exception to the caller alone, for a helper may let go of the job later.
  std::exception_ptr wait() {
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return chunks_left == 0; });
    return std::exchange(exception, nullptr);
  }
};

class Pool {
 public:
  /// Never destroyed: its threads wait until the process ends.
  static Pool& get() {
    static Pool& pool = *new Pool;
    return pool;
  }

  void submit(const std::shared_ptr<Job>& job, int helpers) {
    {
      std::lock_guard lock(mutex_);
      for (; num_workers_ < helpers; ++num_workers_) start_thread([this] { serve(); }).detach();
      jobs_.push_back(job);
    }
    wake_.notify_all();
  }

  void remove(const std::shared_ptr<Job>& job) {
    std::lock_guard lock(mutex_);
    std::erase(jobs_, job);
  }

 private:
  void serve() {
    while (true) {
      std::shared_ptr<Job> job;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] {
          while (!jobs_.empty() && jobs_.front()->exhausted()) jobs_.pop_front();
          return !jobs_.empty();
        });
        job = jobs_.front();
      }
      job->work();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Job>> jobs_;
  int num_workers_ = 0;
};

/// The cores that this process may use.
int available_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::atomic<int> configured_threads{0};  // 0: not set

}  // namespace

void set_num_threads(int threads) {
  check(threads >= 1, "the number of threads is less than 1");
  configured_threads = threads;
}

int num_threads() {
  static const int cores = available_cores();
  const int configured = configured_threads;
  return configured != 0 ? configured : cores;
}

namespace {

bool runs_serially() { return inside_body || num_threads() == 1; }

void run_in_chunks(int64_t count, int64_t chunk_size, const std::function<void(int64_t begin, int64_t end)>& body) {
  auto job = std::make_shared<Job>();
  job->body = &body;
  job->count = count;
  job->chunk_size = chunk_size;
  job->num_chunks = ceil_div(count, chunk_size);
  job->chunks_left = job->num_chunks;
  if (job->num_chunks == 1) return body(0, count);
  Pool& pool = Pool::get();
  pool.submit(job, num_threads() - 1);
  job->work();
  const std::exception_ptr exception = job->wait();
  pool.remove(job);
  if (exception) std::rethrow_exception(exception);
}

}  // namespace

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& body) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  if (runs_serially() || count <= grain) return body(0, count);
  // Four chunks a thread even out chunks of unequal cost. Rounding the number of chunks down keeps each of them (but the last) at the grain.
  const int64_t wanted = std::min<int64_t>(static_cast<int64_t>(num_threads()) * 4, count / grain);
  run_in_chunks(count, ceil_div(count, wanted), body);
}

void parallel_each(size_t count, const std::function<void(size_t i)>& body) {
  const auto each = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(static_cast<size_t>(i));
  };
  if (count == 0) return;
  if (runs_serially()) return each(0, static_cast<int64_t>(count));
  run_in_chunks(static_cast<int64_t>(count), 1, each);
}

std::thread start_thread(std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    throw Error(ExitCode::environment, "thread-limit", "", "the system refuses to start a thread: " + error.code().message(),
                "use fewer with -j 1, or raise the limits (`ulimit -u`, `ulimit -v`)");
  }
}

}  // namespace tcc
