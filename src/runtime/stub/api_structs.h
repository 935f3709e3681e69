// How structs of the C interface go in and out.
//
// Callers compiled against an older header hand over a shorter struct; the fields that they do not know are zero. The library never
// writes past the size it was given.
#pragma once

#include <stdint.h>
#include <string.h>

#include "runtime/stub/instance.h"
#include "runtime/stub/message.h"

namespace tcc::stub {

template <class T> int read_struct(const T* given, T* full, const char* name) {
  memset(static_cast<void*>(full), 0, sizeof *full);
  if (!given) return TCC_OK;
  uint32_t size = given->struct_size;
  if (size < sizeof size) return fail(TCC_INVALID_ARGUMENT, "%s: struct_size is %u, expected %zu", name, size, sizeof *full);
  if (size > sizeof *full) {
    for (uint32_t i = sizeof *full; i < size; i++) {
      if (reinterpret_cast<const unsigned char*>(given)[i] != 0) {
        return fail(TCC_INVALID_ARGUMENT, "%s: a field is set that this library is too old to know (struct_size is %u, known %zu)", name,
                    size, sizeof *full);
      }
    }
    size = sizeof *full;
  }
  memcpy(static_cast<void*>(full), given, size);
  return TCC_OK;
}

template <class T> int write_struct(T* given, T full, const char* name) {
  if (!given) return fail(TCC_INVALID_ARGUMENT, "%s is NULL", name);
  const uint32_t size = given->struct_size;
  if (size < sizeof size) return fail(TCC_INVALID_ARGUMENT, "%s: struct_size is %u, expected %zu", name, size, sizeof full);
  full.struct_size = size;
  memcpy(given, &full, size < sizeof full ? size : sizeof full);
  return TCC_OK;
}

/// Reserved fields are zero, so that a later version can give them a meaning.
template <size_t n> int check_reserved(const uint64_t (&reserved)[n], const char* name) {
  for (size_t i = 0; i < n; i++) {
    if (reserved[i] != 0)
      return fail(TCC_INVALID_ARGUMENT, "%s: reserved[%zu] is %#llx, expected 0: set the whole struct to zero before its fields", name, i,
                  static_cast<unsigned long long>(reserved[i]));
  }
  return TCC_OK;
}

/// Reads the instance; one that was destroyed is told as long as its memory was not given to others.
inline int check_instance(const tcc_instance* instance) {
  if (!instance) return fail(TCC_INVALID_ARGUMENT, "the instance is NULL");
  if (instance->alive.load(std::memory_order_relaxed) != tcc_instance::kAlive)
    return fail(TCC_INVALID_ARGUMENT, "the instance has been destroyed, or create() never made it");
  return TCC_OK;
}

/// Holds the instance for a call that runs it or touches its state. A second thread is refused at once: what it would read is being written,
/// and it would wait for launches that the first one took.
class InUse {
 public:
  explicit InUse(tcc_instance* instance) {
    status_ = check_instance(instance);
    if (status_ != TCC_OK) return;
    if (instance->in_use.exchange(true, std::memory_order_acquire)) {
      status_ = fail(TCC_INVALID_ARGUMENT, "the instance is in use by another thread: one at a time, or an instance for each");
      return;
    }
    instance_ = instance;
  }
  ~InUse() {
    if (instance_) instance_->in_use.store(false, std::memory_order_release);
  }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;
  int status() const { return status_; }

 private:
  tcc_instance* instance_ = nullptr;
  int status_ = TCC_OK;
};

}  // namespace tcc::stub
