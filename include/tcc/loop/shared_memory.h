// Where the shared buffers of a CUDA kernel lie. The one place that knows, so that the launch size and the emitter agree.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "tcc/loop/loop.h"

namespace tcc::loop {

/// Byte offsets in the block's dynamic shared memory. Buffers get 128-byte alignment, 1024 when swizzled. A pipe's stages follow each other:
/// stage s of a pipe buffer is at offset + s * pipe_stage_bytes of its pipe. Buffers that are used one after the other may have one place.
struct SharedLayout {
  std::unordered_map<int, int64_t> buffer_offset;     ///< by Buffer::id
  std::unordered_map<int, int64_t> pipe_stage_bytes;  ///< by Pipe::id
  std::unordered_map<int, int64_t>
      pipe_barriers;          ///< by Pipe::id, of those with mbarriers: for each stage `full` and `empty`, 8 bytes each
  int64_t reduce_offset = 0;  ///< 32 slots of 8 bytes for each state of the widest reduce across threads
  int64_t total_bytes = 0;
};
SharedLayout shared_layout(const Block& body);

/// total_bytes of the layout: what a launch asks for.
int64_t shared_bytes(const Kernel& kernel);

}  // namespace tcc::loop
