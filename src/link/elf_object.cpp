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

}  // namespace

// Layout: file header; the given sections, each aligned; then one relocation section for each that has relocations, the symbols, the
// two name tables and the section headers.
std::vector<std::span<const std::byte>> ElfObject::pieces() {
  std::string section_names(1, '\0'), symbol_names(1, '\0');
  std::vector<Elf64_Shdr> headers(1);
  std::vector<Elf64_Sym> symbols(1);
  std::map<std::string, uint32_t> symbol_index;
  uint64_t position = sizeof(Elf64_Ehdr);
  std::vector<std::span<const std::byte>> result(1);  // the file header, filled in at the end
  paddings_.clear();
  paddings_.reserve(sections_.size());

  for (const Section& section : sections_) {
    check(section.reserved_bytes == 0 || section.pieces.empty(), "a section has bytes and is room without bytes");
    const uint64_t aligned = align_up(position, section.alignment);
    result.push_back(as_bytes(paddings_.emplace_back(aligned - position, '\0')));
    Elf64_Shdr header = {};
    header.sh_name = add_name(section_names, section.name);
    header.sh_type = section.reserved_bytes > 0 ? SHT_NOBITS : SHT_PROGBITS;
    header.sh_flags = section.flags;
    header.sh_offset = aligned;
    header.sh_size = size_of(section);
    header.sh_addralign = section.alignment;
    Elf64_Sym symbol = {};
    symbol.st_name = add_name(symbol_names, section.symbol);
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
    symbol.st_other = STV_HIDDEN;
    symbol.st_shndx = static_cast<uint16_t>(headers.size());
    symbol.st_size = header.sh_size;
    symbol_index[section.symbol] = static_cast<uint32_t>(symbols.size());
    symbols.push_back(symbol);
    headers.push_back(header);
    result.insert(result.end(), section.pieces.begin(), section.pieces.end());
    position = aligned + (header.sh_type == SHT_NOBITS ? 0 : header.sh_size);
  }
  for (const Section& section : sections_) {
    for (const Relocation& relocation : section.relocations) {
      if (relocation.symbol.empty() || symbol_index.contains(relocation.symbol)) continue;
      Elf64_Sym symbol = {};
      symbol.st_name = add_name(symbol_names, relocation.symbol);
      symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE);
      symbol.st_other = STV_HIDDEN;
      symbol_index[relocation.symbol] = static_cast<uint32_t>(symbols.size());
      symbols.push_back(symbol);
    }
  }

  tail_.clear();
  tail_.resize((8 - position % 8) % 8);
  const auto add_section = [&](uint32_t name, uint32_t type, const std::string& contents, uint32_t link, uint32_t info, uint64_t entry) {
    tail_.resize(align_up(tail_.size() + position, uint64_t{8}) - position);
    Elf64_Shdr header = {};
    header.sh_name = name;
    header.sh_type = type;
    header.sh_flags = type == SHT_RELA ? SHF_INFO_LINK : 0;
    header.sh_offset = position + tail_.size();
    header.sh_size = contents.size();
    header.sh_link = link;
    header.sh_info = info;
    header.sh_addralign = 8;
    header.sh_entsize = entry;
    tail_ += contents;
    headers.push_back(header);
  };
  uint32_t num_relocated = 0;
  for (const Section& section : sections_) num_relocated += !section.relocations.empty();
  const uint32_t symbols_section = static_cast<uint32_t>(headers.size()) + num_relocated;
  for (uint32_t s = 0; s < sections_.size(); s++) {
    if (sections_[s].relocations.empty()) continue;
    std::string entries;
    for (const Relocation& relocation : sections_[s].relocations) {
      if (relocation.symbol.empty()) continue;
      Elf64_Rela entry = {};
      entry.r_offset = relocation.offset;
      entry.r_info = ELF64_R_INFO(uint64_t{symbol_index[relocation.symbol]}, R_X86_64_64);
      append(entries, entry);
    }
    add_section(add_name(section_names, ".rela" + sections_[s].name), SHT_RELA, entries, symbols_section, s + 1, sizeof(Elf64_Rela));
  }
  std::string symbol_table;
  for (const Elf64_Sym& symbol : symbols) append(symbol_table, symbol);
  add_section(add_name(section_names, ".symtab"), SHT_SYMTAB, symbol_table, symbols_section + 1, 1, sizeof(Elf64_Sym));
  add_section(add_name(section_names, ".strtab"), SHT_STRTAB, symbol_names, 0, 0, 0);
  // Without this section the linker would take the stack to be executable.
  add_section(add_name(section_names, ".note.GNU-stack"), SHT_PROGBITS, "", 0, 0, 0);
  const uint32_t own_name = add_name(section_names, ".shstrtab");
  add_section(own_name, SHT_STRTAB, section_names, 0, 0, 0);
  tail_.resize(align_up(tail_.size() + position, uint64_t{8}) - position);

  Elf64_Ehdr file = {};
  std::memcpy(file.e_ident, ELFMAG, SELFMAG);
  file.e_ident[EI_CLASS] = ELFCLASS64;
  file.e_ident[EI_DATA] = ELFDATA2LSB;
  file.e_ident[EI_VERSION] = EV_CURRENT;
  file.e_type = ET_REL;
  file.e_machine = EM_X86_64;
  file.e_version = EV_CURRENT;
  file.e_shoff = position + tail_.size();
  file.e_ehsize = sizeof file;
  file.e_shentsize = sizeof(Elf64_Shdr);
  file.e_shnum = static_cast<uint16_t>(headers.size());
  file.e_shstrndx = static_cast<uint16_t>(headers.size() - 1);
  head_.clear();
  append(head_, file);
  for (const Elf64_Shdr& header : headers) append(tail_, header);
  result[0] = as_bytes(head_);
  result.push_back(as_bytes(tail_));
  return result;
}

}  // namespace tcc::link
