#include "link/pipe_to_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "tcc/support/diagnostics.h"
#include "tcc/support/parallel.h"

namespace tcc::link {
namespace {

[[noreturn]] void fail(const std::string& shown, int error) {
  throw Error(ExitCode::environment, "unwritable-file", shown, std::string("file can't be written: ") + strerror(error));
}

void close_once(int* fd) {
  if (*fd >= 0) close(std::exchange(*fd, -1));
}

}  // namespace

PipeToFile::PipeToFile(int file, std::string shown) : shown_(std::move(shown)), file_(file) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    const int error = errno;
    close_once(&file_);
    fail(shown_, error);
  }
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

PipeToFile::~PipeToFile() { close_and_join(); }

// After an error the rest is read all the same, so that the writer never waits.
void PipeToFile::drain() {
  std::vector<char> buffer(1 << 20);
  while (true) {
    const ssize_t got = read(read_end_, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    for (ssize_t at = 0; at < got && error_ == 0;) {
      const ssize_t written = write(file_, buffer.data() + at, static_cast<size_t>(got - at));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) error_ = errno;
      at += written;
    }
  }
}

void PipeToFile::close_and_join() {
  close_once(&write_end_);
  if (thread_.joinable()) thread_.join();
  close_once(&read_end_);
  // Some file systems report a full disk only here.
  if (file_ >= 0 && close(std::exchange(file_, -1)) != 0 && error_ == 0) error_ = errno;
}

void PipeToFile::finish() {
  close_and_join();
  if (error_ != 0) fail(shown_, error_);
}

}  // namespace tcc::link
