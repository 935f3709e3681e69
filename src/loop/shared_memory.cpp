#include "tcc/loop/shared_memory.h"

#include <algorithm>

namespace tcc::loop {
namespace {

int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

int64_t buffer_bytes(const Buffer& buffer) {
  int64_t last = 0;
  std::vector<int64_t> strides = buffer.element_strides();
  for (size_t i = 0; i < strides.size(); ++i) last += strides[i] * (buffer.extents[i] - 1);
  return (last + 1) * size_bytes(buffer.dtype);
}

int64_t alignment(const Buffer& buffer) { return buffer.swizzle.bits ? 1024 : 128; }

bool crosses_threads(const Reduce& reduce) {
  return std::any_of(reduce.dims.begin(), reduce.dims.end(), [](const Dim& dim) { return dim.bind == Bind::thread; });
}

}  // namespace

SharedLayout shared_layout(const Block& body) {
  SharedLayout layout;
  int64_t offset = 0;
  size_t states = 0;
  walk(body, [&](const Stmt& stmt) {
    if (const auto* alloc = std::get_if<Alloc>(&stmt.node); alloc && alloc->buffer->space == Space::shared) {
      offset = round_up(offset, alignment(*alloc->buffer));
      layout.buffer_offset[alloc->buffer->id] = offset;
      offset += buffer_bytes(*alloc->buffer);
    } else if (const auto* decl = std::get_if<PipeDecl>(&stmt.node)) {
      const Pipe& pipe = *decl->pipe;
      int64_t widest = 128;
      for (const BufferRef& buffer : pipe.buffers) widest = std::max(widest, alignment(*buffer));
      offset = round_up(offset, widest);
      int64_t begin = offset;
      for (const BufferRef& buffer : pipe.buffers) {
        offset = round_up(offset, alignment(*buffer));
        layout.buffer_offset[buffer->id] = offset;
        offset += buffer_bytes(*buffer);
      }
      int64_t stage = round_up(offset - begin, widest);
      layout.pipe_stage_bytes[pipe.id] = stage;
      offset = begin + stage * pipe.stages;
    } else if (const auto* reduce = std::get_if<Reduce>(&stmt.node); reduce && crosses_threads(*reduce)) {
      states = std::max(states, reduce->states.size());
    }
  });
  layout.reduce_offset = round_up(offset, 128);
  layout.total_bytes = states ? layout.reduce_offset + static_cast<int64_t>(states) * 32 * 8 : offset;
  return layout;
}

int64_t shared_bytes(const Kernel& kernel) { return shared_layout(kernel.body).total_bytes; }

}  // namespace tcc::loop
