// pipeline_tiles(k_0, 4, 232, 40): the copies to shared memory at the top of a loop's body become tiles that the copy engine moves, and the block is taken apart: one
// warpgroup has the copies made, up to four iterations ahead of those with the asynchronous products that read them, which get most of the registers.
//
//   map %i in 132 bind(block), %t in 4 bind(serial) {
//     alloc %acc ...
//     for %k in 16 { alloc %x: ...;  barrier;  copy (...) %a[..., %k * 64] -> %x[...];  barrier;  mma.async %acc, %x[0, 0], ... }
//     map %acc: ... { store ... } }
// becomes
//   map %i in 132 bind(block) {
//     pipe %p stages 4 mbarrier (%x: ...)
//     roles {
//       role math warps 8 registers 232 {
//         map %t in 4 bind(serial) {
//           alloc %acc ...
//           wait %p;  mma.async %acc, %x[0, 0], ...
//           for %k in 15 { wait %p;  mma.async %acc, %x[0, 0], ...;  mma.wait 1;  release %p }
//           mma.wait 0 (%acc);  release %p
//           map %acc: ... { store ... } } }
//       role load warps 4 registers 40 {
//         map %t in 4 bind(serial) {
//           for %k in 16 { acquire %p;  copy.tma (...) %a[..., %k * 64] -> %x[...];  commit %p } } } } }
//
// A product is waited for when the next one is under way, so that the tensor cores are never without one; its stage goes back then. Loops that run in time around
// the sum are in both roles: the copies for the next tile run while the last one is stored.
#include <utility>

#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"

namespace tcc::loop {

namespace {

class TilePipeliner {
 public:
  TilePipeliner(const Unit& unit, std::string dim, int stages, int math_registers, int load_registers)
      : names_(unit), dim_(std::move(dim)), stages_(stages), math_registers_(math_registers), load_registers_(load_registers) {}

  /// The loop over blocks with the sum in it.
  std::optional<Block> edit(Stmt& stmt) {
    auto* nest = std::get_if<Loop>(&stmt.node);
    if (!nest || found_ || !contains_sum(nest->body)) return std::nullopt;
    found_ = true;
    size_t blocks = 0;
    while (blocks < nest->dims.size() && nest->dims[blocks].bind == Bind::block) ++blocks;
    if (blocks == 0) unfit("the loops around `" + dim_ + "` are not bound to blocks");
    Block tile = nest->body;
    if (blocks < nest->dims.size() || nest->where) {
      Loop in_time;
      in_time.dims.assign(nest->dims.begin() + static_cast<std::ptrdiff_t>(blocks), nest->dims.end());
      for (const Dim& dim : in_time.dims) {
        if (dim.bind != Bind::serial && dim.bind != Bind::none)
          unfit("`" + dim.var->name + "` around `" + dim_ + "` is bound to " + std::string(name_of(dim.bind)));
      }
      in_time.where = nest->where;
      in_time.body = std::move(tile);
      tile = {Stmt{std::move(in_time)}};
    }
    Loop outer = *nest;
    outer.dims.resize(blocks);
    outer.where = nullptr;
    outer.body = roles(tile);
    return Block{Stmt{std::move(outer)}};
  }
  bool found() const { return found_; }

 private:
  bool is_sum(const Stmt& stmt) const {
    const auto* loop = std::get_if<Loop>(&stmt.node);
    return loop && find_dim(loop->dims, dim_) >= 0;
  }
  bool contains_sum(const Block& block) const {
    bool found = false;
    walk(block, [&](const Stmt& stmt) { found = found || is_sum(stmt); });
    return found;
  }

  Block roles(const Block& tile) {
    Role math{"math", 1, math_registers_, tile}, load{"load", 4, load_registers_, {}};
    rewrite(math.body, [&](Stmt& stmt) -> std::optional<Block> {
      if (!is_sum(stmt)) return std::nullopt;
      take_apart(std::get<Loop>(stmt.node));
      return multiply();
    });
    for (const TileDigit& digit : accumulators_.front()->tile->digits)
      math.warps *= digit.level == TileDigit::Level::warp ? static_cast<int>(digit.extent) : 1;
    load.body = clone_fresh(copies_alone(tile), [&](const std::string& name) { return names_.fresh(name); });
    return {Stmt{PipeDecl{pipe_}}, Stmt{Roles{{std::move(math), std::move(load)}}}};
  }

