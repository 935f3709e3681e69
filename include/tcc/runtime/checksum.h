// The checksum of all that a library holds: program, images, weights, the file as a whole. Written by the compiler (src/link), compared by
// the launcher stub and by `tcc run`; so it is plain inline code without the C++ library.
//
// Each step is a bijection of the state for a given word, and of the word for a given state: bytes that differ in one word of eight,
// however many bits of it, never have the same checksum; other damage does with a chance of 2^-64. It tells accidents, not forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tcc/runtime/program.h"

namespace tcc::program {

inline constexpr uint64_t kChecksumStart = 0x243f6a8885a308d3u;

inline uint64_t mix_checksum(uint64_t sum, uint64_t word) {
  sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
  return sum ^ (sum >> 29);
}

/// `start` is the checksum of what stands in front, where the bytes lie in several places.
inline uint64_t checksum(const void* data, uint64_t size, uint64_t start = kChecksumStart) {
  const char* at = static_cast<const char*>(data);
  // Four sums side by side, as each waits for its own product alone: weights are hundreds of megabytes.
  uint64_t sums[4] = {mix_checksum(start, size), start + 1, start + 2, start + 3};
  uint64_t left = size;
  for (; left >= 32; at += 32, left -= 32) {
    uint64_t words[4];
    memcpy(words, at, 32);
    for (int i = 0; i < 4; i++) sums[i] = mix_checksum(sums[i], words[i]);
  }
  uint64_t sum = sums[0];
  for (int i = 1; i < 4; i++) sum = mix_checksum(sum, sums[i]);
  for (; left > 0; at += 8) {
    const uint64_t bytes = left < 8 ? left : 8;
    uint64_t word = 0;
    memcpy(&word, at, bytes);
    sum = mix_checksum(sum, word);
    left -= bytes;
  }
  return sum;
}

inline uint64_t header_checksum(const Header& header) {
  constexpr uint64_t begin = offsetof(Header, program_bytes);
  return checksum(reinterpret_cast<const char*>(&header) + begin, sizeof header - begin);
}

/// The hash of a blob of weights: of each piece, in order, its checksum and its place.
inline uint64_t add_weight(uint64_t hash, uint64_t piece_checksum, uint64_t offset) {
  return mix_checksum(mix_checksum(hash, piece_checksum), offset);
}

inline uint64_t seal_checksum(const LibrarySeal& seal) { return checksum(&seal, offsetof(LibrarySeal, seal_checksum)); }

/// Of a library's file: of what stands in front of its weights and of what stands behind them.
inline uint64_t file_checksum(const void* head, uint64_t head_bytes, const void* tail, uint64_t tail_bytes) {
  return checksum(tail, tail_bytes, checksum(head, head_bytes));
}
/// `seal` says where its weights are, which must lie within `file_bytes`.
inline uint64_t file_checksum(const void* file, const LibrarySeal& seal) {
  const char* bytes = static_cast<const char*>(file);
  return file_checksum(bytes, seal.weights_begin, bytes + seal.weights_end, seal.file_bytes - seal.weights_end);
}

}  // namespace tcc::program
