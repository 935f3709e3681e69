// Memory of the machine and what it notices: bounds, reads of undefined elements, races.
//
// A race is two accesses of one element of a shared buffer by different threads, one of them a write, with no barrier between (both carry the same epoch).
// Threads that write the same value in the same statement don't race. Written global buffers are checked between blocks, which nothing orders.
#include <utility>

#include "loop/machine.h"
#include "tcc/support/diagnostics.h"

namespace tcc::loop {

std::string Machine::element(const Buffer& buffer, const int64_t* indices) {
  std::string text;
  for (size_t i = 0; i < buffer.extents.size(); ++i) text += (i ? ", " : "") + std::to_string(indices[i]);
  return "%" + buffer.name + "[" + text + "]";
}

Memory Machine::make_memory(const Buffer& buffer, int64_t elements, bool checked) const {
  Memory result;
  result.data = Tensor(buffer.dtype, {elements});
  result.defined.resize(static_cast<size_t>(elements), 0);
  if (checked) result.accesses.resize(static_cast<size_t>(elements));
  return result;
}

void Machine::execute(const Alloc& alloc, const Threads& active) {
  const Buffer& buffer = *alloc.buffer;
  std::vector<Memory>& memories = homes_[slot(buffer)].memories;
  memories.clear();
  if (buffer.space == Space::shared && options_.lockstep) collective(active, "an alloc of shared memory");
  const bool private_to_threads = options_.lockstep && buffer.space != Space::shared && buffer.space != Space::global;
  const bool tiled = options_.lockstep && buffer.tile != nullptr;
  const int64_t elements = tiled ? places(buffer).registers : buffer.span();
  for (int t = 0; t < (private_to_threads ? options_.threads : 1); ++t) {
    memories.push_back(make_memory(buffer, elements, options_.lockstep && buffer.space == Space::shared));
  }
}

Memory& Machine::memory(const BufferRef& buffer, int thread, bool write) {
  Home& home = homes_[slot(*buffer)];
  if (home.ring) {
    Ring& ring = *home.ring;
    if (write && ring.producer().state != Ring::State::filling)
      fail("%" + buffer->name + " is written without an acquired stage of %" + ring.pipe->name);
    if (!write && ring.waited == ring.released) fail("%" + buffer->name + " is read without a wait for a stage of %" + ring.pipe->name);
    return (write ? ring.producer() : ring.newest()).buffers[home.index];
  }
  if (home.memories.empty()) fail("%" + buffer->name + " is used before its alloc");
  return home.memories.size() == 1 ? home.memories[0] : home.memories[static_cast<size_t>(thread)];
}

int64_t Machine::offset(const Buffer& buffer, const int64_t* indices, int thread) {
  for (size_t i = 0; i < buffer.extents.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= buffer.extents[i]) return -1;
  }
  if (options_.lockstep && buffer.tile) {
    int64_t flat = 0;
    for (size_t i = 0; i < buffer.extents.size(); ++i) flat = flat * buffer.extents[i] + indices[i];
    const auto& held = places(buffer).registers_at[static_cast<size_t>(thread)];
    const auto at = held.find(flat);
    if (at == held.end()) fail("thread " + std::to_string(thread) + " does not hold " + element(buffer, indices));
    return at->second;
  }
  if (buffer.strides.empty()) {
    int64_t flat = 0;
    for (size_t i = 0; i < buffer.extents.size(); ++i) flat = flat * buffer.extents[i] + indices[i];
    return flat;
  }
  int64_t result = 0;
  for (size_t i = 0; i < buffer.extents.size(); ++i) result += indices[i] * buffer.strides[i];
  return result;
}

ScalarValue Machine::get(const Memory& memory, int64_t at, DType dtype) const {
  return is_float(dtype) ? ScalarValue::of_float(memory.data.as_double(at)) : ScalarValue::of_int(memory.data.as_int64(at));
}

