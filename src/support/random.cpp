// Philox4x32-10 and the distributions made from it.

#include "tcc/support/random.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "tcc/support/diagnostics.h"
#include "tcc/support/parallel.h"

namespace tcc {
namespace {

constexpr int64_t kGrain = 16384;

/// Tensor whose element i is f(i). `set` is Tensor::set_double or set_int64.
template <class F, class Set> Tensor generate(DType dtype, Shape shape, F f, Set set) {
  Tensor result(dtype, std::move(shape));
  // In pairs, so that two threads never write the halves of one byte of i4 or u4.
  const int64_t pairs = (result.count() + 1) / 2;
  parallel_for(pairs, kGrain, [&](int64_t begin, int64_t end) {
    const int64_t last = std::min(end * 2, result.count());
    for (int64_t i = begin * 2; i < last; ++i) (result.*set)(i, f(static_cast<uint64_t>(i)));
  });
  return result;
}

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xd2511f53} * counter[0];
    const uint64_t product1 = uint64_t{0xcd9e8d57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += 0x9e3779b9;  // the golden ratio
    key[1] += 0xbb67ae85;  // the square root of 3, less 1
  }
  return counter;
}

uint32_t RandomStream::bits(uint64_t i) const {
  const uint64_t position = base + i / 4;
  return philox4x32({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), static_cast<uint32_t>(stream),
                     static_cast<uint32_t>(stream >> 32)},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)})[i % 4];
}

float RandomStream::uniform(uint64_t i) const { return static_cast<float>(bits(i) >> 8) * 0x1p-24f; }

float RandomStream::normal(uint64_t i) const {
  // In (0, 1], so that the logarithm is finite.
  const double u = (static_cast<double>(bits(i & ~uint64_t{1}) >> 8) + 1) * 0x1p-24;
  const double angle = 2 * std::numbers::pi * (static_cast<double>(bits(i | 1) >> 8) * 0x1p-24);
  const double radius = std::sqrt(-2 * std::log(u));
  return static_cast<float>(radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle)));
}

int64_t RandomStream::integer(uint64_t i, int64_t low, int64_t high) const {
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  check(high > low && range <= uint64_t{1} << 32, "a random integer's range is empty or wider than 2^32");
  return static_cast<int64_t>(static_cast<uint64_t>(low) + (bits(i) * range >> 32));
}

Tensor random_uniform(DType dtype, Shape shape, const RandomStream& stream, float low, float high) {
  return generate(dtype, std::move(shape), [&](uint64_t i) { return low + (high - low) * stream.uniform(i); }, &Tensor::set_double);
}

Tensor random_normal(DType dtype, Shape shape, const RandomStream& stream, float mean, float deviation) {
  return generate(dtype, std::move(shape), [&](uint64_t i) { return mean + deviation * stream.normal(i); }, &Tensor::set_double);
}

Tensor random_integers(DType dtype, Shape shape, const RandomStream& stream, int64_t low, int64_t high) {
  return generate(dtype, std::move(shape), [&](uint64_t i) { return stream.integer(i, low, high); }, &Tensor::set_int64);
}

}  // namespace tcc
