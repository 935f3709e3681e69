// About how many instructions a kernel becomes: what is written out several times counts as often. Compared with that of other kernels, and with the length
// from which on a tile loop is rolled.

#include "codegen/code_size.h"

#include "tcc/codegen/codegen.h"
#include "tcc/loop/fields.h"
#include "tcc/loop/rewrite.h"

namespace tcc::codegen {
namespace {

/// Of the body for all registers of a thread. An exponential in an epilogue is about this long; LLVM and ptxas take more than proportionally longer for such
/// blocks, and they fill the instruction cache.
constexpr int64_t kLongTileLoop = 3000;
/// The same of one iteration of a rolled tile loop, for several registers. Half of it costs training steps up to 2 %, a few registers at a time 4 %.
constexpr int64_t kLongIteration = 2000;
constexpr int64_t kMma = 64;  // the instructions of a warp, and the loads before them

constexpr int64_t kDivision = 8;  ///< of an index: it stays in a register for each element that shares it

int64_t size_of(const std::vector<loop::Index>& indices) {
  int64_t size = 0;
  for (const loop::Index& index : indices) {
    for (const loop::Term& term : index.terms()) size += term.atom.operand ? kDivision + size_of({*term.atom.operand}) : 0;
  }
  return size;
}

int64_t size_of(const loop::Expr& expr) {
  int64_t size = expr.kind == loop::Expr::Kind::op ? std::max(arithmetic_cost(expr.op), 1) : 1;
  size += size_of(expr.indices);
  for (const loop::ExprPtr& arg : expr.args) size += size_of(*arg);
  return size;
}

int64_t size_of(const loop::Block& block);

struct Sizer : loop::NoFields {
  int64_t size = 1, times = 1;
  explicit Sizer(const loop::Stmt& stmt) {
    if (const auto* loop = std::get_if<loop::Loop>(&stmt.node); loop && loop->tile)
      times = loop::registers_of(*loop->tile->tile) / rolled_iterations(*loop);
  }
  void dims(const std::vector<loop::Dim>& dims) {
    for (const loop::Dim& dim : dims) {
      if (dim.bind == loop::Bind::unroll || dim.bind == loop::Bind::vector) times *= std::max<int64_t>(dim.var->extent, 1);
    }
  }
  void buffer(loop::Effect effect, const loop::BufferRef&) {
    if (effect == loop::Effect::updates) size += kMma;
  }
  void place(loop::Effect, const loop::BufferRef&, const std::vector<loop::Index>& indices) { size += size_of(indices); }
  void expr(const loop::ExprPtr& expr) { size += expr ? times * size_of(*expr) : 0; }
  void condition(const loop::ExprPtr& condition) { expr(condition); }
  void yields(const loop::ExprPtr& value, const loop::Block&) { expr(value); }
  void block(const loop::Block& block) { size += times * size_of(block); }
};

int64_t size_of(const loop::Block& block) {
  int64_t size = 0;
  for (const loop::Stmt& stmt : block) {
    Sizer sizer(stmt);
    loop::fields_of(stmt, sizer);
    size += sizer.size;
  }
  return size;
}

struct FindsWrittenTile : loop::NoFields {
  bool found = false;
  void place(loop::Effect effect, const loop::BufferRef& buffer, const std::vector<loop::Index>&) {
    found |= effect != loop::Effect::reads && buffer->tile != nullptr;
  }
  void buffer(loop::Effect effect, const loop::BufferRef& buffer) { found |= effect != loop::Effect::names && buffer && buffer->tile; }
};

}  // namespace

int64_t rolled_iterations(const loop::Loop& loop) {
  const loop::TileLayout& layout = *loop.tile->tile;
  const auto slowest = std::find_if(layout.digits.begin(), layout.digits.end(), [](const loop::TileDigit& digit) {
    return digit.level == loop::TileDigit::Level::reg && digit.extent > 1;
  });
  if (slowest == layout.digits.end()) return 1;
  const int64_t registers = loop::registers_of(layout), size = size_of(loop.body);
  if (!loop.where && registers * size < kLongTileLoop) return 1;
  FindsWrittenTile finds;
  loop::walk(loop.body, [&](const loop::Stmt& stmt) { loop::fields_of(stmt, finds); });
  loop::walk_exprs(loop.body, [&](const loop::Expr& expr) {
    finds.found |= expr.kind == loop::Expr::Kind::load && expr.buffer->tile && !(*expr.buffer->tile == layout);
  });
  if (finds.found) return 1;  // what moves on is the tile alone
  // As few as are short: one iteration's loads are under way together, and each moves what is left of the tile.
  int64_t iterations = slowest->extent;
  while (iterations % 2 == 0 && registers / (iterations / 2) * size <= kLongIteration) iterations /= 2;
  return iterations;
}

int64_t estimate_code_size(const loop::Kernel& kernel) { return size_of(kernel.body); }

}  // namespace tcc::codegen
