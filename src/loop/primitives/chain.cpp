// chain(o, 128, 64, 2, 240, 24): products whose results make a factor of a further product (product_chain.h) never leave the registers. A block computes 128 rows
// of results: it goes along the columns, 64 at a time.
//
//   map %b in 48, %i in 1024, %d in 64 { %o = reduce sum %j in 1024 { %s = reduce sum ...;  %t = reduce sum ...;  yield w(%s, %t, m[i]) * x[j, d] };  store ... }
// becomes
//   map %b in 48 bind(block), %i_0 in 8 bind(block) {
//     pipe %q.pipe stages 1 mbarrier (...);  pipe %g.pipe ...;  pipe %k.pipe stages 2 mbarrier (...);  pipe %v.pipe ...
//     roles {
//       role math warps 8 registers 240 {
//         ...                                                            // %o = 0; what is of rows alone is read
//         wait %q.pipe;  wait %g.pipe
//         for %j_0 in 16 {
//           wait %k.pipe;  mma.async zero %s, %q, %k;  wait %v.pipe;  mma.async zero %t, %g, %v;  mma.wait 0 (%s, %t);  release %v.pipe
//           map %w: ... { store cast<bf16>(w(load %s[%i_1, %j_1], load %t[%i_1, %j_1], load %m[%i_1])), %w[%i_1, %j_1] }
//           mma.async %o, %w, transpose %k;  mma.wait 0 (%o);  release %k.pipe                 // the columns' factor of a product may be %x, too
//         }
//         ...
//       }
//       role load warps 4 registers 24 { ... } } }
//
// Several sums of the same rows and columns share products, and are stored together.
//
// The weights are computed in f32 and rounded once, as a factor. Exponentials in them are approximated (docs/math.md).
#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <optional>
#include <utility>

#include "loop/primitives/tile_stream.h"
#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"
#include "tcc/loop/product_chain.h"
#include "tcc/loop/tensor_map.h"

namespace tcc::loop {
namespace {

class Chainer : TileStream {
 public:
  Chainer(const Unit& unit, const ProductChain& form, const StreamSizes& sizes)
      : TileStream(unit, form.row, form.column, sizes), form_(form) {
    last_first_ = form.distance && form.distance->coefficient_of(form.row.get()) > 0;
  }

  Block build() {
    make_buffers();
    std::vector<Staged> copies;
    for (const std::vector<Operand>* operands : {&rows_, &columns_}) {
      for (const Operand& operand : *operands) copies.push_back(operand.staged);
    }
    Block math = compute(), load = make_copies();
    return {blocks(form_.dims, form_.result, copies, std::move(math), std::move(load))};
  }

 private:
  /// A factor, once however many products take it.
  struct Operand {
    ExprPtr factor;
    VarRef along;  ///< a row of it
    Staged staged;
  };
  struct Tiled {
    BufferRef scores;
    size_t row, column;  ///< operands
  };
  struct Result {
    ScalarRef output;
    size_t value;  ///< operand
    BufferRef weights, sums;
    ExprPtr weight;
  };
  /// What depends on the row alone, computed before the loop.
  struct OfRow {
    ExprPtr value;
    ScalarRef scalar;  ///< stands for it in weights
    BufferRef rows;
  };

