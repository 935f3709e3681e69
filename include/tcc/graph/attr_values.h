// Attribute values compared and hashed by their bits, so that NaN equals itself and -0 is not 0.
#pragma once

#include <cstddef>

#include "tcc/graph/graph.h"

namespace tcc {

bool same_bits(const AttrValue& a, const AttrValue& b);
bool same_bits(const Attrs& a, const Attrs& b);
size_t hash_bits(const Attrs& attrs);
inline size_t combine_hashes(size_t seed, size_t value) {
  return (seed ^ (value + 0x9e3779b97f4a7c15ull + (seed << 6) + (seed >> 2))) * 0xff51afd7ed558ccdull;
}

}  // namespace tcc
