// What the linker puts beside the stub in a library: the program and all that it refers to. src/link writes this struct, named
// tcc_payload, with a relocation per pointer.
#pragma once

#include <cstdint>

namespace tcc::stub {

/// A CPU kernel: computes items [begin, end) of its grid. Any thread, any split.
using CpuFunction = void (*)(void* const* buffers, int64_t begin, int64_t end);

struct Payload {
  const char* program;           ///< program::Header and what follows
  const char* images;            ///< the blob that program::Image::offset counts from
  const char* weights;           ///< the blob that weights count from; null when it is a file of its own
  const CpuFunction* functions;  ///< [level][kernel] of the CPU target
};

}  // namespace tcc::stub

extern "C" __attribute__((visibility("hidden"))) const tcc::stub::Payload tcc_payload;
