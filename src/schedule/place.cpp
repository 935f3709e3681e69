// What a schedule leaves open has one answer: a loop that nothing binds is serial, a local buffer belongs to its thread. At the top level of a unit a
// local buffer passes between nests, so it is global.
#include "schedule/apply.h"

#include <functional>
#include <unordered_map>
#include <utility>

#include "tcc/loop/edit.h"

namespace tcc::schedule {

namespace {

/// Buffers up to this size are spread over registers (or a stack that the compiler promotes); larger ones are a thread's scratch memory on the host.
constexpr int64_t kStackBytes = 16 << 10;

}  // namespace

loop::Unit place(loop::Unit unit, const Target& target) {
  using namespace tcc::loop;
  for_each_block(unit.body, [](Block& block) {
    for (Stmt& stmt : block) {
      if (std::vector<tcc::loop::Dim>* dims = dims_of(stmt)) {
        for (tcc::loop::Dim& dim : *dims) {
          if (dim.bind == Bind::none) dim.bind = Bind::serial;
        }
      }
    }
  });

  std::unordered_map<const Buffer*, BufferRef> placed;
  const auto place_allocs = [&](Block& block, bool top) {
    for (Stmt& stmt : block) {
      auto* alloc = std::get_if<Alloc>(&stmt.node);
      if (!alloc || alloc->buffer->space != Space::local) continue;
      Buffer prototype = *alloc->buffer;
      const int64_t bytes = prototype.count() * size_bytes(prototype.dtype);
      prototype.space = top ? Space::global : target.is_cpu() && bytes > kStackBytes ? Space::scratch : Space::registers;
      BufferRef buffer = make_buffer(std::move(prototype));
      placed[alloc->buffer.get()] = buffer;
      alloc->buffer = std::move(buffer);
    }
  };
  place_allocs(unit.body, true);
  for (Stmt& stmt : unit.body) {
    for (Block* inner : blocks_of(stmt)) for_each_block(*inner, [&](Block& block) { place_allocs(block, false); });
  }
  if (placed.empty()) return unit;
  Substitution substitution;
  substitution.var = [](const VarRef&) { return std::optional<Index>(); };
  substitution.scalar = [](const ScalarRef&) { return ExprPtr(); };
  substitution.buffer = [&](const BufferRef& buffer) {
    const auto found = placed.find(buffer.get());
    return found == placed.end() ? nullptr : found->second;
  };
  unit.body = substitute(unit.body, substitution);
  return unit;
}

}  // namespace tcc::schedule
