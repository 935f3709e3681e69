// Mapped input and atomic output.
//
// What is written becomes visible by a rename, so a reader never sees half a file and a failure leaves the old one. A target that can't be
// renamed over without harm (a device such as /dev/null, a pipe) is written directly; a symbolic link keeps pointing where it did.

#include "tcc/support/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

/// The system's words for an error, in the lower case of our messages.
std::string describe(int error) {
  std::string text = std::strerror(error);
  // Not an abbreviation such as "RPC: ...".
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1]))) {
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  }
  return text;
}

[[noreturn]] void fail_reading(const std::string& path, const std::string& reason) {
  throw Error(ExitCode::environment, "unreadable-file", path, "file can't be read: " + reason);
}

[[noreturn]] void fail_writing(const std::string& path, const std::string& reason) {
  throw Error(ExitCode::environment, "unwritable-file", path, "file can't be written: " + reason);
}

/// A file descriptor that is closed at the end of the scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  /// 0 or the error: some file systems report a full disk only here.
  int close() {
    const int fd = fd_;
    fd_ = -1;
    return fd >= 0 && ::close(fd) != 0 ? errno : 0;
  }

 private:
  int fd_;
};

int open_retrying(const char* path, int flags, mode_t mode = 0) {
  int fd;
  do fd = ::open(path, flags | O_CLOEXEC, mode);
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
    if (got < 0) fail_reading(path, describe(errno));
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  return text;
}

using Pieces = std::span<const std::span<const std::byte>>;

/// 0 or the error.
int write_all(int fd, Pieces pieces) {
  for (std::span<const std::byte> bytes : pieces) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return errno;
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
  }
  return 0;
}

/// What stands at the place of an output.
struct Target {
  std::string path;         ///< symbolic links followed
  bool replaceable = true;  ///< nothing yet, or a regular file
};

Target find_target(const std::string& path) {
  if (path.empty()) fail_writing(path, "the path is empty");
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return {path, true};
  if (S_ISDIR(status.st_mode)) fail_writing(path, "is a directory");
  if (!S_ISREG(status.st_mode)) return {path, false};
  struct stat link;
  if (::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode)) {
    if (char* resolved = ::realpath(path.c_str(), nullptr)) {
      Target target{resolved, true};
      std::free(resolved);
      return target;
    }
  }
  return {path, true};
}

std::string temporary_for(const Target& target) {
  static std::atomic<unsigned> counter{0};
  // A short name of its own: the target's may already be as long as the file system allows.
  const std::string name = ".tcc-" + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".tmp";
  if (!target.replaceable) {
    const char* folder = std::getenv("TMPDIR");
    return std::string(folder != nullptr && *folder != 0 ? folder : "/tmp") + "/" + name;
  }
  const size_t slash = target.path.rfind('/');
  return slash == std::string::npos ? name : target.path.substr(0, slash + 1) + name;
}

void write_directly(const std::string& path, Pieces pieces) {
  Descriptor file(open_retrying(path.c_str(), O_WRONLY));
  if (file.get() < 0) fail_writing(path, describe(errno));
  if (const int error = write_all(file.get(), pieces)) fail_writing(path, describe(error));
  if (const int error = file.close()) fail_writing(path, describe(error));
}

void rename_or_remove(const std::string& temporary, const std::string& target, const std::string& shown) {
  if (::rename(temporary.c_str(), target.c_str()) == 0) return;
  const int error = errno;
  ::unlink(temporary.c_str());
  fail_writing(shown, describe(error));
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  Descriptor file(open_retrying(path.c_str(), O_RDONLY));
  if (file.get() < 0) fail_reading(path, describe(errno));
  struct stat status;
  if (::fstat(file.get(), &status) != 0) fail_reading(path, describe(errno));
  if (S_ISDIR(status.st_mode)) fail_reading(path, "is a directory");

  std::shared_ptr<MappedFile> result(new MappedFile);
  result->path_ = path;
  void* data = nullptr;
  size_t size = 0;
  if (S_ISREG(status.st_mode) && status.st_size > 0) {
    size = static_cast<size_t>(status.st_size);
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (data == MAP_FAILED) fail_reading(path, describe(errno));
  } else {
    // A pipe, a device, or a file whose size the system doesn't know (/proc): its contents in memory of our own.
    const std::string text = read_all(file.get(), path);
    if (text.empty()) return result;
    size = text.size();
    data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) fail_reading(path, describe(errno));
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
  Descriptor file(open_retrying(path.c_str(), O_RDONLY));
  if (file.get() < 0) fail_reading(path, describe(errno));
  return read_all(file.get(), path);
}

std::string read_stdin() { return read_all(STDIN_FILENO, "<stdin>"); }

void write_file_atomically(const std::string& path, std::span<const std::span<const std::byte>> pieces, unsigned mode) {
  const Target target = find_target(path);
  if (!target.replaceable) return write_directly(path, pieces);
  const std::string temporary = temporary_for(target);
  Descriptor file(open_retrying(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL, static_cast<mode_t>(mode)));
  if (file.get() < 0) fail_writing(path, describe(errno));
  int error = write_all(file.get(), pieces);
  if (const int close_error = file.close(); error == 0) error = close_error;
  if (error != 0) {
    ::unlink(temporary.c_str());
    fail_writing(path, describe(error));
  }
  rename_or_remove(temporary, target.path, path);
}

void write_file_atomically(const std::string& path, std::span<const std::byte> bytes, unsigned mode) {
  write_file_atomically(path, Pieces(&bytes, 1), mode);
}

void write_file_atomically(const std::string& path, std::string_view text, unsigned mode) {
  write_file_atomically(path, std::as_bytes(std::span(text.data(), text.size())), mode);
}

std::string temporary_name_beside(const std::string& path) { return temporary_for(find_target(path)); }

void commit_file(const std::string& temporary, const std::string& path) {
  try {
    const Target target = find_target(path);
    if (target.replaceable) return rename_or_remove(temporary, target.path, path);
    const auto contents = MappedFile::open(temporary);
    const std::span<const std::byte> bytes = contents->bytes();
    write_directly(path, Pieces(&bytes, 1));
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  ::unlink(temporary.c_str());
}

}  // namespace tcc
