// Threads of the compiler itself (evaluators, per-kernel code generation). The number is `-j` or the cores of the machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>

namespace tcc {

void set_num_threads(int threads);  ///< 1 or more; called once by the driver
int num_threads();

/// Calls body(begin, end) over disjoint chunks that cover [0, count), at least `grain` each, possibly on several threads; returns when
/// all are done. The first exception of a chunk is rethrown. A call from inside a body runs serially.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& body);

/// Calls body(i) for each i in [0, count), handed out one by one in this order: what takes longest should come first. Otherwise as parallel_for.
void parallel_each(size_t count, const std::function<void(size_t i)>& body);

/// A thread. Error (environment, thread-limit) when the system refuses it: a limit of processes or of memory.
std::thread start_thread(std::function<void()> body);

}  // namespace tcc