  /// Sorts the body of the sum.
  void take_apart(const Loop& sum) {
    if (sum.kind != Loop::Kind::for_ || sum.dims.size() != 1 || sum.where) unfit("`" + dim_ + "` is not a `for` of its own without a mask");
    k_ = sum.dims[0].var;
    std::vector<BufferRef> buffers;
    for (const Stmt& stmt : sum.body) {
      if (const auto* alloc = std::get_if<Alloc>(&stmt.node); alloc && alloc->buffer->space == Space::shared) {
        buffers.push_back(alloc->buffer);
      } else if (const auto* copy = std::get_if<Copy>(&stmt.node)) {
        if (!products_.empty()) unfit("a copy comes after what reads the others");
        Copy tile = *copy;
        tile.kind = Copy::Kind::tma;
        tile.vector_bytes = 16;  // what the engine moves rows in, wherever they end
        copies_.push_back({std::move(tile)});
      } else if (const auto* mma = std::get_if<Mma>(&stmt.node); mma && mma->async) {
        products_.push_back(stmt);
        accumulators_.push_back(mma->accumulator);
      } else if (!std::holds_alternative<Barrier>(stmt.node)) {
        unfit("the body of `" + dim_ + "` has more than copies and asynchronous products");
      }
    }
    if (copies_.size() != buffers.size() || buffers.empty() || products_.empty())
      unfit("the body of `" + dim_ + "` does not start with copies to shared buffers of its own");
    pipe_ = make_pipe(names_.fresh(k_->name + ".pipe"), Pipe::Kind::mbarrier, stages_, std::move(buffers));
  }

  Stmt op(PipeOp::Kind kind) const { return {PipeOp{kind, pipe_}}; }
  static Stmt over(const VarRef& var, Block body) {
    Loop made;
    made.kind = Loop::Kind::for_;
    made.dims = {{var, Bind::serial}};
    made.body = std::move(body);
    return {std::move(made)};
  }

  /// The sum in the role that computes it.
  Block multiply() const {
    Block result{op(PipeOp::Kind::wait)};
    append(result, substitute_var(products_, k_, Index(0)));
    if (k_->extent > 1) {
      const VarRef step = make_var(k_->name, k_->extent - 1);
      Block body{op(PipeOp::Kind::wait)};
      append(body, substitute_var(products_, k_, Index(step) + Index(1)));
      body.push_back({MmaWait{static_cast<int>(products_.size()), {}}});
      body.push_back(op(PipeOp::Kind::release));
      result.push_back(over(step, std::move(body)));
    }
    result.push_back({MmaWait{0, accumulators_}});
    result.push_back(op(PipeOp::Kind::release));
    return result;
  }

  /// The loops around the sum, and in them the copies.
  Block copies_alone(const Block& block) const {
    for (const Stmt& stmt : block) {
      if (is_sum(stmt)) {
        Block fill{op(PipeOp::Kind::acquire)};
        append(fill, copies_);
        fill.push_back(op(PipeOp::Kind::commit));
        Loop loop = std::get<Loop>(stmt.node);
        loop.body = std::move(fill);
        return {Stmt{std::move(loop)}};
      }
      const auto* loop = std::get_if<Loop>(&stmt.node);
      if (!loop || !contains_sum(loop->body)) continue;
      Loop around = *loop;
      around.body = copies_alone(loop->body);
      return {Stmt{std::move(around)}};
    }
    unfit("`" + dim_ + "` stands within more than loops");
  }

  NameTable names_;
  std::string dim_;
  int stages_, math_registers_, load_registers_;
  Block copies_, products_;
  std::vector<BufferRef> accumulators_;
  VarRef k_;
  PipeRef pipe_;
  bool found_ = false;
};

}  // namespace

Unit pipeline_tiles(const Unit& unit, const std::string& dim, int stages, int math_registers, int load_registers) {
  if (stages < 2) unfit("a pipe of " + std::to_string(stages) + " stages");
  Unit result = unit;
  TilePipeliner pipeliner(unit, dim, stages, math_registers, load_registers);
  rewrite(result.body, [&](Stmt& stmt) { return pipeliner.edit(stmt); });
  if (!pipeliner.found()) no_such_loop(unit, dim);
  return result;
}

}  // namespace tcc::loop