void Machine::set(Memory& memory, int64_t at, DType dtype, ScalarValue value) {
  if (is_float(dtype)) memory.data.set_double(at, value.f);
  else memory.data.set_int64(at, value.i);
  if (!memory.defined.empty()) memory.defined[static_cast<size_t>(at)] = 1;
}

void Machine::note_read(const BufferRef& buffer, Memory& memory, int64_t at, int thread) {
  if (memory.accesses.empty()) return;
  Memory::Access& access = memory.accesses[static_cast<size_t>(at)];
  auto name = [&] { return "%" + buffer->name + " at offset " + std::to_string(at); };
  if (buffer->space == Space::global) {
    if (access.block >= 0 && access.block != block_)
      fail("block " + std::to_string(block_) + " reads " + name() + ", which block " + std::to_string(access.block) + " wrote");
  }
  if (access.write_epoch == epoch_ && (access.writer != thread || thread == kEveryone) && options_.threads > 1) {
    fail("race: " + name() + " is read by another thread than wrote it, without a barrier between");
  }
  if (in_exchange_ && thread >= 0) {
    const int warp = thread / 32;
    access.exchange_warp = access.exchange_epoch == epoch_ && access.exchange_warp != warp ? -1 : warp;
    access.exchange = exchanges_[static_cast<size_t>(warp)];
    access.exchange_epoch = epoch_;
    return;
  }
  access.reader = access.read_epoch == epoch_ && access.reader != thread ? kEveryone : thread;
  access.read_epoch = epoch_;
}

void Machine::note_write(const BufferRef& buffer, Memory& memory, int64_t at, int thread, bool same_value) {
  if (memory.accesses.empty()) return;
  Memory::Access& access = memory.accesses[static_cast<size_t>(at)];
  auto name = [&] { return "%" + buffer->name + " at offset " + std::to_string(at); };
  if (buffer->space == Space::global) {
    if (access.block >= 0 && access.block != block_ && !same_value)
      fail("blocks " + std::to_string(access.block) + " and " + std::to_string(block_) + " both write " + name());
    access.block = block_;
  }
  if (options_.threads > 1) {
    const bool together = access.write_tick == tick_ && same_value;
    if (access.write_epoch == epoch_ && access.writer != thread && !together)
      fail("race: " + name() + " is written by two threads without a barrier between");
    const bool exchanged = access.exchange_epoch != epoch_ || (thread >= 0 && access.exchange_warp == thread / 32 &&
                                                               access.exchange < exchanges_[static_cast<size_t>(thread / 32)]);
    if ((access.read_epoch == epoch_ && access.reader != thread) || !exchanged)
      fail("race: " + name() + " is written while another thread may still read it");
  }
  access.write_epoch = epoch_;
  access.write_tick = tick_;
  access.writer = thread;
}

ScalarValue Machine::read(const BufferRef& buffer, const int64_t* indices, int thread) {
  require_landed(*buffer, false);
  const int64_t at = offset(*buffer, indices, thread);
  Memory& from = memory(buffer, thread, false);
  if (!from.defined.empty() && !from.defined[static_cast<size_t>(at)]) {
    fail(element(*buffer, indices) + " is read but was never written" +
         (options_.threads > 1 ? " by thread " + std::to_string(thread) : ""));
  }
  note_read(buffer, from, at, thread);
  return get(from, at, buffer->dtype);
}

void Machine::write(const BufferRef& buffer, const int64_t* indices, ScalarValue value, int thread) {
  require_landed(*buffer, true);
  const int64_t at = offset(*buffer, indices, thread);
  Memory& to = memory(buffer, thread, true);
  if (to.accesses.empty()) {
    set(to, at, buffer->dtype, value);
    return;
  }
  const ScalarValue before = get(to, at, buffer->dtype);
  set(to, at, buffer->dtype, value);
  note_write(buffer, to, at, thread, before.i == get(to, at, buffer->dtype).i);  // the bits, so that a NaN equals itself
}

}  // namespace tcc::loop
