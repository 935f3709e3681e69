// tensorize(s, m16n8k16, 2, 4): a tile of sums of products, whose operands are in shared memory, is computed by tensor cores; the tile then lies in the
// registers of 2 x 4 warps.
//
//   alloc %s.tile: f32[128, 256] registers
//   map %i_1.init in 128, %j_1.init in 256 { store 0.0, %s.tile[%i_1.init, %j_1.init] }
//   for %k_0 in 16 {
//     ...                                                                       // copies of both operands to shared memory
//     for %k_1 in 32 { map %i_1 in 128, %j_1 in 256 {
//       %x: bf16 = load %a.staged[%i_1, %k_1];  %y: bf16 = load %b.staged[%j_1, %k_1]
//       store add(load %s.tile[%i_1, %j_1], mul(cast<f32>(%x), cast<f32>(%y))), %s.tile[%i_1, %j_1]
//     } }
//   }
//   map %i_1.out in 128, %j_1.out in 256 { %s: f32 = load %s.tile[%i_1.out, %j_1.out];  ... }
// becomes
//   alloc %s.tile: f32[128, 256] registers tile(...)
//   map %s.tile: %i_1.init in 128 bind(tile), %j_1.init in 256 bind(tile) { ... }
//   for %k_0 in 16 { ...;  mma %s.tile, %a.staged[0, 0], %b.staged[0, 0] size(128, 256, 32) shape m16n8k16 }
//   map %s.tile: %i_1.out in 128 bind(tile), %j_1.out in 256 bind(tile) { ... }
//
// A tile that this one is added to, as parts of a sum are, gets the same layout.
//
// With the instruction of a warpgroup, m64nNk16, it is a `mma.async`, the tile lies in the registers of 2 x 4 groups of four warps, and pipeline_tiles has to
// follow, which makes the waits for it.
//
// Where tiles may reach over the end of the results, those that are whole have a loop of their own without the mask.
// A mask on the reduced dim goes away where both copies have it or end there: what lies outside was copied as zeros. Either operand may be stored with its axes
// the other way round.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"
#include "tcc/target/target.h"

namespace tcc::loop {

namespace {

/// One operand as the inner map reads it.
struct Operand {
  BufferRef buffer;
  std::vector<Index> from;
  bool k_first = false;  ///< stored [k, row]
  int k_axis = 0;
};

class Tensorizer {
 public:
  Tensorizer(const Unit& unit, std::string accumulator, std::string shape, int64_t warps_m, int64_t warps_n)
      : accumulator_(std::move(accumulator)), shape_(std::move(shape)), warps_m_(warps_m), warps_n_(warps_n) {
    walk(unit.body, [&](const Stmt& stmt) {
      const auto* alloc = std::get_if<Alloc>(&stmt.node);
      if (alloc && is_copy(alloc->buffer->name, accumulator_ + ".tile")) plain_ = alloc->buffer;
      if (const auto* copy = std::get_if<Copy>(&stmt.node)) copies_.emplace(copy->destination.get(), *copy);
    });
    if (!plain_ || plain_->extents.size() != 2 || plain_->space != Space::registers) {
      unfit("`" + accumulator_ + "` has no register tile of two axes: tile it first");
    }
    const Target target = Target::cuda_sm90a();  // it has all instructions
    const TensorCore* core = target.tensor_core(shape_);
    if (!core) unfit("there is no instruction `" + shape_ + "`");
    warpgroup_ = core->warpgroup;
    transposed_ = core->transposed;
    Buffer prototype = *plain_;
    prototype.tile = std::make_shared<TileLayout>(layout());
    tile_ = make_buffer(std::move(prototype));
  }

  Unit run(const Unit& unit) {
    Unit result = unit;
    rewrite(result.body, [&](Stmt& stmt) { return replace_product(stmt); });
    if (!found_) unfit("the tile of `" + accumulator_ + "` is not a sum of products of two shared buffers");
    lay_out(result.body);
    walk_mutable(result.body, [&](Stmt& stmt) { bind_loop(stmt); });
    NameTable names(result);
    if (!warpgroup_)
      rewrite(result.body, [&](Stmt& stmt) { return unmask(stmt, names); });  // else finished tiles leave as a whole (epilogue)
    return result;
  }

