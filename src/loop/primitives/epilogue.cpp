// epilogue(s): a finished register tile leaves through shared memory, so that each warp writes whole rows in 16-byte pieces, or smaller ones: `bytes=2`.
//
//   map %s.tile: %i in 128 bind(tile), %j in 256 bind(tile) { %s: f32 = load %s.tile[%i, %j];  store cast<bf16>(%s), %c[%i, %j] }
// becomes, with 8 warps,
//   barrier
//   alloc %c.block: bf16[128, 256] strides(264, 1) shared
//   map %s.tile: %i in 128 bind(tile), %j in 256 bind(tile) { %s: f32 = load %s.tile[%i, %j];  store cast<bf16>(%s), %c.block[%i, %j] }
//   barrier
//   map %i.row in 16 bind(unroll), %i.warp in 8 bind(warp), %j.lane in 32 bind(lane), %j.element in 8 bind(vector) {
//     store load %c.block[%i.row * 8 + %i.warp, %j.lane * 8 + %j.element], %c[%i.row * 8 + %i.warp, %j.lane * 8 + %j.element]
//   }
//
// Bias, activation and cast stay where the accumulators are. What the tile is stored to along the last axis leaves so, other stores stay; the pieces
// must be enough for all threads; a mask of the tile then is one of the pieces. The padding puts the eight rows that an accumulator fragment spans into different
// banks. The barrier in front lets the block take the place of what was in shared memory before.
//
// An element of the tile that is loaded from memory, of a residual or a mask, comes the same way: in pieces into the block that its result will leave by.
//
//   map %i.row in 16 bind(unroll), ... { store load %d[...], %c.block[...] }
//   barrier
//   map %s.tile: %i in 128 bind(tile), %j in 256 bind(tile) { ...  %r: bf16 = load %c.block[%i, %j];  store cast<bf16>(add(%s, cast<f32>(%r))), %c.block[%i, %j] }
//
// A block takes one such operand, of its own dtype, which nothing reads any more once the result is stored.
#include <algorithm>
#include <utility>

#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"

namespace tcc::loop {

namespace {

/// Pieces of a thread that leave without a loop.
constexpr int64_t kMostUnrolled = 32;

class Stager {
 public:
  Stager(const Unit& unit, std::string accumulator, int64_t piece_bytes)
      : names_(unit), accumulator_(std::move(accumulator)), piece_bytes_(piece_bytes) {}

  std::optional<Block> edit(Stmt& stmt) {
    auto* loop = std::get_if<Loop>(&stmt.node);
    if (!loop || !loop->tile || loop->dims.size() != 2 || !is_copy(loop->tile->name, accumulator_ + ".tile")) return std::nullopt;
    if (!uses_of(loop->body).reads.contains(loop->tile.get())) return std::nullopt;
    found_ = true;
    return pass_through_shared(*loop);
  }
  bool found() const { return found_; }

 private:
  /// What passes through a block of shared memory: an element of each of the tile, in memory at `at`.
  struct Staged {
    BufferRef block, memory;
    std::vector<Index> at;
  };

  Block pass_through_shared(Loop loop) {
    tile_ = loop.tile->tile.get();
    i_ = loop.dims[0].var;
    j_ = loop.dims[1].var;
    std::vector<Staged> staged, operands;
    for (size_t i = 0; i < loop.body.size(); ++i) {
      auto* store = std::get_if<Store>(&loop.body[i].node);
      if (!store || !is_along_columns(*store->buffer, store->indices)) continue;
      staged.push_back({block_for(*store->buffer), store->buffer, store->indices});
      store->buffer = staged.back().block;
      store->indices = {Index(i_), Index(j_)};
      if (const Expr* operand = operand_before(loop.body, i)) {
        operands.push_back({staged.back().block, operand->buffer, operand->indices});
        read_from_block(loop.body, operands.back());
      }
    }
    if (staged.empty()) unfit("columns of the tile of `" + accumulator_ + "` are not neighbours in what is stored");
    // Whatever was in shared memory has been read by then.
    Block result{Stmt{Barrier{}}};
    for (const Staged& one : staged) result.push_back({Alloc{one.block}});
    for (const Staged& one : operands) result.push_back(copy_in(one, loop.where != nullptr));
    if (!operands.empty()) result.push_back({Barrier{}});
    const ExprPtr where = std::exchange(loop.where, nullptr);
    // What is outside goes to the block, too, and no further: registers without branches. Only stores that stay need the mask, and what they and loads touch.
    const bool all_staged = std::none_of(loop.body.begin(), loop.body.end(), [&](const Stmt& part) {
      const auto* store = std::get_if<Store>(&part.node);
      return std::holds_alternative<Scatter>(part.node) ||
             (store && std::none_of(staged.begin(), staged.end(), [&](const Staged& one) { return one.block == store->buffer; }));
    });
    if (where && !all_staged) loop.where = where;
    if (where && all_staged) guard_loads(loop.body);
    result.push_back({std::move(loop)});
    result.push_back({Barrier{}});
    for (const Staged& one : staged) result.push_back(copy_out(one, where));
    return result;
  }

