// What kernels share that go along the columns of tiles of a product of matrices, which stay in registers (stream.cpp, chain.cpp): a block computes some rows of
// a batch; one role copies factors by the copy engine, the other one multiplies.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tcc/loop/loop.h"
#include "tcc/loop/rewrite.h"

namespace tcc::loop {

/// The tile of a block, and how the work is shared.
struct StreamSizes {
  int64_t rows, columns;
  int stages;  ///< of copies of what lies along the columns
  int math_registers, load_registers;
};

/// Says what does not fit, if anything does not: `rows_of_factors` are as long as rows of the factors.
void require_streamable(DType dtype, const std::vector<VarRef>& rows_of_factors, const StreamSizes& sizes);

/// The unit with what `build` makes of the nest that has the reduce of that name directly inside.
Unit with_nest_of(const Unit& unit, const std::string& reduce, const std::function<Block(const Stmt& nest)>& build);

class TileStream {
 protected:
  /// `row` and `column`: of the first product's results.
  TileStream(const Unit& unit, VarRef row, VarRef column, const StreamSizes& sizes);

  /// A factor in shared memory.
  struct Staged {
    BufferRef buffer;
    PipeRef pipe;
  };
  /// Coordinates in a tile.
  struct At {
    VarRef row, column;
  };

  /// The nest: a block for each of the dims but those of `inside`, and for each tile of rows.
  Stmt blocks(const std::vector<Dim>& dims, const VarRef& inside, const std::vector<Staged>& copies, Block math, Block load) const;

  Staged stage(const ExprPtr& factor, int64_t rows, int64_t columns, int stages);
  BufferRef tile(const std::string& name, DType dtype, std::vector<int64_t> extents, const TileLayout& layout);
  TileLayout accumulator_layout(int64_t columns) const;

  static Stmt op(PipeOp::Kind kind, const Staged& staged) { return {PipeOp{kind, staged.pipe}}; }
  VarRef row_var() { return make_var(names_.fresh(row_->name + "_1"), sizes_.rows); }
  ScalarRef scalar(const std::string& name) { return make_scalar(names_.fresh(name), DType::f32); }

  /// body(row) for each row of the tile `rows`.
  template <class Body> Stmt over_rows(const BufferRef& rows, Body body) {
    Loop map;
    const VarRef row = row_var();
    map.dims = {{row, Bind::tile}};
    map.tile = rows;
    map.body = body(row);
    return {std::move(map)};
  }
  template <class Body> Stmt over(const BufferRef& tile, const VarRef& column, Body body) {
    Loop map;
    const At at{row_var(), make_var(names_.fresh(column->name + "_1"), tile->extents[1])};
    map.dims = {{at.row, Bind::tile}, {at.column, Bind::tile}};
    map.tile = tile;
    map.body = body(at);
    return {std::move(map)};
  }
  static ExprPtr get(const BufferRef& tile, const At& at);
  static ExprPtr get(const BufferRef& rows, const VarRef& row);
  static Stmt put(const ExprPtr& value, const BufferRef& tile, const At& at);
  static Stmt put(const ExprPtr& value, const BufferRef& rows, const VarRef& row);
  static ExprPtr number(double value) { return constant_float(DType::f32, value); }

  /// a times b or, turned, its transpose, added to an accumulator.
  Stmt multiply(const BufferRef& to, const BufferRef& a, const BufferRef& b, int64_t n, int64_t k, bool turned) const;
  /// Copies a tile of a factor, that begins at row `from`.
  void fill(Block& block, const Staged& staged, const ExprPtr& factor, const VarRef& rows, const Index& from, const VarRef& columns);

  /// The row of the nest, of one of the tile. With `last_first` the last tiles come first, where those have most to do.
  Index row_at(const Index& within) const;
  Index column_at(const Index& within) const;
  /// A map over a tile, for the rows that the nest has.
  Stmt only_inside(Stmt map) const;
  /// What is read beside the products is 0 where a tile reaches over the end.
  static ExprPtr guarded(const ExprPtr& expr);
  /// The statements with names of their own.
  void append_fresh(Block& body, const Block& stmts, const Substitution& here);

  const StreamSizes sizes_;
  const VarRef row_, column_;
  NameTable names_;
  VarRef row_block_, column_block_;
  bool last_first_ = false;
};

}  // namespace tcc::loop
