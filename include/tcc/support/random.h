// Random numbers that depend on nothing but (key, counter, index): Philox4x32-10.
//
// Element i of a random tensor takes lane i mod 4 of the block at counter base + i / 4. So any element can be computed anywhere, in any
// order and tiling, on every target, with the same bits.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>

#include "tcc/support/tensor.h"

namespace tcc {

/// One block: four words from a 128-bit counter and a 64-bit key, least significant word first.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// A stream of random elements. The key is the seed; `stream` (the upper half of the counter) separates the tensors of one seed;
/// `base` (added to the lower half, modulo 2^64) is where the stream begins.
struct RandomStream {
  uint64_t seed = 0;
  uint64_t stream = 0;
  uint64_t base = 0;

  uint32_t bits(uint64_t i) const;  ///< element i: 32 random bits
  float uniform(uint64_t i) const;  ///< in [0, 1): the upper 24 bits times 2^-24
  /// Standard normal, by Box and Muller from the elements 2j and 2j+1 to the elements 2j (cosine) and 2j+1 (sine).
  float normal(uint64_t i) const;
  /// Uniform in [low, high); high > low, their difference at most 2^32.
  int64_t integer(uint64_t i, int64_t low, int64_t high) const;
};

// Tensors of a stream, element i at flat index i; converted to the dtype by the cast rule of tensor.h.
Tensor random_uniform(DType dtype, Shape shape, const RandomStream& stream, float low = 0,
                      float high = 1);  ///< low + (high - low) * u in f32; may round to high
Tensor random_normal(DType dtype, Shape shape, const RandomStream& stream, float mean = 0, float deviation = 1);
Tensor random_integers(DType dtype, Shape shape, const RandomStream& stream, int64_t low, int64_t high);

}  // namespace tcc