  /// Loads of what is not the tile give zero outside of it.
  static void guard_loads(Block& body) {
    rewrite_exprs(body, [](const ExprPtr& expr) -> ExprPtr {
      if (expr->kind != Expr::Kind::load || expr->otherwise || expr->buffer->space != Space::global) return expr;
      return load(expr->buffer, expr->indices, zero_of(expr->dtype));
    });
  }

  /// An element of the tile from memory that statement `store` or one before it loads, of the dtype of what is stored, and no later one; null.
  const Expr* operand_before(const Block& body, size_t store) const {
    const DType dtype = std::get<Store>(body[store].node).buffer->dtype;
    std::set<const Var*> inside = uses_of(body).loops;
    inside.erase(i_.get());
    inside.erase(j_.get());
    const Expr* found = nullptr;
    for (size_t i = 0; i < body.size(); ++i) {
      walk_exprs({body[i]}, [&](const Expr& expr) {
        const bool is_operand = expr.kind == Expr::Kind::load && !expr.otherwise && expr.buffer->space == Space::global &&
                                expr.buffer->dtype == dtype && is_along_columns(*expr.buffer, expr.indices) &&
                                std::ranges::any_of(expr.indices, [&](const Index& index) { return index.uses(i_.get()); });
        const auto is_inner = [&](const Index& index) {
          return index.uses_scalars() || std::ranges::any_of(inside, [&](const Var* var) { return index.uses(var); });
        };
        if (!is_operand || std::ranges::any_of(expr.indices, is_inner)) return;
        if (i <= store && !found) found = &expr;
        else if (i > store && found && is_load_of(expr, found->buffer, found->indices)) found = nullptr;
      });
    }
    return found;
  }
  static bool is_load_of(const Expr& expr, const BufferRef& buffer, const std::vector<Index>& indices) {
    return expr.kind == Expr::Kind::load && !expr.otherwise && expr.buffer == buffer && expr.indices == indices;
  }
  void read_from_block(Block& body, const Staged& operand) const {
    rewrite_exprs(body, [&](const ExprPtr& expr) -> ExprPtr {
      return is_load_of(*expr, operand.memory, operand.at) ? load(operand.block, {Index(i_), Index(j_)}) : expr;
    });
  }

  /// Whether neighbours along the columns of the tile are neighbours in memory.
  bool is_along_columns(const Buffer& buffer, const std::vector<Index>& indices) const {
    const std::vector<int64_t> strides = buffer.element_strides();
    Index flat;
    for (size_t axis = 0; axis < strides.size(); ++axis) flat = flat + indices[axis] * strides[axis];
    bool inside = false;
    return flat.coefficient_of(j_.get(), &inside) == 1 && !inside;
  }

  /// Elements of one.
  int64_t piece_of(const Buffer& result) const { return std::max<int64_t>(piece_bytes_ / size_bytes(result.dtype), 1); }

  BufferRef block_for(const Buffer& result) {
    const int64_t vector = piece_of(result);
    const int64_t threads = 32 * count_of(*tile_, TileDigit::Level::warp), rows = i_->extent, columns = j_->extent;
    if (columns % vector != 0 || rows * (columns / vector) % threads != 0)
      unfit("a tile of " + std::to_string(rows) + " x " + std::to_string(columns) + " has no pieces of " + std::to_string(piece_bytes_) +
            " bytes for all threads");
    Buffer prototype;
    prototype.name = names_.fresh(result.name + ".block");
    prototype.dtype = result.dtype;
    prototype.extents = {rows, columns};
    prototype.strides = {columns + 16 / size_bytes(result.dtype), 1};
    prototype.space = Space::shared;
    return make_buffer(std::move(prototype));
  }

