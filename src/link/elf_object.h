// A relocatable x86-64 ELF object made of given bytes: how the program, images and weights reach the linker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::link {

class ElfObject {
 public:
  struct Relocation {
    uint64_t offset;     ///< of a pointer in the section
    std::string symbol;  ///< defined here or elsewhere; "" writes no relocation: the pointer stays null
  };
  struct Section {
    std::string name;
    uint64_t flags = 0;  ///< SHF_*
    uint64_t alignment = 1;
    std::string symbol;                              ///< global, hidden, at the section's start
    std::vector<std::span<const std::byte>> pieces;  ///< not copied: they must live until pieces() is consumed
    std::vector<Relocation> relocations;             ///< R_X86_64_64
    uint64_t reserved_bytes = 0;                     ///< instead of pieces: room that the file doesn't have (SHT_NOBITS)
  };

  void add(Section section) { sections_.push_back(std::move(section)); }

  /// The whole file, as pieces to write one after the other. Valid as long as this object.
  std::vector<std::span<const std::byte>> pieces();

 private:
  std::vector<Section> sections_;
  std::string head_, tail_;
  std::vector<std::string> paddings_;
};

}  // namespace tcc::link
