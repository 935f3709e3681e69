// epilogue(s): a finished register tile leaves through shared memory, so that each warp writes whole rows in 16-byte pieces.
//
//   map %s.tile: %i in 128 bind(tile), %j in 256 bind(tile) { %s: f32 = load %s.tile[%i, %j];  store cast<bf16>(%s), %c[%i, %j] }
// becomes, with 8 warps,
//   alloc %c.block: bf16[128, 256] strides(264, 1) shared
//   map %s.tile: %i in 128 bind(tile), %j in 256 bind(tile) { %s: f32 = load %s.tile[%i, %j];  store cast<bf16>(%s), %c.block[%i, %j] }
//   barrier
//   map %i.row in 16 bind(unroll), %i.warp in 8 bind(warp), %j.lane in 32 bind(lane), %j.element in 8 bind(vector) {
//     store load %c.block[%i.row * 8 + %i.warp, %j.lane * 8 + %j.element], %c[%i.row * 8 + %i.warp, %j.lane * 8 + %j.element]
//   }
//
// Bias, activation, residual and cast stay where the accumulators are. The tile must be stored once, along the last axis, and its rows must be 16-byte pieces for
// whole warps. The padding puts the eight rows that an accumulator fragment spans into different banks.
#include <utility>

#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"

namespace tcc::loop {

namespace {

class Stager {
 public:
  Stager(const Unit& unit, std::string accumulator) : names_(unit), accumulator_(std::move(accumulator)) {}

  std::optional<Block> edit(Stmt& stmt) {
    auto* loop = std::get_if<Loop>(&stmt.node);
    if (!loop || !loop->tile || loop->dims.size() != 2 || !is_copy(loop->tile->name, accumulator_ + ".tile")) return std::nullopt;
    if (!uses_of(loop->body).reads.contains(loop->tile.get())) return std::nullopt;
    found_ = true;
    return pass_through_shared(*loop);
  }
  bool found() const { return found_; }

 private:
  Block pass_through_shared(Loop loop) {
    auto* store = loop.body.empty() ? nullptr : std::get_if<Store>(&loop.body.back().node);
    int num_stores = 0;
    walk(loop.body,
         [&](const Stmt& part) { num_stores += std::holds_alternative<Store>(part.node) || std::holds_alternative<Scatter>(part.node); });
    if (!store || num_stores != 1) unfit("the tile of `" + accumulator_ + "` is not stored once, at the end");
    const BufferRef result = store->buffer;
    const VarRef i = loop.dims[0].var, j = loop.dims[1].var;
    const std::vector<Index> at = store->indices;
    if (at.empty() || at.back().coefficient_of(j.get()) != 1)
      unfit("columns of the tile of `" + accumulator_ + "` are no neighbours in `" + result->name + "`");
    const int64_t element = size_bytes(result->dtype), vector = 16 / element;
    const int64_t warps = count_of(*loop.tile->tile, TileDigit::Level::warp), rows = i->extent, columns = j->extent;
    if (columns % vector != 0 || rows % warps != 0)
      unfit("a tile of " + std::to_string(rows) + " x " + std::to_string(columns) + " has no 16-byte pieces for whole warps");

    Buffer prototype;
    prototype.name = names_.fresh(result->name + ".block");
    prototype.dtype = result->dtype;
    prototype.extents = {rows, columns};
    prototype.strides = {columns + vector, 1};
    prototype.space = Space::shared;
    const BufferRef block = make_buffer(std::move(prototype));
    store->buffer = block;
    store->indices = {Index(i), Index(j)};

    // A row of pieces may be shorter than a warp (then a warp takes several rows) or longer (then each lane takes several pieces).
    const int64_t pieces = columns / vector, lanes = std::min<int64_t>(pieces, 32), rows_at_once = 32 / lanes;
    if (pieces % lanes != 0 || 32 % lanes != 0 || rows % (warps * rows_at_once) != 0)
      unfit("rows of " + std::to_string(pieces) + " pieces of 16 bytes don't fill warps");
    const VarRef row = make_var(names_.fresh(i->name + ".row"), rows / (warps * rows_at_once)),
                 warp = make_var(names_.fresh(i->name + ".warp"), warps);
    const VarRef part = make_var(names_.fresh(i->name + ".part"), rows_at_once),
                 piece = make_var(names_.fresh(j->name + ".piece"), pieces / lanes);
    const VarRef lane = make_var(names_.fresh(j->name + ".lane"), lanes),
                 lane_element = make_var(names_.fresh(j->name + ".element"), vector);
    const Index r = (Index(row) * warps + Index(warp)) * rows_at_once + Index(part);
    const Index c = (Index(piece) * lanes + Index(lane)) * vector + Index(lane_element);
    Loop out;
    out.dims = {{row, Bind::unroll}, {piece, Bind::unroll}, {warp, Bind::warp},
                {part, Bind::lane},  {lane, Bind::lane},    {lane_element, Bind::vector}};
    std::vector<Index> to;
    const auto moved = [&](const VarRef& var) -> std::optional<Index> {
      if (var == i) return r;
      if (var == j) return c;
      return std::nullopt;
    };
    for (const Index& index : at) to.push_back(substitute(index, moved));
    if (loop.where) out.where = substitute_var(substitute_var(loop.where, i, r), j, c);
    out.body.push_back({Store{result, to, load(block, {r, c})}});
    return {Stmt{Alloc{block}}, Stmt{std::move(loop)}, Stmt{Barrier{}}, Stmt{std::move(out)}};
  }

  NameTable names_;
  std::string accumulator_;
  bool found_ = false;
};

}  // namespace

Unit epilogue(const Unit& unit, const std::string& accumulator) {
  Unit result = unit;
  Stager stager(unit, accumulator);
  rewrite(result.body, [&](Stmt& stmt) { return stager.edit(stmt); });
  if (!stager.found()) unfit("`" + accumulator + "` has no register tile of tensor cores: tensorize it first");
  return result;
}

}  // namespace tcc::loop
