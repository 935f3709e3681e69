// The random numbers of one case: the same for the same seed, kind and number, whatever ran before.
#pragma once

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace tcc::attack {

class Random {
 public:
  Random(uint64_t seed, uint64_t kind, uint64_t number) {
    std::seed_seq sequence{static_cast<uint32_t>(seed), static_cast<uint32_t>(kind), static_cast<uint32_t>(number)};
    engine_.seed(sequence);
  }
  /// Below `end`, which is above 0.
  size_t below(size_t end) { return engine_() % end; }
  bool chance(size_t one_in) { return below(one_in) == 0; }
  uint64_t bits() { return engine_(); }
  template <class T> const T& pick(const std::vector<T>& list) { return list[below(list.size())]; }

  /// Numbers at which arithmetic goes wrong.
  int64_t hostile_number() {
    static const std::vector<int64_t> numbers = {0,
                                                 1,
                                                 -1,
                                                 2,
                                                 3,
                                                 7,
                                                 8,
                                                 16,
                                                 17,
                                                 31,
                                                 64,
                                                 127,
                                                 255,
                                                 1000,
                                                 65535,
                                                 -2,
                                                 -128,
                                                 (int64_t{1} << 31) - 1,
                                                 int64_t{1} << 31,
                                                 -(int64_t{1} << 31),
                                                 int64_t{1} << 32,
                                                 (int64_t{1} << 32) + 1,
                                                 int64_t{1} << 40,
                                                 int64_t{1} << 46,
                                                 (int64_t{1} << 46) + 1,
                                                 int64_t{1} << 62,
                                                 std::numeric_limits<int64_t>::max(),
                                                 std::numeric_limits<int64_t>::max() - 1,
                                                 std::numeric_limits<int64_t>::min()};
    return chance(4) ? static_cast<int64_t>(below(100)) : pick(numbers);
  }

 private:
  std::mt19937_64 engine_;
};

/// Flips, overwrites, inserts, drops and repeats bytes, a few times.
inline std::string mutate_bytes(Random& random, std::string bytes) {
  const size_t times = 1 + random.below(4);
  for (size_t i = 0; i < times && !bytes.empty(); ++i) {
    const size_t at = random.below(bytes.size()), length = std::min(bytes.size() - at, 1 + random.below(16));
    switch (random.below(6)) {
      case 0: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8))); break;
      case 1: bytes[at] = static_cast<char>(random.bits()); break;
      case 2: bytes.insert(at, std::string(length, static_cast<char>(random.bits()))); break;
      case 3: bytes.erase(at, length); break;
      case 4: bytes.insert(at, bytes.substr(random.below(bytes.size()), length)); break;
      default:
        if (random.chance(4)) bytes.resize(at);
        break;
    }
  }
  return bytes;
}

}  // namespace tcc::attack
