// The file of a library, from what the linker made of all but the weights.
//
// For the linker the weights are room without bytes (SHT_NOBITS): otherwise it would hold two copies of them, its input and its output. Here they get
// their place, and what stands behind it moves; only offsets in the file change, all addresses are the linker's.
//
//   linked     headers                 | code, program, images, section headers
//   the file   headers, weights        | code, program, images, section headers | seal
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tcc::link {

class AssembledLibrary {
 public:
  /// `weights`: the bytes of the section .lrodata, which must live until the file is written; empty: it has none. The seal (program::LibrarySeal) at
  /// the end is the file's length and checksum, so that a file that was cut or changed is told from a whole one.
  AssembledLibrary(std::string linked, std::vector<std::span<const std::byte>> weights);

  /// The whole file, as pieces to write one after the other. Valid as long as this object.
  std::vector<std::span<const std::byte>> pieces() const;

 private:
  void insert(std::string linked, uint64_t size_bytes);
  void seal(uint64_t weights_bytes);
  std::string head_, tail_, seal_;  // before the weights, behind them, the end
  std::vector<std::span<const std::byte>> weights_;
};

}  // namespace tcc::link
