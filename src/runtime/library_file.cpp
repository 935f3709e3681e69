#include "runtime/library_file.h"

#include <elf.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "tcc/runtime/checksum.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/files.h"

namespace tcc::runtime {
namespace {

using Bytes = std::span<const std::byte>;

struct LibraryFile {
  const std::string& path;
  Bytes bytes;

  [[noreturn]] void fail(const std::string& message, const std::string& help = "compile the model again") const {
    throw Error(ExitCode::environment, "unusable-library", path, message, help);
  }

  Elf64_Ehdr elf_header() const {
    const char* help = "this verb takes the .so that `tcc -o` wrote";
    if (bytes.empty()) fail("is empty, expected a library made by tcc", help);
    const bool is_elf = bytes.size() >= SELFMAG && std::memcmp(bytes.data(), ELFMAG, SELFMAG) == 0;
    if (!is_elf && path.ends_with(".onnx")) fail("is a model, expected a library", "compile it first: `tcc " + path + " -o model.so`");
    if (!is_elf) fail("is not a shared library", help);
    Elf64_Ehdr header = {};
    std::memcpy(&header, bytes.data(), std::min(bytes.size(), sizeof header));
    if (bytes.size() < sizeof header) fail_truncated(sizeof header);
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64 || header.e_type != ET_DYN)
      fail("is an ELF file, but no shared library for x86-64", help);
    return header;
  }

  [[noreturn]] void fail_truncated(uint64_t expected) const {
    fail("is truncated: it has " + std::to_string(bytes.size()) + " bytes of " + std::to_string(expected),
         "copy it again, or compile the model again");
  }

  // The end of what the headers say is there: the loader maps it without asking, and touches it.
  uint64_t end_of(const Elf64_Ehdr& header) const {
    const auto plus = [](uint64_t a, uint64_t b) { return a + b < a ? ~uint64_t{0} : a + b; };
    uint64_t end = sizeof header;
    if (header.e_shnum > 0) end = std::max(end, plus(header.e_shoff, uint64_t{header.e_shnum} * header.e_shentsize));
    const uint64_t segments = plus(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr));
    end = std::max(end, segments);
    if (header.e_phentsize != sizeof(Elf64_Phdr) || segments > bytes.size()) return end;
    for (size_t i = 0; i < header.e_phnum; i++) {
      Elf64_Phdr segment;
      std::memcpy(&segment, bytes.data() + header.e_phoff + i * sizeof segment, sizeof segment);
      if (segment.p_type == PT_LOAD) end = std::max(end, plus(segment.p_offset, segment.p_filesz));
    }
    return end;
  }

  // False when there is none.
  bool read_seal(program::LibrarySeal* seal) const {
    if (bytes.size() < sizeof *seal) return false;
    std::memcpy(seal, bytes.data() + bytes.size() - sizeof *seal, sizeof *seal);
    return std::memcmp(seal->magic, program::kSealMagic, sizeof seal->magic) == 0;
  }

  bool is_whole(const program::LibrarySeal& seal) const {
    return seal.seal_checksum == program::seal_checksum(seal) && seal.file_bytes == bytes.size() - sizeof seal &&
           seal.weights_begin <= seal.weights_end && seal.weights_end <= seal.file_bytes &&
           seal.file_checksum == program::file_checksum(bytes.data(), seal);
  }
};

}  // namespace

void check_library_file(const std::string& path, bool must_be_sealed) {
  struct stat status;
  const auto unusable = [&](const std::string& message) { throw Error(ExitCode::environment, "unusable-library", path, message); };
  if (stat(path.c_str(), &status) != 0) unusable(std::string("cannot be opened: ") + strerror(errno));
  if (S_ISDIR(status.st_mode)) unusable("is a directory, expected a library made by tcc");
  if (!S_ISREG(status.st_mode)) unusable("is not a regular file, expected a library made by tcc");
  const auto mapped = MappedFile::open(path);
  const LibraryFile file{path, mapped->bytes()};
  const Elf64_Ehdr header = file.elf_header();
  program::LibrarySeal seal;
  if (file.read_seal(&seal)) {
    if (seal.version != program::kSealVersion || seal.seal_bytes != sizeof seal)
      file.fail("was made by another version of tcc, or is damaged");
    if (!file.is_whole(seal)) file.fail("is damaged: its checksum is not the one that tcc wrote at its end");
    return;
  }
  if (const uint64_t end = file.end_of(header); end > file.bytes.size()) file.fail_truncated(end);
  if (must_be_sealed)
    file.fail("can't be checked: it does not end with the checksum that tcc wrote",
              "it was cut, or rewritten by a tool such as strip or patchelf");
}

}  // namespace tcc::runtime
