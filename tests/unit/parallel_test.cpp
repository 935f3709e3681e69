#include "tcc/support/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tcc {
namespace {

/// Several threads, also on a machine with one core.
class Parallel : public ::testing::Test {
 protected:
  void SetUp() override { set_num_threads(4); }
};

TEST_F(Parallel, CoversEveryIndexOnce) {
  for (const int64_t count : {0, 1, 2, 7, 64, 1000, 100001}) {
    for (const int64_t grain : {0, 1, 3, 64, 1000000}) {
      std::vector<int> visits(static_cast<size_t>(count), 0);
      std::atomic<int> short_chunks = 0;
      parallel_for(count, grain, [&](int64_t begin, int64_t end) {
        ASSERT_LT(begin, end);
        if (end - begin < grain && end != count) ++short_chunks;
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
      });
      ASSERT_EQ(visits, std::vector<int>(static_cast<size_t>(count), 1)) << count << " " << grain;
      ASSERT_EQ(short_chunks, 0);
    }
  }
}

TEST_F(Parallel, RunsOnSeveralThreads) {
  // Each of two chunks waits for the other to start, which one thread alone could never do.
  std::atomic<int> started = 0;
  parallel_for(2, 1, [&](int64_t, int64_t) {
    ++started;
    while (started < 2) std::this_thread::yield();
  });
  EXPECT_EQ(started, 2);
}

TEST_F(Parallel, EachIsHandedOutInOrder) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{5}, size_t{1000}}) {
    std::vector<int> visits(count, 0);
    parallel_each(count, [&](size_t i) { ++visits[i]; });
    EXPECT_EQ(visits, std::vector<int>(count, 1));
  }
  // Two that wait for each other can be neither on one thread nor behind a third that waits for both: each is a task of its own, from the first on.
  std::atomic<int> started = 0;
  std::atomic<bool> last_came_first = false;
  parallel_each(20, [&](size_t i) {
    if (i >= 8 && started < 2) last_came_first = true;
    if (i >= 2) return;
    ++started;
    while (started < 2) std::this_thread::yield();
  });
  EXPECT_EQ(started, 2);
  EXPECT_FALSE(last_came_first);
  for (int repeat = 0; repeat < 50; ++repeat) {
    try {
      parallel_each(100, [](size_t i) {
        if (i >= 30) throw std::runtime_error(std::to_string(i));
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) { EXPECT_STREQ(error.what(), "30"); }
  }
}

TEST_F(Parallel, TheFirstExceptionIsRethrown) {
  for (int repeat = 0; repeat < 200; ++repeat) {
    try {
      parallel_for(1000, 1, [](int64_t begin, int64_t) {
        if (begin >= 300) throw std::runtime_error(std::to_string(begin));
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "315");  // chunks of 63: the first one at or behind 300, every time
    }
  }
  std::atomic<int64_t> sum = 0;
  parallel_for(100, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });  // and the pool still works
  EXPECT_EQ(sum, 100);
}

TEST_F(Parallel, ACallInsideABodyRunsSerially) {
  std::atomic<int64_t> sum = 0;
  parallel_for(8, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto thread = std::this_thread::get_id();
      int calls = 0;
      parallel_for(1000, 1, [&](int64_t first, int64_t last) {
        EXPECT_EQ(std::this_thread::get_id(), thread);
        ++calls;
        sum += last - first;
      });
      EXPECT_EQ(calls, 1);
    }
  });
  EXPECT_EQ(sum, 8000);
}

TEST_F(Parallel, AnExceptionInsideANestedCall) {
  EXPECT_THROW(parallel_for(8, 1, [](int64_t, int64_t) { parallel_for(8, 1, [](int64_t, int64_t) { throw std::runtime_error("x"); }); }),
               std::runtime_error);
  std::atomic<int> threads_seen = 0;
  parallel_for(2, 1, [&](int64_t, int64_t) {  // this thread doesn't take itself for the inside of a body any more
    ++threads_seen;
    while (threads_seen < 2) std::this_thread::yield();
  });
}

TEST_F(Parallel, SeveralCallersAtOnce) {
  std::vector<std::thread> callers;
  std::atomic<int64_t> sum = 0;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) parallel_for(100, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 200 * 100);
}

TEST_F(Parallel, OneThread) {
  set_num_threads(1);
  EXPECT_EQ(num_threads(), 1);
  int calls = 0;
  parallel_for(1000, 1, [&](int64_t, int64_t) { ++calls; });
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace tcc
