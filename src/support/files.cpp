// Mapped input. Only regular files are read: a pipe would make the program wait for ever, and reading some devices has effects.

#include "tcc/support/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "support/system_error.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/output_files.h"

namespace tcc {
namespace {

[[noreturn]] void fail_reading(const std::string& path, const std::string& reason) {
  throw Error(ExitCode::environment, "unreadable-file", path, "file can't be read: " + reason);
}

/// A file descriptor that is closed at the end of the scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

int open_retrying(const char* path, int flags) {
  int fd;
  do fd = ::open(path, flags | O_CLOEXEC);
  while (fd < 0 && errno == EINTR);
  return fd;
}

std::string read_all(int fd, const std::string& path) {
  std::string text;
  size_t size = 0;
  while (true) {
    if (text.size() - size < 65536) text.resize(std::max<size_t>(65536, text.size() * 2));
    const ssize_t got = ::read(fd, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_reading(path, describe_error(errno));
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  return text;
}

/// What a file that is none is called.
const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "is a directory";
  if (S_ISFIFO(mode)) return "is a pipe, a regular file was expected";
  if (S_ISSOCK(mode)) return "is a socket, a regular file was expected";
  return "is a device, a regular file was expected";
}

/// Asks before it opens, for opening a device may do something; and after, for the name may have come to mean something else.
int open_regular(const std::string& path, struct stat* status) {
  // The system would take it for the file of the name before that.
  if (const size_t nul = path.find('\0'); nul != std::string::npos) fail_reading(path.substr(0, nul), "its name goes on after a NUL");
  if (::stat(path.c_str(), status) != 0) fail_reading(path, describe_error(errno));
  if (!S_ISREG(status->st_mode)) fail_reading(path, kind_of(status->st_mode));
  const int fd = open_retrying(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) fail_reading(path, describe_error(errno));
  if (::fstat(fd, status) == 0 && S_ISREG(status->st_mode)) return fd;
  ::close(fd);
  fail_reading(path, kind_of(status->st_mode));
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  struct stat status;
  const Descriptor file(open_regular(path, &status));
  std::shared_ptr<MappedFile> result(new MappedFile);
  result->path_ = path;
  void* data = nullptr;
  size_t size = 0;
  if (status.st_size > 0) {
    size = static_cast<size_t>(status.st_size);
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (data == MAP_FAILED) fail_reading(path, describe_error(errno));
  } else {
    // Empty, or a file whose size the system doesn't know (/proc): its contents in memory of our own.
    const std::string text = read_all(file.get(), path);
    if (text.empty()) return result;
    size = text.size();
    data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) fail_reading(path, describe_error(errno));
    std::memcpy(data, text.data(), size);
  }
  result->data_ = static_cast<const std::byte*>(data);
  result->size_ = size;
  return result;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

std::string read_text_file(const std::string& path) {
  struct stat status;
  const Descriptor file(open_regular(path, &status));
  return read_all(file.get(), path);
}

std::string read_stdin() { return read_all(STDIN_FILENO, "<stdin>"); }

void write_file_atomically(const std::string& path, std::span<const std::span<const std::byte>> pieces, unsigned mode) {
  OutputFiles files;
  files.write(path, pieces, mode);
  files.commit();
}

void write_file_atomically(const std::string& path, std::span<const std::byte> bytes, unsigned mode) {
  write_file_atomically(path, std::span(&bytes, 1), mode);
}

void write_file_atomically(const std::string& path, std::string_view text, unsigned mode) {
  write_file_atomically(path, std::as_bytes(std::span(text.data(), text.size())), mode);
}

}  // namespace tcc