 private:
  TileLayout layout() const {
    const int64_t m = plain_->extents[0], n = plain_->extents[1], rows = warpgroup_ ? 64 : 16, columns = warpgroup_ ? 8 : 16;
    const std::string who = warpgroup_ ? "warpgroups" : "warps", parts = std::to_string(warps_m_) + " x " + std::to_string(warps_n_) + " ";
    if (warps_m_ < 1 || warps_n_ < 1) unfit("a tile of " + parts + who);
    if (m % (rows * warps_m_) != 0 || n % (columns * warps_n_) != 0) {
      unfit("a tile of " + std::to_string(m) + " x " + std::to_string(n) + " is not a whole number of " + std::to_string(rows) + " x " +
            std::to_string(columns) + " blocks for each of " + parts + who);
    }
    return warpgroup_ ? warpgroup_accumulator_layout(m, n, warps_m_, warps_n_) : mma_accumulator_layout(m, n, warps_m_, warps_n_);
  }

  /// for %k_1 { map %i_1, %j_1 { lets; store add(load tile, mul(x, y)), tile } }
  std::optional<Block> replace_product(Stmt& stmt) {
    auto* steps = std::get_if<Loop>(&stmt.node);
    if (!steps || steps->kind != Loop::Kind::for_ || steps->dims.size() != 1 || steps->body.size() != 1) return std::nullopt;
    auto* map = std::get_if<Loop>(&steps->body[0].node);
    if (!map || map->kind != Loop::Kind::map || map->dims.size() != 2 || map->where || map->body.empty()) return std::nullopt;
    const auto* store = std::get_if<Store>(&map->body.back().node);
    if (!store || store->buffer != plain_) return std::nullopt;

    std::map<const Scalar*, ExprPtr> lets;
    for (size_t i = 0; i + 1 < map->body.size(); i++) {
      const auto* let = std::get_if<Let>(&map->body[i].node);
      if (!let) return std::nullopt;
      lets[let->scalar.get()] = let->value;
    }
    const auto resolve = [&](ExprPtr expr) {
      while (true) {
        if (expr->kind == Expr::Kind::scalar) {
          const auto found = lets.find(expr->scalar.get());
          if (found == lets.end()) return expr;
          expr = found->second;
        } else {
          return expr;
        }
      }
    };
    const auto without_cast = [&](ExprPtr expr) {
      expr = resolve(expr);
      if (expr->kind == Expr::Kind::op && expr->op == Op::cast_ && expr->dtype == plain_->dtype) expr = resolve(expr->args[0]);
      return expr;
    };
    const ExprPtr sum = resolve(store->value);
    if (sum->kind != Expr::Kind::op || sum->op != Op::add_) return std::nullopt;
    ExprPtr product;
    for (int i = 0; i < 2; i++) {
      const ExprPtr old = resolve(sum->args[static_cast<size_t>(i)]);
      if (old->kind == Expr::Kind::load && old->buffer == plain_) product = resolve(sum->args[static_cast<size_t>(1 - i)]);
    }
    if (!product || product->kind != Expr::Kind::op || product->op != Op::mul_) return std::nullopt;
    const Var* k = steps->dims[0].var.get();
    const Var* rows = map->dims[0].var.get();
    const Var* columns = map->dims[1].var.get();
    const ExprPtr x = without_cast(product->args[0]), y = without_cast(product->args[1]);
    std::optional<Operand> a = as_operand(x, rows, k), b = as_operand(y, columns, k);
    if (!a || !b) {
      a = as_operand(y, rows, k);
      b = as_operand(x, columns, k);
    }
    if (!a || !b || a->buffer == b->buffer) return std::nullopt;
    if (steps->where &&
        !(ends_with_buffer(steps->where, *a, steps->dims[0].var) && ends_with_buffer(steps->where, *b, steps->dims[0].var))) {
      unfit("the sum of `" + accumulator_ + "` ends inside a buffer, in the middle of a step: what follows is not zero");
    }

    if (!transposed_ && (a->k_first || b->k_first)) unfit("`" + shape_ + "` reads operands along the sum");
    found_ = true;
    Mma mma;
    mma.accumulator = plain_;
    mma.a = a->buffer;
    mma.b = b->buffer;
    mma.a_from = a->from;
    mma.b_from = b->from;
    mma.m = plain_->extents[0];
    mma.n = plain_->extents[1];
    mma.k = steps->dims[0].var->extent;
    mma.transpose_a = a->k_first;
    mma.transpose_b = b->k_first;
    mma.shape = shape_;
    mma.async = warpgroup_;
    return Block{Stmt{std::move(mma)}};
  }

