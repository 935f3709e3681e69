// Memory between pages that can't be touched, for bytes that are aligned as their elements are and no more: what is read or written outside of them, or
// by an instruction that asks for more alignment, ends the test.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tcc/support/diagnostics.h"

namespace tcc {

class Guarded {
 public:
  enum class Place {
    after_start,  ///< one element behind the start of a page: at no multiple of more than the element
    before_end,   ///< the last byte is the last of a page
  };

  Guarded(size_t size_bytes, size_t element_bytes, Place place) {
    constexpr size_t kPage = 4096, kGuard = 16 * kPage;
    const size_t inside = (size_bytes + element_bytes + kPage - 1) / kPage * kPage;
    mapped_bytes_ = inside + 2 * kGuard;
    mapped_ = static_cast<std::byte*>(mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    check(mapped_ != MAP_FAILED && mprotect(mapped_ + kGuard, inside, PROT_READ | PROT_WRITE) == 0, "memory between guard pages");
    data_ = mapped_ + kGuard + (place == Place::after_start ? element_bytes : inside - size_bytes);
  }
  ~Guarded() { munmap(mapped_, mapped_bytes_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::byte* mapped_ = nullptr;
  std::byte* data_ = nullptr;
  size_t mapped_bytes_ = 0;
};

}  // namespace tcc
