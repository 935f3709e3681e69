#include "link/elf_object.h"

#include <elf.h>

#include <cstring>
#include <map>

#include "tcc/support/diagnostics.h"
#include "tcc/support/integer_math.h"

namespace tcc::link {
namespace {

std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text.data(), text.size())); }

template <class T> void append(std::string& to, const T& value) { to.append(reinterpret_cast<const char*>(&value), sizeof value); }

uint32_t add_name(std::string& table, std::string_view name) {
  const uint32_t offset = static_cast<uint32_t>(table.size());
  table.append(name).push_back('\0');
  return offset;
}

uint64_t size_of(const ElfObject::Section& section) {
  uint64_t size = section.reserved_bytes;
  for (const auto& piece : section.pieces) size += piece.size();
  return size;
}

/// The tables behind the contents of the sections: relocations, symbols, names, section headers.
class Tables {
 public:
  void add_contents(const ElfObject::Section& section, uint64_t offset) {
    Elf64_Shdr header = {};
    header.sh_name = add_name(section_names_, section.name);
    header.sh_type = section.reserved_bytes > 0 ? SHT_NOBITS : SHT_PROGBITS;
    header.sh_flags = section.flags;
    header.sh_offset = offset;
    header.sh_size = size_of(section);
    header.sh_addralign = section.alignment;
    add_symbol(section.symbol, STT_OBJECT, headers_.size(), header.sh_size);
    headers_.push_back(header);
  }

  /// Symbols of other objects that the relocations of `section` name.
  void add_undefined(const ElfObject::Section& section) {
    for (const ElfObject::Relocation& relocation : section.relocations) {
      if (!relocation.symbol.empty() && !symbol_index_.contains(relocation.symbol)) add_symbol(relocation.symbol, STT_NOTYPE, 0, 0);
    }
  }

  /// Everything, for a place at offset `begin` of the file, behind the contents of `sections`; the file header is written to `head`.
  std::string write(const std::vector<ElfObject::Section>& sections, uint64_t begin, std::string& head) {
    begin_ = begin;
    tail_.assign((8 - begin % 8) % 8, '\0');
    uint32_t num_relocated = 0;
    for (const ElfObject::Section& section : sections) num_relocated += !section.relocations.empty();
    const uint32_t symbols_section = static_cast<uint32_t>(headers_.size()) + num_relocated;
    for (uint32_t s = 0; s < sections.size(); s++) {
      if (sections[s].relocations.empty()) continue;
      add_table(".rela" + sections[s].name, SHT_RELA, relocations_of(sections[s]), symbols_section, s + 1, sizeof(Elf64_Rela));
    }
    std::string symbol_table;
    for (const Elf64_Sym& symbol : symbols_) append(symbol_table, symbol);
    add_table(".symtab", SHT_SYMTAB, symbol_table, symbols_section + 1, 1, sizeof(Elf64_Sym));
    add_table(".strtab", SHT_STRTAB, symbol_names_, 0, 0, 0);
    // Without this section the linker would take the stack to be executable.
    add_table(".note.GNU-stack", SHT_PROGBITS, "", 0, 0, 0);
    const uint32_t own_name = add_name(section_names_, ".shstrtab");
    add_named_table(own_name, SHT_STRTAB, section_names_, 0, 0, 0);
    align_tail();
    write_head(head);
    for (const Elf64_Shdr& header : headers_) append(tail_, header);
    return std::move(tail_);
  }

