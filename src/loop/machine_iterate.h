// Machine::iterate: the one place that knows what a bind does to a loop.
#pragma once

#include "loop/machine.h"

namespace tcc::loop {

template <class F> void Machine::iterate(const std::vector<Dim>& dims, size_t at, const BufferRef& tile, const Threads& active, F leaf) {
  if (active.empty()) return;
  if (at == dims.size()) {
    leaf(active);
    return;
  }
  const Dim& dim = dims[at];
  const Var* v = dim.var.get();
  const auto digit = options_.lockstep ? digits_.find(v) : digits_.end();
  if (digit != digits_.end()) {
    Threads threads;
    for (int t : active) {
      int64_t value = number(dim.bind, t);
      if (digit->second.radix != 0) value %= digit->second.radix;
      value /= digit->second.stride;
      if (value >= v->extent) continue;
      var(v, t) = value;
      threads.push_back(t);
    }
    iterate(dims, at + 1, tile, threads, leaf);
    return;
  }
  if (options_.lockstep && dim.bind == Bind::tile) {
    if (!tile) fail("a loop over a register tile names no tile");
    const TilePlaces& held = places(*tile);
    if (dims.size() - at != tile->extents.size()) fail("a loop over %" + tile->name + " needs a dim for each of its axes");
    for (int64_t r = 0; r < held.registers; ++r) {
      Threads threads;
      for (int t : active) {
        if (held.coordinates[static_cast<size_t>(t)].empty()) continue;
        for (size_t d = at; d < dims.size(); ++d)
          var(dims[d].var.get(), t) = held.coordinates[static_cast<size_t>(t)][static_cast<size_t>(r)][d - at];
        threads.push_back(t);
      }
      if (!threads.empty()) leaf(threads);
    }
    return;
  }
  const bool stands_for_threads = digits_.count(v) != 0 && dim.bind != Bind::block && dim.bind != Bind::parallel && v->extent > 1;
  bound_depth_ += stands_for_threads;
  for (int64_t i = 0; i < v->extent; ++i) {
    for (int t : active) var(v, t) = i;
    iterate(dims, at + 1, tile, active, leaf);
  }
  bound_depth_ -= stands_for_threads;
}

}  // namespace tcc::loop
