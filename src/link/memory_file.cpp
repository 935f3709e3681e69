#include "link/memory_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "tcc/support/diagnostics.h"

namespace tcc::link {

MemoryFile::MemoryFile(std::string name, std::span<const std::span<const std::byte>> pieces) : name_(std::move(name)) {
  fd_ = memfd_create("tcc", MFD_CLOEXEC);
  if (fd_ < 0)
    throw Error(ExitCode::environment, "out-of-memory", "", std::string("the system gives no memory file for linking: ") + strerror(errno));
  try {
    for (const auto& piece : pieces) write(piece);
  } catch (...) {
    close(fd_);
    throw;
  }
}

MemoryFile::MemoryFile(std::string name, std::string_view contents)
    : MemoryFile(std::move(name), std::vector{std::as_bytes(std::span(contents.data(), contents.size()))}) {}

MemoryFile::MemoryFile(MemoryFile&& other) noexcept : name_(std::move(other.name_)), fd_(std::exchange(other.fd_, -1)) {}

MemoryFile::~MemoryFile() {
  if (fd_ >= 0) close(fd_);
}

void MemoryFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      throw Error(ExitCode::environment, "out-of-memory", "", "linking needs memory for `" + name_ + "`: " + strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

}  // namespace tcc::link