  static std::optional<Operand> as_operand(const ExprPtr& expr, const Var* row, const Var* k) {
    if (expr->kind != Expr::Kind::load || expr->buffer->space != Space::shared || expr->otherwise || expr->indices.size() < 2)
      return std::nullopt;
    Operand operand;
    operand.buffer = expr->buffer;
    int row_axis = -1, k_axis = -1;
    for (size_t axis = 0; axis < expr->indices.size(); axis++) {
      const Index& index = expr->indices[axis];
      bool inside_row = false, inside_k = false;
      const int64_t by_row = index.coefficient_of(row, &inside_row), by_k = index.coefficient_of(k, &inside_k);
      if (inside_row || inside_k) return std::nullopt;
      if ((by_row != 0 && (by_row != 1 || row_axis >= 0 || by_k != 0)) || (by_k != 0 && (by_k != 1 || k_axis >= 0))) return std::nullopt;
      if (by_row == 1) row_axis = static_cast<int>(axis);
      if (by_k == 1) k_axis = static_cast<int>(axis);
      operand.from.push_back(substitute(index, [&](const VarRef& var) -> std::optional<Index> {
        if (var.get() == row || var.get() == k) return Index(0);
        return std::nullopt;
      }));
    }
    const int rank = static_cast<int>(expr->indices.size());
    if (row_axis < 0 || k_axis < 0 || row_axis + k_axis != 2 * rank - 3) return std::nullopt;  // the last two axes
    operand.k_first = k_axis < row_axis;
    operand.k_axis = k_axis;
    return operand;
  }

  /// Whether what the mask leaves out is masked in the copy of the operand, too, or beyond the last element of its source, and so was copied as zeros.
  bool ends_with_buffer(const ExprPtr& mask, const Operand& operand, const VarRef& k) const {
    const auto found = copies_.find(operand.buffer.get());
    if (found == copies_.end()) return false;
    const Copy& copy = found->second;
    // The variables of the box that make element (row, k) of the operand are those of the loops.
    Substitution loops;
    loops.var = [&](const VarRef& var) -> std::optional<Index> {
      const auto axis = static_cast<size_t>(operand.k_axis);
      if (copy.to[axis] == Index(var)) return operand.from[axis] + Index(k);
      return std::nullopt;
    };
    const std::vector<ExprPtr> copied = conjuncts(copy.where);
    const auto is_copied = [&](const ExprPtr& condition) {
      const auto is_alike = [&](const ExprPtr& other) { return equal(substitute(other, loops), condition); };
      if (std::any_of(copied.begin(), copied.end(), is_alike)) return true;
      const std::optional<UpperBound> written = as_upper_bound(condition);
      if (!written) return false;
      const UpperBound bound = without_divisions(written->index, written->high);
      for (size_t axis = 0; axis < copy.from.size(); axis++) {
        const UpperBound end = without_divisions(substitute(copy.from[axis], loops.var), copy.source->extents[axis]);
        if (end.index == bound.index && end.high <= bound.high) return true;
      }
      return false;
    };
    const std::vector<ExprPtr> conditions = conjuncts(mask);
    return std::all_of(conditions.begin(), conditions.end(), is_copied);
  }

  bool is_over_tile(const Loop& loop) const {
    return loop.kind == Loop::Kind::map && loop.dims.size() == 2 && loop.dims[0].var->extent == plain_->extents[0] &&
           loop.dims[1].var->extent == plain_->extents[1];
  }

