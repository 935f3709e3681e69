#include "link/assemble_library.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tcc/runtime/checksum.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/integer_math.h"

namespace tcc::link {
namespace {

std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text.data(), text.size())); }

/// A table of an ELF file, whose rows are read and written in place.
template <class Row> class Table {
 public:
  Table(std::string& file, uint64_t offset, size_t count) : file_(file), offset_(offset), count_(count) {
    check(offset <= file.size() && count * sizeof(Row) <= file.size() - offset, "a table of the linked library ends behind the file");
  }
  size_t size() const { return count_; }
  Row get(size_t i) const {
    Row row;
    std::memcpy(&row, file_.data() + offset_ + i * sizeof row, sizeof row);
    return row;
  }
  void set(size_t i, const Row& row) { std::memcpy(file_.data() + offset_ + i * sizeof row, &row, sizeof row); }

 private:
  std::string& file_;
  uint64_t offset_;
  size_t count_;
};

size_t find_section(const std::string& file, const Table<Elf64_Shdr>& sections, size_t names, const char* name) {
  for (size_t i = 0; i < sections.size(); ++i) {
    if (std::strcmp(file.c_str() + sections.get(names).sh_offset + sections.get(i).sh_name, name) == 0) return i;
  }
  internal_error("the linked library has no section " + std::string(name));
}

/// The segment that ends with the section.
size_t find_segment(const Table<Elf64_Phdr>& segments, const Elf64_Shdr& section) {
  for (size_t i = 0; i < segments.size(); ++i) {
    const Elf64_Phdr segment = segments.get(i);
    if (segment.p_type != PT_LOAD || segment.p_vaddr > section.sh_addr) continue;
    if (segment.p_vaddr + segment.p_memsz == section.sh_addr + section.sh_size) return i;
  }
  internal_error("no segment of the linked library ends with the weights");
}

}  // namespace

AssembledLibrary::AssembledLibrary(std::string linked, std::vector<std::span<const std::byte>> weights) : weights_(std::move(weights)) {
  uint64_t size = 0;
  for (const auto& piece : weights_) size += piece.size();
  if (size > 0) insert(std::move(linked), size);
  else tail_ = std::move(linked);
  seal(size);
}

void AssembledLibrary::insert(std::string linked, uint64_t size_bytes) {
  Elf64_Ehdr header;
  check(linked.size() >= sizeof header, "the linked library is shorter than its header");
  std::memcpy(&header, linked.data(), sizeof header);
  Table<Elf64_Shdr> sections(linked, header.e_shoff, header.e_shnum);
  Table<Elf64_Phdr> segments(linked, header.e_phoff, header.e_phnum);
  const size_t number = find_section(linked, sections, header.e_shstrndx, ".lrodata");
  Elf64_Shdr section = sections.get(number);
  check(section.sh_type == SHT_NOBITS && section.sh_size == size_bytes, "the section of the weights is not the room that was asked for");
  const size_t number_of_segment = find_segment(segments, section);
  Elf64_Phdr segment = segments.get(number_of_segment);

  // The loader maps pages: an offset keeps its distance to the address, modulo the size of the largest page.
  const uint64_t cut = segment.p_offset + segment.p_filesz, begin = segment.p_offset + (section.sh_addr - segment.p_vaddr);
  uint64_t page = 1;
  for (size_t i = 0; i < segments.size(); ++i) page = segments.get(i).p_type == PT_LOAD ? std::max(page, segments.get(i).p_align) : page;
  const uint64_t distance = align_up(begin + size_bytes - cut, page);
  const auto moved = [&](uint64_t offset) { return offset >= cut ? offset + distance : offset; };

  for (size_t i = 0; i < segments.size(); ++i) {
    Elf64_Phdr row = segments.get(i);
    row.p_offset = moved(row.p_offset);
    segments.set(i, row);
  }
  segment.p_filesz = segment.p_memsz;
  segments.set(number_of_segment, segment);
  for (size_t i = 0; i < sections.size(); ++i) {
    Elf64_Shdr row = sections.get(i);
    row.sh_offset = moved(row.sh_offset);
    sections.set(i, row);
  }
  section.sh_type = SHT_PROGBITS;
  section.sh_offset = begin;
  sections.set(number, section);
  header.e_shoff = moved(header.e_shoff);
  std::memcpy(linked.data(), &header, sizeof header);

  head_ = linked.substr(0, cut);
  head_.resize(begin);
  tail_.assign(cut + distance - (begin + size_bytes), '\0');
  tail_.append(linked, cut);
}

void AssembledLibrary::seal(uint64_t weights_bytes) {
  program::LibrarySeal seal = {};
  std::memcpy(seal.magic, program::kSealMagic, sizeof seal.magic);
  seal.version = program::kSealVersion;
  seal.seal_bytes = sizeof seal;
  seal.file_bytes = head_.size() + weights_bytes + tail_.size();
  seal.weights_begin = head_.size();
  seal.weights_end = head_.size() + weights_bytes;
  seal.file_checksum = program::file_checksum(head_.data(), head_.size(), tail_.data(), tail_.size());
  seal.seal_checksum = program::seal_checksum(seal);
  seal_.assign(reinterpret_cast<const char*>(&seal), sizeof seal);
}

std::vector<std::span<const std::byte>> AssembledLibrary::pieces() const {
  std::vector<std::span<const std::byte>> pieces = {as_bytes(head_)};
  pieces.insert(pieces.end(), weights_.begin(), weights_.end());
  pieces.push_back(as_bytes(tail_));
  pieces.push_back(as_bytes(seal_));
  return pieces;
}

}  // namespace tcc::link
