#include "link/seal_library.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "tcc/runtime/checksum.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/files.h"

namespace tcc::link {
namespace {

struct Range {
  uint64_t begin = 0, end = 0;
};

// Where the weights are in the file: the linker puts them into a section of their own. Nothing where there is none, or where others are
// in it too, which then count as what is not weights.
Range find_weights(std::span<const std::byte> file, uint64_t weights_bytes) {
  Elf64_Ehdr header;
  check(file.size() >= sizeof header, "the linked library is shorter than its header");
  std::memcpy(&header, file.data(), sizeof header);
  const auto section = [&](size_t i) {
    Elf64_Shdr row;
    std::memcpy(&row, file.data() + header.e_shoff + i * sizeof row, sizeof row);
    return row;
  };
  const uint64_t names = section(header.e_shstrndx).sh_offset;
  for (size_t i = 0; i < header.e_shnum; i++) {
    const Elf64_Shdr row = section(i);
    const char* name = reinterpret_cast<const char*>(file.data() + names + row.sh_name);
    if (std::strcmp(name, ".lrodata") == 0 && row.sh_size == weights_bytes) return {row.sh_offset, row.sh_offset + row.sh_size};
  }
  return {};
}

}  // namespace

void seal_library(const std::string& path, const std::string& shown, uint64_t weights_bytes) {
  program::LibrarySeal seal = {};
  {
    const auto file = MappedFile::open(path);
    const Range weights = find_weights(file->bytes(), weights_bytes);
    std::memcpy(seal.magic, program::kSealMagic, sizeof seal.magic);
    seal.version = program::kSealVersion;
    seal.seal_bytes = sizeof seal;
    seal.file_bytes = file->bytes().size();
    seal.weights_begin = weights.begin;
    seal.weights_end = weights.end;
    seal.file_checksum = program::file_checksum(file->bytes().data(), seal);
    seal.seal_checksum = program::seal_checksum(seal);
  }
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  int error = fd < 0 ? errno : 0;
  for (size_t at = 0; error == 0 && at < sizeof seal;) {
    const ssize_t got = write(fd, reinterpret_cast<const char*>(&seal) + at, sizeof seal - at);
    if (got >= 0) at += static_cast<size_t>(got);
    else if (errno != EINTR) error = errno;
  }
  if (fd >= 0 && close(fd) != 0 && error == 0) error = errno;
  if (error != 0) throw Error(ExitCode::environment, "unwritable-file", shown, std::string("file can't be written: ") + strerror(error));
}

}  // namespace tcc::link
