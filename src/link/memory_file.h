// A file without a name on any disk, for what is given to the linker, which only takes paths.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace tcc::link {

class MemoryFile {
 public:
  /// `name` is for messages. Error (environment) when the system has no memory for it.
  MemoryFile(std::string name, std::span<const std::span<const std::byte>> pieces);
  MemoryFile(std::string name, std::string_view contents);
  MemoryFile(MemoryFile&& other) noexcept;
  MemoryFile& operator=(MemoryFile&&) = delete;
  ~MemoryFile();

  const std::string& name() const { return name_; }
  /// Opens in this process only.
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  void write(std::span<const std::byte> bytes);
  std::string name_;
  int fd_ = -1;
};

}  // namespace tcc::link
