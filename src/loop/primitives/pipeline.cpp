// pipeline(k_0, 4): the copies to shared memory at the top of a loop's body run up to three iterations ahead of what reads them.
//
//   for %k in 16 { alloc %x: f32[32] shared;  barrier;  copy (%c in 32) %a[%k * 32 + %c] -> %x[%c] bytes 16;  barrier;  ... reads %x ... }
// becomes
//   pipe %p stages 4 (%x: f32[32] shared)
//   for %k.ahead in 3 { acquire %p;  copy.async (%c in 32) %a[%k.ahead * 32 + %c] -> %x[%c] bytes 16;  commit %p }
//   for %k in 13 { wait %p;  acquire %p;  copy.async (%c in 32) %a[%k * 32 + 96 + %c] -> %x[%c] bytes 16;  commit %p;  ... reads %x ...;  release %p }
//   for %k.drain in 3 { wait %p;  ... reads %x ...;  release %p }
//
// Copies of single 16-bit elements and those that convert fill their stage without cp.async: loads that run ahead, and stores that may wait for the commit. Then
// the commit comes after the code that reads the other stage.
//
// The wait is a barrier, after which all threads have done with the stage of the iteration before: the next copies go there. The last iterations, which copy
// nothing, are a loop of their own: the others then need no test, and their copies are known to be inside.
#include <algorithm>
#include <utility>

#include "loop/primitives/stage.h"
#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"

namespace tcc::loop {

namespace {

class Pipeliner {
 public:
  Pipeliner(const Unit& unit, std::string dim, int stages) : names_(unit), dim_(std::move(dim)), stages_(stages) {}

  std::optional<Block> edit(Stmt& stmt) {
    auto* loop = std::get_if<Loop>(&stmt.node);
    if (!loop || find_dim(loop->dims, dim_) < 0) return std::nullopt;
    found_ = true;
    if (loop->kind != Loop::Kind::for_ || loop->dims.size() != 1 || loop->where)
      unfit("`" + dim_ + "` is no `for` of its own without a mask");
    return pipe(*loop);
  }
  bool found() const { return found_; }

 private:
  Block pipe(const Loop& loop) {
    std::vector<BufferRef> buffers;
    Block copies, compute;
    for (const Stmt& stmt : loop.body) {
      if (const auto* alloc = std::get_if<Alloc>(&stmt.node); alloc && alloc->buffer->space == Space::shared) {
        buffers.push_back(alloc->buffer);
        continue;
      }
      if (std::holds_alternative<Barrier>(stmt.node)) continue;
      const auto* copy = std::get_if<Copy>(&stmt.node);
      if (!copy) {
        compute.push_back(stmt);
        continue;
      }
      if (!compute.empty()) unfit("a copy comes after what reads the others");
      copies.push_back({*copy});
      // What cp.async can't do fills the stage at once; the wait is a barrier for it, too.
      if (copy->vector_bytes >= kNarrowestAsync && copy->source->dtype == copy->destination->dtype && !copy->value)
        std::get<Copy>(copies.back().node).kind = Copy::Kind::async;
    }
    if (copies.size() != buffers.size() || buffers.empty())
      unfit("the body of `" + dim_ + "` does not start with copies to shared buffers of its own");

    const VarRef k = loop.dims[0].var;
    const int64_t ahead = std::min<int64_t>(stages_ - 1, k->extent);
    const PipeRef pipe = make_pipe(names_.fresh(k->name + ".pipe"), Pipe::Kind::group, stages_, buffers);
    int filled = 0;
    const auto fill = [&](const Index& at) {
      Block block;
      block.push_back({PipeOp{PipeOp::Kind::acquire, pipe}});
      const Block here = filled++ == 0 ? copies : clone_fresh(copies, [&](const std::string& name) { return names_.fresh(name); });
      for (Stmt& stmt : substitute_var(here, k, at)) {
        narrow(std::get<Copy>(stmt.node));
        block.push_back(std::move(stmt));
      }
      return block;
    };
    const Stmt commit{PipeOp{PipeOp::Kind::commit, pipe}};
    const bool all_async =
        std::all_of(copies.begin(), copies.end(), [](const Stmt& copy) { return as<Copy>(copy)->kind == Copy::Kind::async; });
    Loop first;
    first.kind = Loop::Kind::for_;
    const VarRef early = make_var(names_.fresh(k->name + ".ahead"), ahead);
    first.dims = {{early, Bind::unroll}};
    first.body = fill(Index(early));
    first.body.push_back(commit);

    Block result{Stmt{PipeDecl{pipe}}, Stmt{std::move(first)}};
    const int64_t steady = k->extent - ahead;
    if (steady > 0) {
      const VarRef step = make_var(k->name, steady);
      Block body{Stmt{PipeOp{PipeOp::Kind::wait, pipe}}};
      for (Stmt& stmt : fill(Index(step) + Index(ahead))) body.push_back(std::move(stmt));
      if (all_async) body.push_back(commit);
      for (Stmt& stmt : substitute_var(compute, k, Index(step))) body.push_back(std::move(stmt));
      if (!all_async) body.push_back(commit);
      body.push_back({PipeOp{PipeOp::Kind::release, pipe}});
      Loop main = loop;
      main.dims = {{step, loop.dims[0].bind}};
      main.body = std::move(body);
      result.push_back({std::move(main)});
      compute = clone_fresh(compute, [&](const std::string& name) { return names_.fresh(name + ".drain"); });
    }
    const VarRef last = make_var(names_.fresh(k->name + ".drain"), ahead);
    Loop drain = loop;
    drain.dims = {{last, loop.dims[0].bind}};
    drain.body = {Stmt{PipeOp{PipeOp::Kind::wait, pipe}}};
    for (Stmt& stmt : substitute_var(compute, k, Index(last) + Index(steady))) drain.body.push_back(std::move(stmt));
    drain.body.push_back({PipeOp{PipeOp::Kind::release, pipe}});
    result.push_back({std::move(drain)});
    return result;
  }

  /// What an index is a multiple of may not be seen when other constants stand in it.
  static void narrow(Copy& copy) {
    copy.vector_bytes = std::min(copy.vector_bytes, widest_access(copy));
    if (copy.vector_bytes < kNarrowestAsync) copy.kind = Copy::Kind::plain;
  }

  static constexpr int kNarrowestAsync = 4;  ///< bytes
  NameTable names_;
  std::string dim_;
  int stages_;
  bool found_ = false;
};

}  // namespace

Unit pipeline(const Unit& unit, const std::string& dim, int stages) {
  if (stages < 2) unfit("a pipe of " + std::to_string(stages) + " stages");
  Unit result = unit;
  Pipeliner pipeliner(unit, dim, stages);
  rewrite(result.body, [&](Stmt& stmt) { return pipeliner.edit(stmt); });
  if (!pipeliner.found()) no_such_loop(unit, dim);
  return result;
}

}  // namespace tcc::loop
