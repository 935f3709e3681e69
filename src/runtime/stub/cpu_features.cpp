#include "runtime/stub/cpu_features.h"

#include <cpuid.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tcc::stub {
namespace {

struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);  // leaves all zero for a leaf that is not there
  return r;
}

// Which register states the operating system saves: bit 2 the upper halves of ymm, 5 to 7 those of AVX-512.
uint64_t saved_states() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

bool all(uint32_t value, uint32_t bits) { return (value & bits) == bits; }

// Not strtol: newer headers turn it into another symbol, which older C libraries lack.
int64_t read_number(const char** at) {
  while (**at == ' ') ++*at;
  int64_t number = 0;
  for (; **at >= '0' && **at <= '9'; ++*at) number = number * 10 + (**at - '0');
  return number;
}

// Containers: `cpu.max` holds "<quota> <period>" in microseconds, or "max <period>".
int quota_cpus() {
  int fd = open("/sys/fs/cgroup/cpu.max", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[64];
  const ssize_t size = read(fd, text, sizeof text - 1);
  close(fd);
  if (size <= 0) return 0;
  text[size] = '\0';
  const char* at = text;
  const int64_t quota = read_number(&at);
  const int64_t period = read_number(&at);
  return quota > 0 && period > 0 ? static_cast<int>((quota + period - 1) / period) : 0;
}

}  // namespace

// The feature lists are those of the x86-64 psABI.
program::CpuLevel cpu_level() {
  using program::CpuLevel;
  const Registers one = cpuid(1), extended = cpuid(0x80000001), seven = cpuid(7);
  const uint32_t v2 = bit_SSE3 | bit_SSSE3 | bit_CMPXCHG16B | bit_SSE4_1 | bit_SSE4_2 | bit_POPCNT;
  if (!all(one.ecx, v2) || !all(extended.ecx, bit_LAHF_LM)) return CpuLevel::v1;
  if (!all(one.ecx, bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C | bit_MOVBE) || !all(extended.ecx, bit_ABM) ||
      !all(seven.ebx, bit_AVX2 | bit_BMI | bit_BMI2) || (saved_states() & 0x6) != 0x6) {
    return CpuLevel::v2;
  }
  const uint32_t v4 = bit_AVX512F | bit_AVX512DQ | bit_AVX512CD | bit_AVX512BW | bit_AVX512VL;
  if (!all(seven.ebx, v4) || (saved_states() & 0xe6) != 0xe6) return CpuLevel::v3;
  return CpuLevel::v4;
}

int usable_cpus() {
  unsigned long mask[1024 / (8 * sizeof(unsigned long))] = {};
  const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
  int count = 0;
  for (long i = 0; i < bytes / static_cast<long>(sizeof mask[0]); i++) {
    for (unsigned long bits = mask[i]; bits; bits &= bits - 1) count++;
  }
  const int quota = quota_cpus();
  if (quota > 0 && quota < count) count = quota;
  return count > 0 ? count : 1;
}

}  // namespace tcc::stub
