#include "link/pipe_to_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "tcc/support/diagnostics.h"
#include "tcc/support/parallel.h"

namespace tcc::link {
namespace {

void close_once(int* fd) {
  if (*fd >= 0) close(std::exchange(*fd, -1));
}

}  // namespace

PipeToMemory::PipeToMemory() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Error(ExitCode::environment, "failed-tool", "", std::string("the library can't be linked: ") + strerror(errno));
  read_end_ = ends[0];
  write_end_ = ends[1];
  fcntl(write_end_, F_SETPIPE_SZ, 1 << 20);  // fewer switches between the threads; refused, the smaller one does too
  try {
    thread_ = start_thread([this] { drain(); });
  } catch (...) {  // the system gives none; no destructor runs for what was not constructed
    close_and_join();
    throw;
  }
}

PipeToMemory::~PipeToMemory() { close_and_join(); }

// After an error the rest is read all the same, so that the writer never waits.
void PipeToMemory::drain() {
  std::vector<char> buffer(1 << 20);
  while (true) {
    const ssize_t got = read(read_end_, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    if (out_of_memory_) continue;
    try {
      bytes_.append(buffer.data(), static_cast<size_t>(got));
    } catch (const std::bad_alloc&) { out_of_memory_ = true; }
  }
}

void PipeToMemory::close_and_join() {
  close_once(&write_end_);
  if (thread_.joinable()) thread_.join();
  close_once(&read_end_);
}

std::string PipeToMemory::finish() {
  close_and_join();
  if (out_of_memory_) throw Error(ExitCode::environment, "out-of-memory", "", "there is not enough memory for the linked library");
  return std::move(bytes_);
}

}  // namespace tcc::link
