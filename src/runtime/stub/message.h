// The message of the last failure, one per thread.
//
// No C++ thread_local: its __tls_get_addr lives in the dynamic loader, which would be one more library that the linker has to name.
// A pthread key does, whose destructor is libc's own free(), so that a thread may end after the library is unloaded.
#pragma once

#include "tcc/runtime/runtime.h"

namespace tcc::stub {

/// Stores the formatted message and returns `status`, so that a failing function can say `return fail(...)`.
int fail(tcc_status status, const char* format, ...) __attribute__((format(printf, 2, 3)));
/// Never null.
const char* last_message();

/// "[2, 3]", cut to what fits.
struct ShapeText {
  char text[160];
  ShapeText(const int64_t* extents, int64_t rank);
};

}  // namespace tcc::stub