  size_t operand(std::vector<Operand>& operands, const ExprPtr& factor, const VarRef& along, int64_t rows, int stages) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].along->extent == along->extent && equal(substitute_var(factor, along, Index(operands[i].along)), operands[i].factor))
        return i;
    }
    operands.push_back({factor, along, stage(factor, rows, along->extent, stages)});
    return operands.size() - 1;
  }

  void make_buffers() {
    const TileLayout scores = accumulator_layout(sizes_.columns);
    for (const ProductChain::Product& product : form_.products) {
      const size_t row = operand(rows_, product.of_row, product.k, sizes_.rows, 1);
      const size_t column = operand(columns_, product.of_column, product.k, sizes_.columns, sizes_.stages);
      products_.push_back({tile(product.score->name + ".tile", DType::f32, {sizes_.rows, sizes_.columns}, scores), row, column});
    }
    for (const ProductChain::Result& result : form_.results) {
      const std::string& name = result.output->name;
      results_.push_back({result.output, operand(columns_, result.value, form_.result, sizes_.columns, sizes_.stages),
                          tile(name + ".weights", result.value->dtype, {sizes_.rows, sizes_.columns}, scores),
                          tile(name + ".tile", DType::f32, {sizes_.rows, form_.result->extent}, accumulator_layout(form_.result->extent)),
                          weight_of(result)});
    }
  }

  /// The weight in f32, exponentials as powers of two, and what is of rows alone apart.
  ExprPtr weight_of(const ProductChain::Result& result) {
    return take_out_rows(rewrite_expr(without_rounding(result.weight), [](const ExprPtr& expr) -> ExprPtr {
      if (expr->kind != Expr::Kind::op || expr->op != Op::exp_ || expr->dtype != DType::f32) return expr;
      return approximated(loop::apply(Op::exp2_, {in_powers_of_two(expr->args[0], std::numbers::log2e)}));
    }));
  }

  /// x times a factor, which goes to what it is the difference of and into numbers.
  static ExprPtr in_powers_of_two(const ExprPtr& x, double factor) {
    if (x->kind == Expr::Kind::op && (x->op == Op::sub_ || x->op == Op::add_))
      return loop::apply(x->op, {in_powers_of_two(x->args[0], factor), in_powers_of_two(x->args[1], factor)});
    if (x->kind == Expr::Kind::op && x->op == Op::mul_) {
      for (const size_t side : {0, 1}) {
        const ExprPtr& number = x->args[side];
        if (number->kind == Expr::Kind::constant && std::isfinite(number->float_value))
          return loop::apply(Op::mul_, {x->args[1 - side], TileStream::number(number->float_value * factor)});
      }
    }
    return loop::apply(Op::mul_, {x, number(factor)});
  }

  bool is_of_row(const ExprPtr& expr) const {
    bool reads = false, other = false;
    visit(expr, [&](const Expr& part) {
      reads = reads || part.kind == Expr::Kind::load;
      other = other || part.kind == Expr::Kind::scalar;
    });
    return reads && !other && !uses(expr, form_.column.get()) && expr->dtype == DType::f32;
  }

  ExprPtr take_out_rows(const ExprPtr& expr) {
    if (is_of_row(expr)) {
      const auto same = std::find_if(of_rows_.begin(), of_rows_.end(), [&](const OfRow& known) { return equal(known.value, expr); });
      if (same != of_rows_.end()) return scalar_value(same->scalar);
      const std::string name = form_.row->name + ".value";
      of_rows_.push_back({expr, scalar(name), tile(name, DType::f32, {sizes_.rows}, row_layout(accumulator_layout(sizes_.columns)))});
      return scalar_value(of_rows_.back().scalar);
    }
    if (expr->kind != Expr::Kind::op || expr->args.empty()) return expr;
    std::vector<ExprPtr> args;
    for (const ExprPtr& arg : expr->args) args.push_back(take_out_rows(arg));
    return std::equal(args.begin(), args.end(), expr->args.begin()) ? expr : with_args(*expr, std::move(args));
  }

  // ------------------------------------------------------------------------------------------------------------- masks

  /// The largest and the least distance within the tile.
  Index distance_at(const Index& row, const Index& column) const {
    return substitute(*form_.distance, [&](const VarRef& var) -> std::optional<Index> {
      if (var == form_.row) return row_at(row);
      if (var == form_.column) return column;
      return std::nullopt;
    });
  }
  Index extreme_distance(const VarRef& column_block, bool largest) const {
    const bool late_rows = (form_.distance->coefficient_of(form_.row.get()) > 0) == largest;
    const Index first = Index(column_block) * sizes_.columns;
    return distance_at(Index(late_rows ? sizes_.rows - 1 : 0), late_rows ? first : first + Index(sizes_.columns - 1));
  }
  ExprPtr is_reached(const VarRef& column_block) const {
    if (!form_.distance) return nullptr;
    return loop::apply(Op::ge_, {index_value(extreme_distance(column_block, true)), constant_int(DType::i64, 0)});
  }

  /// The weight of an element: zero where it is hidden, and behind the end of the columns.
  ExprPtr weight_at(const Result& result, const At& at, bool all_visible) const {
    Substitution here;
    here.var = [&](const VarRef& var) -> std::optional<Index> {
      if (var == form_.row) return row_at(at.row);
      if (var == form_.column) return column_at(at.column);
      return std::nullopt;
    };
    here.scalar = [&](const ScalarRef& s) {
      for (size_t i = 0; i < products_.size(); ++i) {
        if (s == form_.products[i].score) return get(products_[i].scores, at);
      }
      for (const OfRow& of_row : of_rows_) {
        if (s == of_row.scalar) return get(of_row.rows, at.row);
      }
      return ExprPtr();
    };
    here.buffer = [](const BufferRef&) { return BufferRef(); };
    const ExprPtr value = guarded(substitute(result.weight, here));
    if (all_visible) return value;
    ExprPtr visible = in_range(column_at(at.column), 0, form_.column->extent);
    if (form_.distance)
      visible =
          logical_and(visible, loop::apply(Op::ge_, {index_value(distance_at(at.row, column_at(at.column))), constant_int(DType::i64, 0)}));
    return visible ? loop::apply(Op::select_, {visible, value, number(0)}) : value;
  }

  // ------------------------------------------------------------------------------------------------------------- roles

  Block compute() {
    Block body;
    for (const Tiled& product : products_) body.push_back({Alloc{product.scores}});
    for (const OfRow& of_row : of_rows_) body.push_back({Alloc{of_row.rows}});
    for (const Result& result : results_) {
      body.push_back({Alloc{result.weights}});
      body.push_back({Alloc{result.sums}});
      body.push_back(over(result.sums, form_.result, [&](const At& at) { return Block{put(number(0), result.sums, at)}; }));
    }
    for (const OfRow& of_row : of_rows_) {
      body.push_back(over_rows(of_row.rows, [&](const VarRef& row) {
        return Block{put(guarded(substitute_var(of_row.value, form_.row, row_at(Index(row)))), of_row.rows, row)};
      }));
    }
    for (const Operand& row : rows_) body.push_back(op(PipeOp::Kind::wait, row.staged));
    Loop steps;
    steps.kind = Loop::Kind::for_;
    steps.dims = {{column_block_, Bind::serial}};
    steps.where = is_reached(column_block_);
    steps.body = step();
    body.push_back({std::move(steps)});
    for (const Operand& row : rows_) body.push_back(op(PipeOp::Kind::release, row.staged));
    body.push_back(store_results());
    return body;
  }

  Block step() {
    Block body;
    std::vector<BufferRef> scores;
    std::vector<bool> here(columns_.size());
    for (size_t i = 0; i < products_.size(); ++i) {
      const Tiled& product = products_[i];
      const Operand &row = rows_[product.row], &column = columns_[product.column];
      if (!here[product.column]) body.push_back(op(PipeOp::Kind::wait, column.staged));
      here[product.column] = true;
      body.push_back(multiply(product.scores, row.staged.buffer, column.staged.buffer, sizes_.columns, row.along->extent, false));
      std::get<Mma>(body.back().node).zero_first = true;
      scores.push_back(product.scores);
    }
    body.push_back({MmaWait{0, scores}});
    const auto is_value = [&](size_t column) {
      return std::any_of(results_.begin(), results_.end(), [&](const Result& result) { return result.value == column; });
    };
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (!is_value(i)) body.push_back(op(PipeOp::Kind::release, columns_[i].staged));
    }
    std::vector<BufferRef> sums;
    for (const Result& result : results_) {
      body.push_back(weigh(result));
      const Operand& value = columns_[result.value];
      if (!here[result.value]) body.push_back(op(PipeOp::Kind::wait, value.staged));
      here[result.value] = true;
      body.push_back(multiply(result.sums, result.weights, value.staged.buffer, form_.result->extent, sizes_.columns, true));
      sums.push_back(result.sums);
    }
    body.push_back({MmaWait{0, sums}});
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (is_value(i)) body.push_back(op(PipeOp::Kind::release, columns_[i].staged));
    }
    return body;
  }

  /// Gives results of operations that an expression has more than once a name.
  ExprPtr named(const ExprPtr& expr, Block& lets) {
    std::vector<std::pair<ExprPtr, int>> parts;  // what is in others behind them
    const std::function<void(const ExprPtr&)> count = [&](const ExprPtr& part) {
      if (part->kind != Expr::Kind::op) return;
      const auto known = std::find_if(parts.begin(), parts.end(), [&](const auto& other) { return equal(other.first, part); });
      if (known != parts.end()) {
        ++known->second;
        return;
      }
      parts.emplace_back(part, 1);
      for (const ExprPtr& arg : part->args) count(arg);
    };
    count(expr);
    std::reverse(parts.begin(), parts.end());
    std::vector<std::pair<ExprPtr, ScalarRef>> names;
    const std::function<ExprPtr(const ExprPtr&)> with_names = [&](const ExprPtr& whole) -> ExprPtr {
      const auto name = std::find_if(names.begin(), names.end(), [&](const auto& known) { return equal(known.first, whole); });
      if (name != names.end()) return scalar_value(name->second);
      if (whole->kind != Expr::Kind::op) return whole;
      std::vector<ExprPtr> args;
      for (const ExprPtr& arg : whole->args) args.push_back(with_names(arg));
      return args == whole->args ? whole : with_args(*whole, std::move(args));
    };
    for (const auto& [part, times] : parts) {
      if (times == 1) continue;
      const ScalarRef name = make_scalar(names_.fresh(form_.row->name + ".part"), part->dtype);
      lets.push_back({Let{name, with_names(part)}});
      names.emplace_back(part, name);
    }
    return with_names(expr);
  }

  Stmt weigh(const Result& result) {
    const auto map = [&](bool all_visible) {
      return over(result.weights, form_.column, [&](const At& at) {
        Block body;
        const ExprPtr value = named(cast_to(weight_at(result, at, all_visible), result.weights->dtype), body);
        body.push_back(put(value, result.weights, at));
        return body;
      });
    };
    // Whether the tile has elements that are hidden, or behind the end.
    ExprPtr some_hidden;
    if (form_.distance)
      some_hidden = loop::apply(Op::lt_, {index_value(extreme_distance(column_block_, false)), constant_int(DType::i64, 0)});
    if (const ExprPtr whole = in_range(column_at(Index(sizes_.columns - 1)), 0, form_.column->extent)) {
      const ExprPtr ends = loop::apply(Op::not_, {whole});
      some_hidden = some_hidden ? loop::apply(Op::or_, {some_hidden, ends}) : ends;
    }
    if (!some_hidden) return map(true);
    return {If{some_hidden, {map(false)}, {map(true)}}};
  }

  Stmt store_results() {
    return only_inside(over(results_[0].sums, form_.result, [&](const At& at) {
      Block body;
      std::vector<ScalarRef> outputs;
      for (const Result& result : results_) {
        outputs.push_back(scalar(result.output->name + ".last"));
        body.push_back({Let{outputs.back(), get(result.sums, at)}});
      }
      Substitution here;
      here.var = [&](const VarRef& var) -> std::optional<Index> {
        if (var == form_.row) return row_at(at.row);
        if (var == form_.result) return Index(at.column);
        return std::nullopt;
      };
      here.scalar = [&](const ScalarRef& s) {
        for (size_t i = 0; i < results_.size(); ++i) {
          if (s == results_[i].output) return scalar_value(outputs[i]);
        }
        return ExprPtr();
      };
      here.buffer = [](const BufferRef&) { return BufferRef(); };
      append_fresh(body, form_.stores, here);
      return body;
    }));
  }

  Block make_copies() {
    Block body;
    for (const Operand& row : rows_) fill(body, row.staged, row.factor, form_.row, row_at(Index(0)), row.along);
    Loop steps;
    steps.kind = Loop::Kind::for_;
    const VarRef block = make_var(names_.fresh(form_.column->name + "_0"), column_block_->extent);
    steps.dims = {{block, Bind::serial}};
    steps.where = is_reached(block);
    for (const Operand& column : columns_)
      fill(steps.body, column.staged, column.factor, form_.column, Index(block) * sizes_.columns, column.along);
    body.push_back({std::move(steps)});
    return body;
  }

  const ProductChain& form_;
  std::vector<Operand> rows_, columns_;
  std::vector<Tiled> products_;
  std::vector<OfRow> of_rows_;
  std::vector<Result> results_;
};

}  // namespace

Unit chain(const Unit& unit, const std::string& sum, int64_t rows, int64_t columns, int stages, int math_registers, int load_registers) {
  return with_nest_of(unit, sum, [&](const Stmt& nest) {
    std::string why_not;
    const std::optional<ProductChain> form = as_product_chain(nest, &why_not);
    if (!form) unfit("`" + sum + "` is no chain of products: " + why_not);
    const StreamSizes sizes{rows, columns, stages, math_registers, load_registers};
    std::vector<VarRef> rows_of_factors{form->result};
    for (const ProductChain::Product& product : form->products) rows_of_factors.push_back(product.k);
    require_streamable(form->results[0].value->dtype, rows_of_factors, sizes);
    return Chainer(unit, *form, sizes).build();
  });
}

}  // namespace tcc::loop