  /// The loops over the pieces of a tile, and what is a piece's element.
  struct Pieces {
    Loop loops;
    Index r, c;
    VarRef element;
  };
  /// A row of pieces may be shorter than a warp (then a warp takes several rows) or longer (then each lane takes several pieces); where neither is whole,
  /// the pieces of all rows are one after the other.
  Pieces pieces_of(const Staged& staged) {
    const int64_t vector = piece_of(*staged.block), warps = count_of(*tile_, TileDigit::Level::warp);
    const int64_t pieces = j_->extent / vector, lanes = std::min<int64_t>(pieces, 32), rows_at_once = 32 / lanes, rows = i_->extent;
    const VarRef warp = make_var(names_.fresh(i_->name + ".warp"), warps), element = make_var(names_.fresh(j_->name + ".element"), vector);
    Pieces result{{}, {}, {}, element};
    auto& [loops, r, c, _] = result;
    if (pieces % lanes == 0 && 32 % lanes == 0 && rows % (warps * rows_at_once) == 0) {
      const VarRef row = make_var(names_.fresh(i_->name + ".row"), rows / (warps * rows_at_once)),
                   part = make_var(names_.fresh(i_->name + ".part"), rows_at_once),
                   piece = make_var(names_.fresh(j_->name + ".piece"), pieces / lanes),
                   lane = make_var(names_.fresh(j_->name + ".lane"), lanes);
      r = (Index(row) * warps + Index(warp)) * rows_at_once + Index(part);
      c = (Index(piece) * lanes + Index(lane)) * vector + Index(element);
      const bool few = row->extent * piece->extent <= kMostUnrolled;
      loops.dims = {
          {row, few ? Bind::unroll : Bind::serial}, {piece, Bind::unroll}, {warp, Bind::warp}, {part, Bind::lane}, {lane, Bind::lane}};
    } else {
      const VarRef step = make_var(names_.fresh(i_->name + ".step"), rows * pieces / (32 * warps)),
                   lane = make_var(names_.fresh(j_->name + ".lane"), 32);
      const Index number = (Index(step) * warps + Index(warp)) * 32 + Index(lane);
      r = floor_div(number, pieces);
      c = mod(number, pieces) * vector + Index(element);
      loops.dims = {{step, step->extent <= kMostUnrolled ? Bind::unroll : Bind::serial}, {warp, Bind::warp}, {lane, Bind::lane}};
    }
    loops.dims.push_back({element, Bind::vector});
    return result;
  }
  std::vector<Index> in_memory(const Staged& staged, const Pieces& pieces) const {
    const auto moved = [&](const VarRef& var) -> std::optional<Index> {
      if (var == i_) return pieces.r;
      if (var == j_) return pieces.c;
      return std::nullopt;
    };
    std::vector<Index> at;
    for (const Index& index : staged.at) at.push_back(substitute(index, moved));
    return at;
  }

  Stmt copy_out(const Staged& staged, const ExprPtr& where) {
    Pieces pieces = pieces_of(staged);
    if (where) pieces.loops.where = of_whole_pieces(substitute_var(substitute_var(where, i_, pieces.r), j_, pieces.c), pieces.element);
    pieces.loops.body.push_back({Store{staged.memory, in_memory(staged, pieces), load(staged.block, {pieces.r, pieces.c})}});
    return {std::move(pieces.loops)};
  }
  /// `masked`: the tile reaches beyond what is in memory; there are zeros.
  Stmt copy_in(const Staged& staged, bool masked) {
    Pieces pieces = pieces_of(staged);
    const ExprPtr element = load(staged.memory, in_memory(staged, pieces), masked ? zero_of(staged.block->dtype) : nullptr);
    pieces.loops.body.push_back({Store{staged.block, {pieces.r, pieces.c}, element}});
    return {std::move(pieces.loops)};
  }

  /// The mask of pieces of which all elements are inside or none: where bounds are multiples of a piece it does not ask for each element.
  static ExprPtr of_whole_pieces(const ExprPtr& mask, const VarRef& element) {
    std::vector<ExprPtr> conditions;
    for (const ExprPtr& condition : conjuncts(mask)) {
      const std::optional<UpperBound> bound = as_upper_bound(condition);
      bool whole = bound && bound->high % element->extent == 0 && bound->index.coefficient_of(element.get()) == 1;
      for (size_t i = 0; whole && i < bound->index.terms().size(); ++i) {
        const Term& term = bound->index.terms()[i];
        whole = term.atom.var == element || term.coefficient % element->extent == 0;
      }
      whole = whole && bound->index.constant() % element->extent == 0;
      conditions.push_back(whole ? substitute_var(condition, element, Index(0)) : condition);
    }
    return conjunction(conditions);
  }

  VarRef i_, j_;  ///< of the tile
  const TileLayout* tile_ = nullptr;
  NameTable names_;
  std::string accumulator_;
  int64_t piece_bytes_;
  bool found_ = false;
};

}  // namespace

Unit epilogue(const Unit& unit, const std::string& accumulator, int64_t piece_bytes) {
  Unit result = unit;
  Stager stager(unit, accumulator, piece_bytes);
  rewrite(result.body, [&](Stmt& stmt) { return stager.edit(stmt); });
  if (!stager.found()) unfit("`" + accumulator + "` has no register tile of tensor cores: tensorize it first");
  return result;
}

}  // namespace tcc::loop