  /// The tile gets its layout, and so do other tiles that its elements are added to.
  void lay_out(Block& body) {
    std::map<const Buffer*, BufferRef> laid_out{{plain_.get(), tile_}};
    tiles_ = {tile_};
    walk(body, [&](const Stmt& stmt) {
      const auto* loop = std::get_if<Loop>(&stmt.node);
      if (!loop || !is_over_tile(*loop) || !uses_of(loop->body).reads.contains(plain_.get())) return;
      for (const Stmt& part : loop->body) {
        const auto* store = std::get_if<Store>(&part.node);
        if (!store || store->buffer->space != Space::registers || laid_out.contains(store->buffer.get())) continue;
        if (store->buffer->extents != plain_->extents || !(store->indices == std::vector<Index>{loop->dims[0].var, loop->dims[1].var}))
          unfit("what `" + accumulator_ + "` is added to is not a tile like its own");
        Buffer prototype = *store->buffer;
        prototype.tile = tile_->tile;
        tiles_.push_back(make_buffer(std::move(prototype)));
        laid_out[store->buffer.get()] = tiles_.back();
      }
    });
    body = replace_buffers(body, laid_out);
  }

  /// The maps that fill and read the tiles run over their layout.
  void bind_loop(Stmt& stmt) const {
    auto* loop = std::get_if<Loop>(&stmt.node);
    if (!loop || !is_over_tile(*loop)) return;
    const Uses uses = uses_of(loop->body);
    const auto used = std::find_if(tiles_.begin(), tiles_.end(), [&](const BufferRef& tile) {
      return uses.reads.contains(tile.get()) || uses.writes.contains(tile.get());
    });
    if (used == tiles_.end()) return;
    loop->tile = *used;
    for (Dim& dim : loop->dims) dim.bind = Bind::tile;
  }

  /// Blocks whose tile is whole run a copy of the loop without its mask.
  std::optional<Block> unmask(const Stmt& stmt, NameTable& names) const {
    const auto* loop = std::get_if<Loop>(&stmt.node);
    if (!loop || std::find(tiles_.begin(), tiles_.end(), loop->tile) == tiles_.end() || !loop->where) return std::nullopt;
    std::vector<ExprPtr> whole;
    for (const ExprPtr& condition : conjuncts(loop->where)) {
      const std::optional<UpperBound> bound = as_upper_bound(condition);
      if (!bound) return std::nullopt;
      Index most = bound->index;
      for (const Dim& dim : loop->dims) {
        bool inside = false;
        const int64_t coefficient = most.coefficient_of(dim.var.get(), &inside);
        if (inside || coefficient < 0) return std::nullopt;
        most = most + (Index(dim.var->extent - 1) - Index(dim.var)) * coefficient;
      }
      if (const std::optional<int64_t> least = most.min(); !least || *least >= bound->high) return std::nullopt;  // no tile is whole
      if (const ExprPtr test = in_range(most, 0, bound->high)) whole.push_back(test);
    }
    If either;
    either.condition = conjunction(whole);
    if (!either.condition) return std::nullopt;
    Loop unmasked = *loop;
    unmasked.where = nullptr;
    either.then = clone_fresh({Stmt{std::move(unmasked)}}, [&](const std::string& name) { return names.fresh(name + ".whole"); });
    either.otherwise = {stmt};
    return Block{Stmt{std::move(either)}};
  }

  std::string accumulator_, shape_;
  int64_t warps_m_, warps_n_;
  BufferRef plain_, tile_;
  std::vector<BufferRef> tiles_;          ///< that have the layout, `tile_` the first
  std::map<const Buffer*, Copy> copies_;  ///< by destination
  bool transposed_ = false;               ///< operands may lie with the sum outside
  bool warpgroup_ = false;                ///< the instruction is one of four warps, asynchronous; what follows waits for it (pipeline)
  bool found_ = false;
};

}  // namespace

Unit tensorize(const Unit& unit, const std::string& accumulator, const std::string& shape, int64_t warps_m, int64_t warps_n) {
  return Tensorizer(unit, accumulator, shape, warps_m, warps_n).run(unit);
}

}  // namespace tcc::loop
