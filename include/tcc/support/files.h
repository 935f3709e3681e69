// Reading and writing files: mapped input, and output that appears whole or not at all.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tcc {

/// A regular file mapped read-only. Errors (missing, unreadable, a directory, pipe, device or socket): tcc::Error with ExitCode::environment,
/// naming the path.
class MappedFile {
 public:
  static std::shared_ptr<const MappedFile> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::string& path() const { return path_; }

 private:
  MappedFile() = default;
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// Reads all of a regular file; errors as above.
std::string read_text_file(const std::string& path);
/// Reads all of standard input, whatever it is.
std::string read_stdin();

/// Writes a temporary file beside `path`, then renames it; on any failure (full disk, no permission, a directory in its place)
/// removes the temporary and throws tcc::Error with ExitCode::environment. `mode` is the final permission, less the umask.
/// A symbolic link at `path` is followed; a device or pipe there is written directly. Several files together: output_files.h.
void write_file_atomically(const std::string& path, std::span<const std::byte> bytes, unsigned mode = 0666);
void write_file_atomically(const std::string& path, std::string_view text, unsigned mode = 0666);
/// The same for contents that lie in several places, one after the other.
void write_file_atomically(const std::string& path, std::span<const std::span<const std::byte>> pieces, unsigned mode = 0666);

}  // namespace tcc
