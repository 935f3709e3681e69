// Zip archives whose entries, and whose numbers that say where things are, are changed at random.
#pragma once

#include <string>
#include <vector>

#include "fuzz/random.h"

namespace tcc::attack {

struct ZipEntry {
  std::string name, bytes;
  bool deflated = false;
};

/// The entries of a good archive.
std::vector<ZipEntry> read_zip(const std::string& path);

/// An archive of entries, those that aren't deflated aligned to 64 bytes as torch aligns them. One in `one_in` of the numbers of its headers and directory
/// (sizes, offsets, checksums, counts, flags) is another one; 0: none is.
std::string write_zip(Random& random, const std::vector<ZipEntry>& entries, size_t one_in);

/// Entries lost, repeated, renamed (also out of the archive, also to another's name), cut, swapped, deflated, and deflated ones that grow a thousandfold.
void mutate_entries(Random& random, std::vector<ZipEntry>& entries);

}  // namespace tcc::attack
