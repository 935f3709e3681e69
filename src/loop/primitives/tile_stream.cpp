#include "loop/primitives/tile_stream.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/tensor_map.h"
#include "tcc/support/integer_math.h"

namespace tcc::loop {
namespace {

constexpr int kLoadWarps = 4;

}  // namespace

void require_streamable(DType dtype, const std::vector<VarRef>& rows_of_factors, const StreamSizes& sizes) {
  const int64_t panel = kPanelBytes / size_bytes(dtype);
  if (size_bytes(dtype) != 2) unfit("factors of " + std::string(name_of(dtype)));
  for (const VarRef& row : rows_of_factors) {
    if (row->extent % panel != 0) unfit("rows of factors are no multiples of " + std::to_string(panel) + " elements");
  }
  if (sizes.rows % kWarpgroupRows != 0 || sizes.columns % 16 != 0 || sizes.columns > 256)
    unfit("a tile of " + std::to_string(sizes.rows) + " x " + std::to_string(sizes.columns));
  if (sizes.stages < 1) unfit("a pipe of " + std::to_string(sizes.stages) + " stages");
}

Unit with_nest_of(const Unit& unit, const std::string& reduce, const std::function<Block(const Stmt& nest)>& build) {
  Unit result = unit;
  bool found = false;
  rewrite(result.body, [&](Stmt& stmt) -> std::optional<Block> {
    const auto* nest = as<Loop>(stmt);
    if (!nest || found) return std::nullopt;
    found = std::any_of(nest->body.begin(), nest->body.end(), [&](const Stmt& part) {
      const auto* inside = as<Reduce>(part);
      return inside && inside->states[0].result->name == reduce;
    });
    return found ? std::optional(build(stmt)) : std::nullopt;
  });
  if (!found) no_such_reduce(unit, reduce);
  return result;
}

TileStream::TileStream(const Unit& unit, VarRef row, VarRef column, const StreamSizes& sizes)
    : sizes_(sizes), row_(std::move(row)), column_(std::move(column)), names_(unit) {
  row_block_ = make_var(names_.fresh(row_->name + "_0"), ceil_div(row_->extent, sizes_.rows));
  column_block_ = make_var(names_.fresh(column_->name + "_0"), ceil_div(column_->extent, sizes_.columns));
}

Stmt TileStream::blocks(const std::vector<Dim>& dims, const VarRef& inside, const std::vector<Staged>& copies, Block math,
                        Block load) const {
  Loop blocks;
  for (const Dim& dim : dims) {
    if (dim.var != row_ && dim.var != inside) blocks.dims.push_back({dim.var, Bind::block});
  }
  blocks.dims.push_back({row_block_, Bind::block});
  for (const Staged& staged : copies) blocks.body.push_back({PipeDecl{staged.pipe}});
  const int warps = static_cast<int>(sizes_.rows / kWarpgroupRows) * 4;
  blocks.body.push_back({Roles{
      {Role{"math", warps, sizes_.math_registers, std::move(math)}, Role{"load", kLoadWarps, sizes_.load_registers, std::move(load)}}}});
  return {std::move(blocks)};
}

TileStream::Staged TileStream::stage(const ExprPtr& factor, int64_t rows, int64_t columns, int stages) {
  Buffer prototype;
  prototype.name = names_.fresh(factor->buffer->name + ".staged");
  prototype.dtype = factor->dtype;
  prototype.extents = {rows, columns};
  prototype.space = Space::shared;
  prototype.swizzle = {3, 4, 3};
  prototype.panel = kPanelBytes / size_bytes(factor->dtype);
  const BufferRef buffer = make_buffer(std::move(prototype));
  return {buffer, make_pipe(names_.fresh(factor->buffer->name + ".pipe"), Pipe::Kind::mbarrier, stages, {buffer})};
}

BufferRef TileStream::tile(const std::string& name, DType dtype, std::vector<int64_t> extents, const TileLayout& layout) {
  Buffer prototype;
  prototype.name = names_.fresh(name);
  prototype.dtype = dtype;
  prototype.extents = std::move(extents);
  prototype.space = Space::registers;
  prototype.tile = std::make_shared<TileLayout>(layout);
  return make_buffer(std::move(prototype));
}

TileLayout TileStream::accumulator_layout(int64_t columns) const {
  return warpgroup_accumulator_layout(sizes_.rows, columns, sizes_.rows / kWarpgroupRows, 1);
}

ExprPtr TileStream::get(const BufferRef& tile, const At& at) { return loop::load(tile, {Index(at.row), Index(at.column)}); }
ExprPtr TileStream::get(const BufferRef& rows, const VarRef& row) { return loop::load(rows, {Index(row)}); }
Stmt TileStream::put(const ExprPtr& value, const BufferRef& tile, const At& at) {
  return {Store{tile, {Index(at.row), Index(at.column)}, value}};
}
Stmt TileStream::put(const ExprPtr& value, const BufferRef& rows, const VarRef& row) { return {Store{rows, {Index(row)}, value}}; }

Stmt TileStream::multiply(const BufferRef& to, const BufferRef& a, const BufferRef& b, int64_t n, int64_t k, bool turned) const {
  Mma mma;
  mma.accumulator = to;
  mma.a = a;
  mma.b = b;
  mma.a_from.assign(2, Index(0));
  mma.b_from.assign(2, Index(0));
  mma.m = sizes_.rows;
  mma.n = n;
  mma.k = k;
  mma.transpose_b = turned;
  mma.async = true;
  mma.shape = "m64nNk16";
  return {std::move(mma)};
}

void TileStream::fill(Block& block, const Staged& staged, const ExprPtr& factor, const VarRef& rows, const Index& from,
                      const VarRef& columns) {
  Copy copy;
  copy.kind = Copy::Kind::tma;
  copy.vector_bytes = 16;
  const VarRef r = make_var(names_.fresh(rows->name + ".copied"), staged.buffer->extents[0]),
               c = make_var(names_.fresh(columns->name + ".copied"), staged.buffer->extents[1]);
  copy.box = {r, c};
  copy.source = factor->buffer;
  copy.destination = staged.buffer;
  copy.to = {Index(r), Index(c)};
  for (const Index& index : factor->indices) {
    copy.from.push_back(substitute(index, [&](const VarRef& var) -> std::optional<Index> {
      if (var == rows) return from + Index(r);
      if (var == columns) return Index(c);
      return std::nullopt;
    }));
  }
  block.push_back(op(PipeOp::Kind::acquire, staged));
  block.push_back({std::move(copy)});
  block.push_back(op(PipeOp::Kind::commit, staged));
}

Index TileStream::row_at(const Index& within) const {
  const Index block = last_first_ ? Index(row_block_->extent - 1) - Index(row_block_) : Index(row_block_);
  return block * sizes_.rows + within;
}

Index TileStream::column_at(const Index& within) const { return Index(column_block_) * sizes_.columns + within; }

Stmt TileStream::only_inside(Stmt map) const {
  auto& loop = std::get<Loop>(map.node);
  loop.where = in_range(row_at(loop.dims[0].var), 0, row_->extent);
  return map;
}

ExprPtr TileStream::guarded(const ExprPtr& expr) {
  return rewrite_expr(expr, [](const ExprPtr& part) -> ExprPtr {
    if (part->kind != Expr::Kind::load || part->otherwise || part->buffer->space != Space::global) return part;
    bool inside = true;
    for (size_t axis = 0; axis < part->indices.size(); ++axis) {
      const auto high = part->indices[axis].max();
      inside = inside && high && *high < part->buffer->extents[axis];
    }
    if (inside) return part;
    return load(part->buffer, part->indices, zero_of(part->dtype));
  });
}

void TileStream::append_fresh(Block& body, const Block& stmts, const Substitution& here) {
  const Block fresh = clone_fresh(stmts, [&](const std::string& name) { return names_.fresh(name); });
  for (Stmt& stmt : substitute(fresh, here)) body.push_back(std::move(stmt));
}

}  // namespace tcc::loop
