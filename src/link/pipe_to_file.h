// A path that the linker can write to, whose bytes end up in a file by plain writes.
//
// By itself lld maps its output file and fills it in place, or leaves the process when a write fails. On a full disk the first ends in
// SIGBUS and the second in an exit without a word. A pipe has no disk, and it is no regular file, so lld neither maps nor renames it.
#pragma once

#include <string>
#include <thread>

namespace tcc::link {

class PipeToFile {
 public:
  /// Takes the descriptor of an empty file. `shown` is the path that errors name. Error (environment) when the system gives no pipe or thread.
  PipeToFile(int file, std::string shown);
  ~PipeToFile();
  PipeToFile(const PipeToFile&) = delete;
  PipeToFile& operator=(const PipeToFile&) = delete;

  /// For the linker. Opens in this process only.
  std::string path() const { return "/proc/self/fd/" + std::to_string(write_end_); }
  /// Waits until all is written. Error (environment) when it could not be.
  void finish();

 private:
  void close_and_join();
  void drain();
  std::string shown_;
  int file_, read_end_ = -1, write_end_ = -1;
  int error_ = 0;  // of the first write that failed; read after the thread has ended
  std::thread thread_;
};

}  // namespace tcc::link
