// What loop passes share: unique names, finding a loop or a definition by name, who reads and writes what, replacing expressions.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tcc/loop/loop.h"

namespace tcc::loop {

// -------------------------------------------------------------------------------------------------------------- names

/// Hands out names that nothing else in a unit has: the base itself when free, else base + a number.
class NameTable {
 public:
  NameTable() = default;
  explicit NameTable(const Unit& unit);
  explicit NameTable(const Block& block);
  void reserve(const std::string& name) { ++taken_[name]; }
  bool has(const std::string& name) const { return taken_.count(name) != 0; }
  std::string fresh(const std::string& base);  ///< reserved from now on

 private:
  std::map<std::string, int> taken_;  ///< name -> the number to try next
};

// ---------------------------------------------------------------------------------------------------- parts of a Stmt

/// The dims of a loop, reduce or scan; null for other statements.
std::vector<Dim>* dims_of(Stmt& stmt);
const std::vector<Dim>* dims_of(const Stmt& stmt);
/// The condition under which the blocks of a statement run, `where` or that of an `if`; null when there is none.
ExprPtr condition_of(const Stmt& stmt);
/// The `where` of a loop or reduce, which may be null; null for statements that have none.
ExprPtr* where_of(Stmt& stmt);
/// The blocks inside, in textual order (of a combine: none, its block is shared and never written).
std::vector<Block*> blocks_of(Stmt& stmt);
std::vector<const Block*> blocks_of(const Stmt& stmt);
/// The scalars that a statement defines for those after it.
std::vector<ScalarRef> defined_by(const Stmt& stmt);

template <class Node> Node* as(Stmt& stmt) { return std::get_if<Node>(&stmt.node); }
template <class Node> const Node* as(const Stmt& stmt) { return std::get_if<Node>(&stmt.node); }

/// Calls f on every statement, pre-order; f may change the statement, its inner blocks are then visited as f left them.
void walk_mutable(Block& block, const std::function<void(Stmt&)>& f);

// ------------------------------------------------------------------------------------------------------------ finding

/// A statement in its block. `path`: the blocks around it, outermost first, each with the position that leads on; the last is {block, index}.
struct Place {
  Block* block = nullptr;
  size_t index = 0;
  struct Step {
    Block* block;
    size_t index;
  };
  std::vector<Step> path;
  int dim = -1;  ///< found by a loop variable: which dim
  explicit operator bool() const { return block != nullptr; }
  Stmt& stmt() const { return (*block)[index]; }
};
Place find_dim(Block& body, const std::string& variable);       ///< the loop, reduce or scan with that variable
Place find_definition(Block& body, const std::string& scalar);  ///< the statement that defines the scalar
Place find_alloc(Block& body, const std::string& buffer);
BufferRef find_buffer(const Unit& unit, const std::string& name);  ///< parameter, alloc or pipe stage; null when there is none

// --------------------------------------------------------------------------------------------------------------- uses

/// What a statement or block mentions from anywhere, its own definitions included.
struct Uses {
  std::set<const Var*> vars;
  std::set<const Scalar*> scalars;
  std::set<const Buffer*> reads, writes;  ///< scatter, mma accumulators: both
  std::set<const Scalar*> defines;
  std::set<const Var*> loops;  ///< variables of its own dims
  bool barrier = false;        ///< a barrier or pipe operation inside
};
Uses uses_of(const Stmt& stmt);
Uses uses_of(const Block& block);
Uses uses_of(const ExprPtr& expr);
/// Whether `second` must stay after `first`: it reads what first defines or writes, or writes what first reads or writes.
bool depends(const Uses& second, const Uses& first);

// -------------------------------------------------------------------------------------------------------------- binds

/// How a dim bound to block, threads, thread, warp or lane takes its value from the number of the block (item, thread, warp, lane):
///   value = (number mod radix) / stride       radix 0: number / stride; an iteration runs when value < extent, other threads idle
/// The innermost dim of a level has stride 1, an outer one the product of the (largest) nest of that level within it; radix is the stride of the next dim out.
struct Digit {
  int64_t stride = 1, radix = 0;
};
std::map<const Var*, Digit> digits_of(const Block& body);
/// A product of extents, where none counts as one; at most kMostIterations, which no launch has.
int64_t capped_product(int64_t a, int64_t b);
/// Product of the largest nest of dims with that bind.
int64_t nest_extent(const Block& body, Bind bind);

// ---------------------------------------------------------------------------------------------------------- rewriting

/// The expression with f applied to every node, operands first; f returns the node itself to keep it.
ExprPtr rewrite_expr(const ExprPtr& expr, const std::function<ExprPtr(const ExprPtr&)>& f);
/// The same for each expression of each statement within, in place.
void rewrite_exprs(Block& block, const std::function<ExprPtr(const ExprPtr&)>& f);
/// A copy with new buffers in place of some, definitions included.
Block replace_buffers(const Block& block, const std::map<const Buffer*, BufferRef>& map);

// --------------------------------------------------------------------------------------------------------- combiners

/// The value that changes nothing, as a constant.
ExprPtr identity_value(Combiner combiner, DType dtype);

// ------------------------------------------------------------------------------------------------------ register tiles

/// Layouts of the m16n8 accumulators of mma.sync for an [m, n] tile held by warps_m x warps_n warps, each with a contiguous [m / warps_m, n / warps_n] part.
/// Warp number w is row w / warps_n, column w % warps_n of the warps.
TileLayout mma_accumulator_layout(int64_t m, int64_t n, int64_t warps_m, int64_t warps_n);
/// Rows of the results of an instruction of a warpgroup.
inline constexpr int64_t kWarpgroupRows = 64;
/// The same of m64nN accumulators of groups_m x groups_n warpgroups, four warps with 16 rows each. Source: PTX ISA, wgmma, layout of D.
TileLayout warpgroup_accumulator_layout(int64_t m, int64_t n, int64_t groups_m, int64_t groups_n);
/// Registers of one thread, and the coordinates that register `reg` of `lane` of `warp` holds.
int64_t registers_of(const TileLayout& layout);
/// Where the rows of a tile of two axes lie: a tile of one axis, of which each thread holds the rows that it holds elements of.
TileLayout row_layout(const TileLayout& tile);
/// The register of row_layout(tile) that has the row of a register of the tile.
int64_t row_register(const TileLayout& tile, int64_t reg);
std::vector<int64_t> coordinates_of(const TileLayout& layout, int rank, int64_t reg, int64_t lane, int64_t warp);
/// Fastest way to the product of the extents of a level.
int64_t count_of(const TileLayout& layout, TileDigit::Level level);

}  // namespace tcc::loop
