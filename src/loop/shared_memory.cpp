#include "tcc/loop/shared_memory.h"

#include <algorithm>
#include <utility>

#include "tcc/loop/fields.h"
#include "tcc/loop/rewrite.h"
#include "tcc/support/integer_math.h"

namespace tcc::loop {
namespace {

int64_t buffer_bytes(const Buffer& buffer) {
  int64_t last = 0;
  std::vector<int64_t> strides = buffer.element_strides();
  for (size_t i = 0; i < strides.size(); ++i) last += strides[i] * (buffer.extents[i] - 1);
  return (last + 1) * size_bytes(buffer.dtype);
}

int64_t alignment(const Buffer& buffer) { return buffer.swizzle.bits ? 1024 : 128; }

/// One behind the other, in the order of the text.
struct Placer : NoFields {
  SharedLayout layout;
  int64_t offset = 0;
  size_t states = 0;  ///< of the widest reduce across the block

  void add(const Stmt& stmt) {
    fields_of(stmt, *this);
    if (dims_of(stmt) && loop::together(stmt).team == Team::block) states = std::max(states, defined_by(stmt).size());
  }
  void add(const Buffer& buffer) {
    offset = align_up(offset, alignment(buffer));
    layout.buffer_offset[buffer.id] = offset;
    offset += buffer_bytes(buffer);
  }

  void defines(const ScalarRef&) {}
  void defines(const BufferRef& buffer) {
    if (buffer->space == Space::shared) add(*buffer);
  }
  void defines(const PipeRef& pipe) {
    int64_t widest = 128;
    for (const BufferRef& buffer : pipe->buffers) widest = std::max(widest, alignment(*buffer));
    offset = align_up(offset, widest);
    const int64_t begin = offset;
    for (const BufferRef& buffer : pipe->buffers) add(*buffer);
    const int64_t stage = align_up(offset - begin, widest);
    layout.pipe_stage_bytes[pipe->id] = stage;
    offset = begin + stage * pipe->stages;
  }
};

}  // namespace

SharedLayout shared_layout(const Block& body) {
  Placer placer;
  walk(body, [&](const Stmt& stmt) { placer.add(stmt); });
  SharedLayout layout = std::move(placer.layout);
  layout.reduce_offset = align_up(placer.offset, int64_t{128});
  layout.total_bytes = placer.states ? layout.reduce_offset + static_cast<int64_t>(placer.states) * 32 * 8 : placer.offset;
  return layout;
}

int64_t shared_bytes(const Kernel& kernel) { return shared_layout(kernel.body).total_bytes; }

}  // namespace tcc::loop
