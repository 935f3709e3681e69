// What all threads of a block do together: barriers, copies, pipes, mma on register tiles.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "loop/machine.h"
#include "tcc/support/diagnostics.h"

namespace tcc::loop {
namespace {

/// f32 with the 10-bit mantissa of tf32, ties away from zero as cvt.rna does.
float to_tf32(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if ((bits & 0x7f800000u) == 0x7f800000u) return value;
  bits = (bits + 0x1000u) & ~0x1fffu;
  std::memcpy(&value, &bits, 4);
  return value;
}

}  // namespace

const TilePlaces& Machine::places(const Buffer& buffer) {
  const auto key = std::pair(buffer.tile.get(), team_first_);
  const auto found = places_.find(key);
  if (found != places_.end()) return found->second;
  const TileLayout& layout = *buffer.tile;
  const int rank = static_cast<int>(buffer.extents.size());
  const int64_t lanes = count_of(layout, TileDigit::Level::lane), warps = count_of(layout, TileDigit::Level::warp);
  if (lanes > 32 || warps * 32 > static_cast<int64_t>(team_width_)) {
    fail("the layout of %" + buffer.name + " spreads over " + std::to_string(lanes) + " lanes of " + std::to_string(warps) + " warps");
  }
  TilePlaces result;
  result.registers = registers_of(layout);
  result.coordinates.resize(width_);
  result.registers_at.resize(width_);
  for (int t = team_first_; t < team_first_ + static_cast<int>(team_width_); ++t) {
    const int warp = (t - team_first_) / 32;
    if (warp >= warps || t % 32 >= lanes) continue;
    for (int64_t r = 0; r < result.registers; ++r) {
      const auto coordinates = coordinates_of(layout, rank, r, t % 32, warp);
      int64_t flat = 0;
      for (int axis = 0; axis < rank; ++axis) {
        const int64_t extent = buffer.extents[static_cast<size_t>(axis)], c = coordinates[static_cast<size_t>(axis)];
        if (c >= extent)
          fail("the layout of %" + buffer.name + " reaches coordinate " + std::to_string(c) + " of an axis of " + std::to_string(extent));
        flat = flat * extent + c;
      }
      result.registers_at[static_cast<size_t>(t)].emplace(flat, r);
      result.coordinates[static_cast<size_t>(t)].push_back(coordinates);
    }
  }
  return places_.emplace(key, std::move(result)).first->second;
}

void Machine::execute(const Barrier&, const Threads& active) {
  collective(active, "a barrier");
  ++epoch_;
}

std::vector<Move> Machine::moves_of(const Copy& copy, int thread) {
  std::vector<Move> moves;
  const auto visit = [&](const auto& self, size_t at) -> void {
    if (at < copy.box.size()) {
      for (int64_t i = 0; i < copy.box[at]->extent; ++i) {
        var(copy.box[at].get(), thread) = i;
        self(self, at + 1);
      }
      return;
    }
    Move move;
    for (const Index& index : copy.from) move.from.push_back(evaluate(index, thread));
    for (const Index& index : copy.to) move.to.push_back(evaluate(index, thread));
    move.zero = (copy.where && evaluate(copy.where, thread).i == 0) || offset(*copy.source, move.from.data(), 0) < 0;
    if (copy.value && !move.zero) move.value = evaluate(copy.value, thread);
    moves.push_back(std::move(move));
  };
  visit(visit, 0);
  return moves;
}

void Machine::move(const Copy& copy, const std::vector<Move>& moves, Memory& source, Memory& destination) {
  const Buffer& a = *copy.source;
  const Buffer& b = *copy.destination;
  const int who = options_.threads > 1 ? kEveryone : 0;
  for (const Move& move : moves) {
    ScalarValue value = is_float(b.dtype) ? ScalarValue::of_float(0) : ScalarValue::of_int(0);
    if (!move.zero && copy.value) {
      value = move.value;
    } else if (!move.zero) {
      const int64_t at = offset(a, move.from.data(), 0);
      if (!source.defined.empty() && !source.defined[static_cast<size_t>(at)])
        fail(element(a, move.from.data()) + " is copied but was never written");
      note_read(copy.source, source, at, who);
      value = cast_scalar(get(source, at, a.dtype), a.dtype, b.dtype);
    }
    const int64_t at = offset(b, move.to.data(), 0);
    if (at < 0) fail("copy to the outside of " + element(b, move.to.data()) + ", extents " + tcc::to_string(b.extents));
    set(destination, at, b.dtype, value);
    note_write(copy.destination, destination, at, who, false);
  }
}

void Machine::execute(const Copy& copy, const Threads& active) {
  collective(active, "a copy");
  ++tick_;
  Ring* ring = homes_[slot(*copy.destination)].ring;
  const bool async = copy.kind != Copy::Kind::plain;
  if (async && !ring) fail("an asynchronous copy goes to a buffer of a pipe");
  require_landed(*copy.destination, true);
  std::vector<Move> moves = moves_of(copy, active[0]);
  if (async && options_.copies_land_late) {
    memory(copy.destination, 0, true);  // checks that a stage is acquired
    ring->producer().pending.push_back({&copy, std::move(moves)});
    return;
  }
  move(copy, moves, memory(copy.source, 0, false), memory(copy.destination, 0, true));
}

void Machine::execute(const PipeDecl& decl, const Threads& active) {
  collective(active, "a pipe");
  Ring ring;
  ring.pipe = decl.pipe;
  ring.stages.resize(static_cast<size_t>(decl.pipe->stages));
  rings_[decl.pipe.get()] = std::move(ring);
  for (size_t i = 0; i < decl.pipe->buffers.size(); ++i) {
    Home& home = homes_[slot(*decl.pipe->buffers[i])];
    home.ring = &rings_[decl.pipe.get()];
    home.index = i;
  }
}

void Machine::acquire(Ring& ring) {
  Ring::Stage& stage = ring.producer();
  const std::string name = "%" + ring.pipe->name;
  if (stage.state == Ring::State::filling) fail("a stage of " + name + " is acquired twice");
  until([&] { return stage.state == Ring::State::free; },
        "a stage of " + name + " is acquired before it was released: the producer would wait for ever");
  if (ring.pipe->kind == Pipe::Kind::group && options_.threads > 1 && stage.released_epoch == epoch_) {
    fail("a stage of " + name + " is filled again before a wait or barrier after its release: a slower warp may still read it");
  }
  stage.state = Ring::State::filling;
  stage.buffers.clear();
  for (const BufferRef& buffer : ring.pipe->buffers) { stage.buffers.push_back(make_memory(*buffer, buffer->span(), options_.lockstep)); }
}

void Machine::wait(Ring& ring) {
  Ring::Stage& stage = ring.at(ring.waited);
  const std::string name = "%" + ring.pipe->name;
  if (ring.pipe->kind == Pipe::Kind::group && ring.waited > ring.released)
    fail("a stage of " + name + " is waited for twice without a release");
  until([&] { return stage.state == Ring::State::committed; },
        "a wait for a stage of " + name + " that is not committed: it would not end");
  for (const Ring::Stage::Pending& late : stage.pending)
    move(*late.copy, late.moves, memory(late.copy->source, 0, false), stage.buffers[homes_[slot(*late.copy->destination)].index]);
  stage.pending.clear();
  stage.state = Ring::State::ready;
  ++ring.waited;
  if (ring.pipe->kind == Pipe::Kind::group) {
    ++epoch_;  // it synchronises the block
    return;
  }
  for (Memory& buffer : stage.buffers) buffer.accesses.assign(buffer.accesses.size(), {});  // what is in the stage is there for all
}

void Machine::release(Ring& ring) {
  const std::string name = "%" + ring.pipe->name;
  if (ring.waited == ring.released) fail("a stage of " + name + " is released without a wait");
  Ring::Stage& stage = ring.at(ring.released);
  for (const Flight& flight : flights_) {
    if (std::find(flight.stages.begin(), flight.stages.end(), &stage) != flight.stages.end())
      fail("a stage of " + name + " is released while an asynchronous mma may still read it");
  }
  stage.state = Ring::State::free;
  stage.released_epoch = epoch_;
  ++ring.released;
  ++progress_;
}

void Machine::execute(const PipeOp& op, const Threads& active) {
  const auto found = rings_.find(op.pipe.get());
  if (found == rings_.end()) fail("%" + op.pipe->name + " is used before it is declared");
  Ring& ring = found->second;
  collective(active, "a pipe operation");
  switch (op.kind) {
    case PipeOp::Kind::acquire: return acquire(ring);
    case PipeOp::Kind::commit:
      if (ring.producer().state != Ring::State::filling) fail("a stage of %" + ring.pipe->name + " is committed without an acquire");
      ring.producer().state = Ring::State::committed;
      ++ring.produced;
      ++progress_;
      return;
    case PipeOp::Kind::wait: return wait(ring);
    case PipeOp::Kind::release: return release(ring);
  }
}

void Machine::require_landed(const Buffer& buffer, bool write) const {
  for (const Flight& flight : flights_) {
    if (flight.accumulator == &buffer)
      fail("%" + buffer.name + " is " + (write ? "written" : "read") + " while an asynchronous mma may still add to it");
    if (write && std::find(flight.operands.begin(), flight.operands.end(), &buffer) != flight.operands.end())
      fail("%" + buffer.name + " is written while an asynchronous mma may still read it");
  }
}

void Machine::take_off(const Mma& mma) {
  Flight flight{team_first_, mma.accumulator.get(), {}, {}};
  for (const BufferRef& operand : {mma.a, mma.b}) {
    if (Ring* ring = homes_[slot(*operand)].ring) flight.stages.push_back(&ring->newest());
    else flight.operands.push_back(operand.get());
  }
  flights_.push_back(std::move(flight));
}

void Machine::execute(const MmaWait& wait, const Threads& active) {
  collective(active, "a wait for mma");
  const auto is_own = [&](const Flight& flight) { return flight.team == team_first_; };
  auto landed = std::count_if(flights_.begin(), flights_.end(), is_own) - wait.pending;
  std::erase_if(flights_, [&](const Flight& flight) { return is_own(flight) && landed-- > 0; });
  for (const BufferRef& accumulator : wait.accumulators) require_landed(*accumulator, false);
}

Memory Machine::gathered(const BufferRef& tile, const Threads& active) {
  if (!options_.lockstep) return memory(tile, 0, false);
  Memory result = make_memory(*tile, tile->count(), true);
  const TilePlaces& held = places(*tile);
  for (int t : active) {
    Memory& own = memory(tile, t, false);
    for (const auto& [flat, reg] : held.registers_at[static_cast<size_t>(t)]) {
      if (!own.defined.empty() && !own.defined[static_cast<size_t>(reg)]) continue;
      set(result, flat, tile->dtype, get(own, reg, tile->dtype));
    }
  }
  return result;
}

void Machine::execute(const Mma& mma, const Threads& active) {
  collective(active, "an mma");
  const Buffer& d = *mma.accumulator;
  const int who = options_.threads > 1 ? kEveryone : 0;
  const bool tf32 = mma.a->dtype == DType::f32;
  std::vector<int64_t> a_from, b_from;
  for (const Index& index : mma.a_from) a_from.push_back(evaluate(index, active[0]));
  for (const Index& index : mma.b_from) b_from.push_back(evaluate(index, active[0]));
  if (!mma.async) require_landed(d, true);
  Memory whole;
  if (mma.a->tile) {
    require_landed(*mma.a, false);
    whole = gathered(mma.a, active);
  }
  Memory& a_memory = mma.a->tile ? whole : memory(mma.a, 0, false);
  Memory& b_memory = memory(mma.b, 0, false);
  // Both operands as dense numbers, row by row of k; doubles hold those of all dtypes.
  auto operand = [&](const BufferRef& buffer, Memory& from, std::vector<int64_t> base, int64_t rows, bool k_first) {
    std::vector<double> values;
    const size_t row_axis = base.size() - (k_first ? 1 : 2), k_axis = base.size() - (k_first ? 2 : 1);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = 0; k < mma.k; ++k) {
        std::vector<int64_t> at = base;
        at[row_axis] += r;
        at[k_axis] += k;
        const int64_t place = buffer->tile ? at[0] * buffer->extents[1] + at[1] : offset(*buffer, at.data(), 0);
        if (place < 0) fail("mma reads outside of " + element(*buffer, at.data()));
        if (!from.defined.empty() && !from.defined[static_cast<size_t>(place)])
          fail(element(*buffer, at.data()) + " is read but was never written");
        if (!buffer->tile) note_read(buffer, from, place, who);
        const ScalarValue value = get(from, place, buffer->dtype);
        if (!is_float(buffer->dtype)) values.push_back(static_cast<double>(value.i));
        else values.push_back(tf32 ? to_tf32(static_cast<float>(value.f)) : value.f);
      }
    }
    return values;
  };
  const std::vector<double> a = operand(mma.a, a_memory, a_from, mma.m, mma.transpose_a);
  const std::vector<double> b = operand(mma.b, b_memory, b_from, mma.n, mma.transpose_b);
  auto update = [&](Memory& held, int64_t at, int64_t m, int64_t n) {
    const int64_t place[] = {m, n};
    if (mma.zero_first) set(held, at, d.dtype, is_float(d.dtype) ? ScalarValue::of_float(0) : ScalarValue::of_int(0));
    if (!held.defined[static_cast<size_t>(at)]) fail(element(d, place) + " is read but was never written");
    const double* x = a.data() + m * mma.k;
    const double* y = b.data() + n * mma.k;
    const ScalarValue old = get(held, at, d.dtype);
    if (is_float(d.dtype)) {
      float sum = static_cast<float>(old.f);
      for (int64_t k = 0; k < mma.k; ++k) sum += static_cast<float>(x[k]) * static_cast<float>(y[k]);
      set(held, at, d.dtype, ScalarValue::of_float(static_cast<double>(sum)));
    } else {
      auto sum = static_cast<uint32_t>(old.i);  // it wraps
      for (int64_t k = 0; k < mma.k; ++k) sum += static_cast<uint32_t>(static_cast<int32_t>(x[k] * y[k]));
      set(held, at, d.dtype, ScalarValue::of_int(static_cast<int32_t>(sum)));
    }
  };
  if (!options_.lockstep || !d.tile) {
    for (int64_t m = 0; m < mma.m; ++m) {
      for (int64_t n = 0; n < mma.n; ++n) {
        const int64_t place[] = {m, n};
        update(memory(mma.accumulator, 0, true), offset(d, place, 0), m, n);
      }
    }
    if (mma.async) take_off(mma);
    return;
  }
  const TilePlaces& held = places(d);
  for (int t : active) {
    const auto& coordinates = held.coordinates[static_cast<size_t>(t)];
    for (size_t r = 0; r < coordinates.size(); ++r) {
      update(memory(mma.accumulator, t, true), static_cast<int64_t>(r), coordinates[r][0], coordinates[r][1]);
    }
  }
  if (mma.async) take_off(mma);
}

}  // namespace tcc::loop