 private:
  void add_symbol(const std::string& name, unsigned char type, size_t section, uint64_t size) {
    Elf64_Sym symbol = {};
    symbol.st_name = add_name(symbol_names_, name);
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, type);
    symbol.st_other = STV_HIDDEN;
    symbol.st_shndx = static_cast<uint16_t>(section);
    symbol.st_size = size;
    symbol_index_[name] = static_cast<uint32_t>(symbols_.size());
    symbols_.push_back(symbol);
  }

  std::string relocations_of(const ElfObject::Section& section) {
    std::string entries;
    for (const ElfObject::Relocation& relocation : section.relocations) {
      if (relocation.symbol.empty()) continue;
      Elf64_Rela entry = {};
      entry.r_offset = relocation.offset;
      entry.r_info = ELF64_R_INFO(uint64_t{symbol_index_[relocation.symbol]}, R_X86_64_64);
      append(entries, entry);
    }
    return entries;
  }

  void align_tail() { tail_.resize(align_up(tail_.size() + begin_, uint64_t{8}) - begin_); }

  void add_table(const std::string& name, uint32_t type, const std::string& contents, uint32_t link, uint32_t info, uint64_t entry) {
    add_named_table(add_name(section_names_, name), type, contents, link, info, entry);
  }

  void add_named_table(uint32_t name, uint32_t type, const std::string& contents, uint32_t link, uint32_t info, uint64_t entry) {
    align_tail();
    Elf64_Shdr header = {};
    header.sh_name = name;
    header.sh_type = type;
    header.sh_flags = type == SHT_RELA ? SHF_INFO_LINK : 0;
    header.sh_offset = begin_ + tail_.size();
    header.sh_size = contents.size();
    header.sh_link = link;
    header.sh_info = info;
    header.sh_addralign = 8;
    header.sh_entsize = entry;
    tail_ += contents;
    headers_.push_back(header);
  }

  void write_head(std::string& head) const {
    Elf64_Ehdr file = {};
    std::memcpy(file.e_ident, ELFMAG, SELFMAG);
    file.e_ident[EI_CLASS] = ELFCLASS64;
    file.e_ident[EI_DATA] = ELFDATA2LSB;
    file.e_ident[EI_VERSION] = EV_CURRENT;
    file.e_type = ET_REL;
    file.e_machine = EM_X86_64;
    file.e_version = EV_CURRENT;
    file.e_shoff = begin_ + tail_.size();
    file.e_ehsize = sizeof file;
    file.e_shentsize = sizeof(Elf64_Shdr);
    file.e_shnum = static_cast<uint16_t>(headers_.size());
    file.e_shstrndx = static_cast<uint16_t>(headers_.size() - 1);
    head.clear();
    append(head, file);
  }

  std::string section_names_ = std::string(1, '\0'), symbol_names_ = std::string(1, '\0');
  std::vector<Elf64_Shdr> headers_ = std::vector<Elf64_Shdr>(1);
  std::vector<Elf64_Sym> symbols_ = std::vector<Elf64_Sym>(1);
  std::map<std::string, uint32_t> symbol_index_;
  uint64_t begin_ = 0;
  std::string tail_;
};

}  // namespace

// Layout: file header; the given sections, each aligned; then one relocation section for each that has relocations, the symbols, the
// two name tables and the section headers.
std::vector<std::span<const std::byte>> ElfObject::pieces() {
  Tables tables;
  uint64_t position = sizeof(Elf64_Ehdr);
  std::vector<std::span<const std::byte>> result(1);  // the file header, filled in at the end
  paddings_.clear();
  paddings_.reserve(sections_.size());
  for (const Section& section : sections_) {
    check(section.reserved_bytes == 0 || section.pieces.empty(), "a section has bytes and is room without bytes");
    const uint64_t aligned = align_up(position, section.alignment);
    result.push_back(as_bytes(paddings_.emplace_back(aligned - position, '\0')));
    tables.add_contents(section, aligned);
    result.insert(result.end(), section.pieces.begin(), section.pieces.end());
    position = aligned + (section.reserved_bytes > 0 ? 0 : size_of(section));
  }
  for (const Section& section : sections_) tables.add_undefined(section);
  tail_ = tables.write(sections_, position, head_);
  result[0] = as_bytes(head_);
  result.push_back(as_bytes(tail_));
  return result;
}

}  // namespace tcc::link
