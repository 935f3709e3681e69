// A path that the linker can write to, whose bytes end up in memory.
//
// By itself lld maps its output file and fills it in place, or leaves the process when a write fails. On a full disk the first ends in
// SIGBUS and the second in an exit without a word. A pipe has no disk, and it is no regular file, so lld neither maps nor renames it.
#pragma once

#include <string>
#include <thread>

namespace tcc::link {

class PipeToMemory {
 public:
  /// Error (environment) when the system gives no pipe or thread.
  PipeToMemory();
  ~PipeToMemory();
  PipeToMemory(const PipeToMemory&) = delete;
  PipeToMemory& operator=(const PipeToMemory&) = delete;

  /// For the linker. Opens in this process only.
  std::string path() const { return "/proc/self/fd/" + std::to_string(write_end_); }
  /// Waits until the writer has ended; returns what it wrote. Error (environment) when memory did not suffice.
  std::string finish();

 private:
  void close_and_join();
  void drain();
  int read_end_ = -1, write_end_ = -1;
  std::string bytes_;  // read after the thread has ended, like the next
  bool out_of_memory_ = false;
  std::thread thread_;
};

}  // namespace tcc::link
