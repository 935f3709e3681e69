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

inline int check_instance(const tcc_instance* instance) { return instance ? TCC_OK : fail(TCC_INVALID_ARGUMENT, "the instance is NULL"); }

}  // namespace tcc::stub
