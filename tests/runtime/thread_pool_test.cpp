// The pool under many small launches: every item once, in any split; nothing for a thread sanitizer to find.
#include "runtime/stub/thread_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

namespace tcc::stub {
namespace {

void count_items(void* const* buffers, int64_t begin, int64_t end) {
  int* counts = static_cast<int*>(buffers[0]);
  for (int64_t i = begin; i < end; i++) counts[i]++;
}

void expect_each_once(ThreadPool& pool, int64_t grid, uint32_t num_chunks, int repeats) {
  std::vector<int> counts(static_cast<size_t>(grid));
  void* buffers[] = {counts.data()};
  for (int i = 0; i < repeats; i++) pool.run(count_items, buffers, grid, num_chunks);
  for (const int count : counts) ASSERT_EQ(count, repeats);
}

TEST(ThreadPool, RunsEachItemOnce) {
  for (const int num_threads : {1, 2, 5}) {
    for (const bool spin : {true, false}) {
      ThreadPool pool;
      std::vector<pthread_t> workers(8);
      ASSERT_TRUE(pool.start(num_threads, spin, workers.data()));
      for (const int64_t grid : {1, 2, 7, 64, 1000}) {
        for (const uint32_t num_chunks : {1u, 2u, 3u, 16u, 64u}) {
          if (num_chunks <= grid) expect_each_once(pool, grid, num_chunks, 50);
        }
      }
      pool.stop();
    }
  }
}

TEST(ThreadPool, WakesSleepersAndStopsThem) {
  ThreadPool pool;
  std::vector<pthread_t> workers(8);
  ASSERT_TRUE(pool.start(4, true, workers.data()));
  for (int i = 0; i < 20; i++) {
    usleep(2000);  // long enough for every worker to sleep
    if (i % 2) pool.wake();
    expect_each_once(pool, 8, 8, 3);
  }
  pool.stop();
  ThreadPool idle;
  ASSERT_TRUE(idle.start(3, true, workers.data()));
  idle.stop();
}

}  // namespace
}  // namespace tcc::stub
