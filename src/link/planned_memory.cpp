// What an instance allocates on its device; the launcher (src/runtime/stub) allocates by the same rules.
#include "link/planned_memory.h"

#include <set>

#include "tcc/support/integer_math.h"

namespace tcc::link {
namespace {

uint64_t padded(uint64_t bytes) { return align_up(bytes, uint64_t{256}); }

uint64_t device_weights_bytes(const ProgramDesc& program, const WeightsLayout& weights, const TargetDesc& target) {
  std::set<uint64_t> counted;  // offsets: equal weights have one
  uint64_t bytes = 0;
  for (const FunctionCode& code : target.functions) {
    for (const BufferDesc& buffer : code.buffers) {
      if (buffer.kind != BufferKind::weight) continue;
      const TensorDesc& weight = program.weights[buffer.index];
      const uint64_t size = static_cast<uint64_t>(storage_bytes(weight.dtype, num_elements(weight.shape)));
      if (size > 0 && counted.insert(weights.offsets[buffer.index]).second) bytes += padded(size);
    }
  }
  return bytes;
}

}  // namespace

PlannedMemory planned_memory(const ProgramDesc& program, const WeightsLayout& weights, const TargetDesc& target, size_t function) {
  const FunctionCode& code = target.functions[function];
  PlannedMemory memory;
  memory.weights_bytes = device_weights_bytes(program, weights, target);
  memory.prepared_bytes = target.prepared_bytes;
  memory.state_bytes = program::state_block_bytes(static_cast<uint64_t>(program.state.state_bytes), program.scalars.size());
  for (const BufferDesc& buffer : code.buffers) {
    if (buffer.kind == BufferKind::state && buffer.index == 1) memory.gradient_bytes = static_cast<uint64_t>(program.state.gradient_bytes);
  }
  memory.arena_bytes = code.arena_bytes;
  return memory;
}

PlannedMemory planned_memory(const LinkInput& input, const TargetDesc& target, size_t function) {
  return planned_memory(input.program, lay_out_weights(input.weights), target, function);
}

}  // namespace tcc::link
