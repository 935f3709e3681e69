#include "tcc/loop/shared_memory.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "tcc/loop/fields.h"
#include "tcc/loop/rewrite.h"
#include "tcc/support/integer_math.h"

namespace tcc::loop {
namespace {

int64_t buffer_bytes(const Buffer& buffer) { return buffer.span() * size_bytes(buffer.dtype); }

int64_t alignment(const Buffer& buffer) { return buffer.swizzle.bits ? 1024 : 128; }

/// Pipes and buffers that a statement mentions, with all inside of it.
std::set<const void*> mentioned(const Stmt& stmt) {
  struct Mentions : NoFields {
    std::set<const void*> found;
    void place(Effect, const BufferRef& buffer, const std::vector<Index>&) { found.insert(buffer.get()); }
    void buffer(Effect, const BufferRef& buffer) { found.insert(buffer.get()); }
    void pipe(const PipeRef& pipe) { found.insert(pipe.get()); }
  } mentions;
  walk({stmt}, [&](const Stmt& inner) { fields_of(inner, mentions); });
  walk_exprs({stmt}, [&](const Expr& expr) {
    if (expr.kind == Expr::Kind::load) mentions.found.insert(expr.buffer.get());
  });
  return std::move(mentions.found);
}

/// Whether iterations of the loop follow each other in one block.
bool repeats(const Stmt& stmt) {
  const auto* dims = dims_of(stmt);
  return dims && std::any_of(dims->begin(), dims->end(), [](const Dim& dim) { return dim.var->extent > 1 && dim.bind != Bind::block; });
}

/// Buffers one behind the other, in the order of the text. One that comes behind the last use of another, with a barrier between, may take its place: the
/// stages of a pipe become what finished tiles leave through. In loops that run in time nothing is taken: the next iteration begins with the first buffer.
class Placer {
 public:
  SharedLayout run(const Block& body) {
    place(body, 0, false);
    layout_.reduce_offset = align_up(end_, int64_t{128});
    layout_.total_bytes = states_ ? layout_.reduce_offset + static_cast<int64_t>(states_) * 32 * 8 : end_;
    return std::move(layout_);
  }

 private:
  struct Placed {
    int64_t end;
    size_t last_use;  ///< statement of the block
    bool done = false;
  };

  void place(const Block& block, int64_t begin, bool in_time) {
    std::vector<std::set<const void*>> uses;
    for (const Stmt& stmt : block) uses.push_back(mentioned(stmt));
    const auto last_use = [&](const std::vector<const void*>& what) {
      size_t last = in_time ? block.size() : 0;
      for (size_t i = 0; i < block.size(); ++i) {
        if (std::any_of(what.begin(), what.end(), [&](const void* one) { return uses[i].contains(one); })) last = std::max(last, i);
      }
      return last;
    };
    std::vector<Placed> placed;
    for (size_t i = 0; i < block.size(); ++i) {
      const Stmt& stmt = block[i];
      if (as<Barrier>(stmt)) {
        for (Placed& one : placed) one.done = one.done || one.last_use < i;
      }
      int64_t next = begin;
      for (const Placed& one : placed) next = std::max(next, one.done ? begin : one.end);
      if (const auto* alloc = as<Alloc>(stmt); alloc && alloc->buffer->space == Space::shared) {
        next = add(*alloc->buffer, next);
        placed.push_back({next, last_use({alloc->buffer.get()})});
      } else if (const auto* declaration = as<PipeDecl>(stmt)) {
        next = add_barriers(*declaration->pipe, next);
        if (next > begin) placed.push_back({next, block.size()});
        next = add_stages(*declaration->pipe, next);
        std::vector<const void*> parts{declaration->pipe.get()};
        for (const BufferRef& buffer : declaration->pipe->buffers) parts.push_back(buffer.get());
        placed.push_back({next, last_use(parts)});
      }
      end_ = std::max(end_, next);
      if (dims_of(stmt) && loop::together(stmt).team == Team::block) states_ = std::max(states_, defined_by(stmt).size());
      for (const Block* inner : blocks_of(stmt)) place(*inner, next, in_time || repeats(stmt));
    }
  }

  int64_t add(const Buffer& buffer, int64_t at) {
    at = align_up(at, alignment(buffer));
    layout_.buffer_offset[buffer.id] = at;
    return at + buffer_bytes(buffer);
  }
  int64_t add_barriers(const Pipe& pipe, int64_t at) {
    if (pipe.kind != Pipe::Kind::mbarrier) return at;
    layout_.pipe_barriers[pipe.id] = at = align_up(at, int64_t{16});
    return at + int64_t{16} * pipe.stages;
  }
  int64_t add_stages(const Pipe& pipe, int64_t at) {
    int64_t widest = 128;
    for (const BufferRef& buffer : pipe.buffers) widest = std::max(widest, alignment(*buffer));
    const int64_t begin = align_up(at, widest);
    int64_t end = begin;
    for (const BufferRef& buffer : pipe.buffers) end = add(*buffer, end);
    const int64_t stage = align_up(end - begin, widest);
    layout_.pipe_stage_bytes[pipe.id] = stage;
    return begin + stage * pipe.stages;
  }

  SharedLayout layout_;
  int64_t end_ = 0;
  size_t states_ = 0;  ///< of the widest reduce across the block
};

}  // namespace

SharedLayout shared_layout(const Block& body) { return Placer().run(body); }

int64_t shared_bytes(const Kernel& kernel) { return shared_layout(kernel.body).total_bytes; }

}  // namespace tcc::loop
