// stream(m, 128, 128, 2, 240, 24): rows of a product of matrices that are normalised and used up by a second product (streamed_rows.h) never leave the registers.
// A block computes 128 rows: it goes along them, 128 columns at a time, with the maximum and the sum of what came so far, and corrects its results where the
// maximum moves.
//
//   map %b in 48, %i in 1024 { %m = reduce max %j ...;  %l = reduce sum %j1 ...;  map %d in 64 { %o = reduce sum %j2 ...;  store ... } }
// becomes
//   map %b in 48 bind(block), %i_0 in 8 bind(block) {
//     pipe %q.pipe stages 1 mbarrier (%q: ...);  pipe %k.pipe stages 2 mbarrier (%k: ...);  pipe %v.pipe stages 2 mbarrier (%v: ...)
//     roles {
//       role math warps 8 registers 240 {
//         ...                                                            // %m = -inf, %l = 0, %o = 0
//         wait %q.pipe
//         for %j_0 in 8 {
//           wait %k.pipe;  mma.async zero %s, %q, %k;  mma.wait 0 (%s);  release %k.pipe
//           map %s: ... { store x(load %s[%i_1, %j_1]), %s[%i_1, %j_1] }
//           map %m: %i_1 in 128 bind(tile) {
//             %high = reduce max %s: %j_1 in 128 bind(tile) { yield load %s[%i_1, %j_1] }
//             ...                                                        // the new maximum, and what the old results are worth
//           }
//           map %s: ... { store exp2(sub(mul(load %s[%i_1, %j_1], 1.44), load %base[%i_1])), %s[%i_1, %j_1] }
//           ...                                                          // %l, %o corrected; %p: the exponentials in 16 bits
//           wait %v.pipe;  mma.async %o, %p, transpose %v;  mma.wait 0 (%o);  release %v.pipe
//         }
//         release %q.pipe
//         map %o: ... { store div(load %o[%i_1, %d], load %l[%i_1]), ... }
//       }
//       role load warps 4 registers 24 { ... } } }
//
// What the second product multiplies is rounded before it is divided by the sum, not after. A row of nothing but -inf is NaN, as it is where it is computed at
// once: until another element comes, its maximum counts as 0.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "loop/primitives/tile_stream.h"
#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"
#include "tcc/loop/streamed_rows.h"
#include "tcc/loop/tensor_map.h"
#include "tcc/support/integer_math.h"

namespace tcc::loop {
namespace {

class Streamer : TileStream {
 public:
  Streamer(const Unit& unit, const StreamedRows& form, const StreamSizes& sizes)
      : TileStream(unit, form.row, form.column, sizes), form_(form) {
    last_first_ = form.diagonal.has_value();
  }

  Block build() {
    make_buffers();
    take_out_factors();
    Block math = compute(), load = copies();
    return {blocks(form_.dims, nullptr, {query_, key_, value_}, std::move(math), std::move(load))};
  }

 private:
  void make_buffers() {
    query_ = stage(form_.query, sizes_.rows, form_.first_k->extent, 1);
    key_ = stage(form_.key, sizes_.columns, form_.first_k->extent, sizes_.stages);
    value_ = stage(form_.value, sizes_.columns, form_.result->extent, sizes_.stages);
    const TileLayout scores = accumulator_layout(sizes_.columns);
    const TileLayout results = accumulator_layout(form_.result->extent);
    const auto of_rows = [&](const std::string& name) { return tile(name, DType::f32, {sizes_.rows}, row_layout(scores)); };
    scores_ = tile(form_.score->name + ".tile", DType::f32, {sizes_.rows, sizes_.columns}, scores);
    weights_ = tile(form_.score->name + ".weights", form_.value->dtype, {sizes_.rows, sizes_.columns}, scores);
    results_ = tile(form_.output->name + ".tile", DType::f32, {sizes_.rows, form_.result->extent}, results);
    maximum_ = of_rows(form_.maximum->name + ".rows");
    base_ = of_rows(form_.maximum->name + ".base");
    worth_ = of_rows(form_.sum->name + ".worth");
    sum_ = of_rows(form_.sum->name + ".rows");
  }

  void take_out_factors() {
    scaled_ = without_rounding(form_.element);
    const auto is_positive = [](const ExprPtr& expr) {
      return expr->kind == Expr::Kind::constant && std::isfinite(expr->float_value) && expr->float_value > 0;
    };
    while (scaled_->kind == Expr::Kind::op && scaled_->op == Op::mul_) {
      const size_t factor = is_positive(scaled_->args[1]) ? 1 : 0;
      if (!is_positive(scaled_->args[factor])) return;
      scale_ *= scaled_->args[factor]->float_value;
      scaled_ = scaled_->args[1 - factor];
    }
  }

  // ------------------------------------------------------------------------------------------------------- statements

  static ExprPtr low() { return number(-std::numeric_limits<double>::infinity()); }
  /// How many columns a place lies behind the last one that its row has, or less than 1.
  Index behind_diagonal(const Index& column, const Index& row) const { return column - row - Index(*form_.diagonal); }
  /// Whether some row of the block has a column of the tile.
  ExprPtr is_reached(const VarRef& column_block) const {
    if (!form_.diagonal) return nullptr;
    const Index first = behind_diagonal(Index(column_block) * sizes_.columns, row_at(Index(sizes_.rows - 1)));
    return in_range(first, first.min().value_or(0), 1);
  }
  Stmt reduce_row(const ScalarRef& result, Combiner combiner, const VarRef& row) {
    Reduce reduce;
    const VarRef column = make_var(names_.fresh(form_.column->name + "_1"), sizes_.columns);
    reduce.dims = {{column, Bind::tile}};
    reduce.tile = scores_;
    reduce.states = {{result, combiner, nullptr, get(scores_, At{row, column})}};
    return {std::move(reduce)};
  }

  // ------------------------------------------------------------------------------------------------------------ roles

  Block compute() {
    Block body;
    for (const BufferRef& buffer : {maximum_, base_, worth_, sum_, scores_, weights_, results_}) body.push_back({Alloc{buffer}});
    body.push_back(over_rows(maximum_, [&](const VarRef& row) { return Block{put(low(), maximum_, row), put(number(0), sum_, row)}; }));
    body.push_back(over(results_, form_.result, [&](const At& at) { return Block{put(number(0), results_, at)}; }));
    body.push_back(op(PipeOp::Kind::wait, query_));
    Loop steps;
    steps.kind = Loop::Kind::for_;
    steps.dims = {{column_block_, Bind::serial}};
    steps.where = is_reached(column_block_);
    steps.body = step();
    body.push_back({std::move(steps)});
    body.push_back(op(PipeOp::Kind::release, query_));
    if (!form_.row_stores.empty()) body.push_back(store_rows());
    body.push_back(store_results());
    return body;
  }

  Block step() {
    Block body;
    body.push_back(op(PipeOp::Kind::wait, key_));
    body.push_back(multiply(scores_, query_.buffer, key_.buffer, sizes_.columns, form_.first_k->extent, false));
    std::get<Mma>(body.back().node).zero_first = true;
    body.push_back({MmaWait{0, {scores_}}});
    body.push_back(op(PipeOp::Kind::release, key_));
    const bool is_score = scaled_->kind == Expr::Kind::scalar && form_.column->extent % sizes_.columns == 0;
    Block all_visible, some_hidden;
    if (!is_score) all_visible.push_back(over(scores_, form_.column, [&](const At& at) { return Block{put(element(at), scores_, at)}; }));
    if (form_.diagonal) {
      some_hidden.push_back(over(scores_, form_.column, [&](const At& at) {
        const ExprPtr visible =
            loop::apply(Op::le_, {index_value(behind_diagonal(column_at(at.column), row_at(at.row))), constant_int(DType::i64, 0)});
        return Block{put(loop::apply(Op::select_, {visible, element(at), low()}), scores_, at)};
      }));
      const Index last = behind_diagonal(column_at(Index(sizes_.columns - 1)), row_at(Index(0)));
      body.push_back(
          {If{loop::apply(Op::gt_, {index_value(last), constant_int(DType::i64, 0)}), std::move(some_hidden), std::move(all_visible)}});
    } else {
      append(body, std::move(all_visible));
    }
    body.push_back(over_rows(maximum_, [&](const VarRef& row) { return move_maximum(row); }));
    body.push_back(over(scores_, form_.column,
                        [&](const At& at) { return Block{put(exponential(get(scores_, at), get(base_, at.row)), scores_, at)}; }));
    body.push_back(over_rows(maximum_, [&](const VarRef& row) {
      const ScalarRef more = scalar(form_.sum->name + ".more");
      const ExprPtr before = loop::apply(Op::mul_, {get(sum_, row), get(worth_, row)});
      return Block{reduce_row(more, Combiner::sum, row), put(loop::apply(Op::add_, {before, scalar_value(more)}), sum_, row)};
    }));
    body.push_back(
        over(weights_, form_.column, [&](const At& at) { return Block{put(cast_to(get(scores_, at), weights_->dtype), weights_, at)}; }));
    body.push_back(over(results_, form_.result, [&](const At& at) {
      return Block{put(loop::apply(Op::mul_, {get(results_, at), get(worth_, at.row)}), results_, at)};
    }));
    body.push_back(op(PipeOp::Kind::wait, value_));
    body.push_back(multiply(results_, weights_, value_.buffer, form_.result->extent, sizes_.columns, true));
    body.push_back({MmaWait{0, {results_}}});
    body.push_back(op(PipeOp::Kind::release, value_));
    return body;
  }

  /// The exponential of an element less the maximum, of which `base` is the power of two; rounded to 16 bits soon.
  ExprPtr exponential(const ExprPtr& x, const ExprPtr& base) const {
    return approximated(loop::apply(Op::exp2_, {loop::apply(Op::sub_, {power_of_two(x), base})}));
  }
  ExprPtr power_of_two(const ExprPtr& x) const { return loop::apply(Op::mul_, {x, number(scale_ * std::numbers::log2e)}); }

  /// The element of a row without the positive factor in front of it, which need not be computed of each; -inf behind the end of the row.
  ExprPtr element(const At& at) const {
    Substitution here = places(row_at(at.row));
    const auto of_row = here.var;
    here.var = [&, of_row](const VarRef& var) -> std::optional<Index> {
      return var == form_.column ? std::optional(column_at(at.column)) : of_row(var);
    };
    here.scalar = [&](const ScalarRef& s) { return s == form_.score ? get(scores_, at) : ExprPtr(); };
    const ExprPtr value = guarded(substitute(scaled_, here));
    const ExprPtr inside = in_range(column_at(at.column), 0, form_.column->extent);
    return inside ? loop::apply(Op::select_, {inside, value, low()}) : value;
  }

  Substitution places(const Index& row) const {
    Substitution result;
    result.var = [&, row](const VarRef& var) -> std::optional<Index> { return var == form_.row ? std::optional(row) : std::nullopt; };
    result.scalar = [](const ScalarRef&) { return ExprPtr(); };
    result.buffer = [](const BufferRef&) { return BufferRef(); };
    return result;
  }

  Block move_maximum(const VarRef& row) {
    const ScalarRef high = scalar(form_.maximum->name + ".high"), now = scalar(form_.maximum->name + ".now"),
                    base = scalar(form_.maximum->name + ".base");
    const ExprPtr is_low = loop::apply(Op::eq_, {scalar_value(now), low()});
    return {reduce_row(high, Combiner::max, row),
            {Let{now, loop::apply(Op::max_, {get(maximum_, row), scalar_value(high)})}},
            {Let{base, loop::apply(Op::select_, {is_low, number(0), power_of_two(scalar_value(now))})}},
            put(exponential(get(maximum_, row), scalar_value(base)), worth_, row),
            put(scalar_value(now), maximum_, row),
            put(scalar_value(base), base_, row)};
  }

  /// The maximum and the sum of a row at its end, which every thread that has a part of it knows, and what stands for them and for the place in what is stored.
  struct Last {
    Block lets;
    ScalarRef maximum, sum;
    Substitution here;
  };
  Last last_of(const VarRef& row) {
    Last last{{}, scalar(form_.maximum->name + ".last"), scalar(form_.sum->name + ".last"), places(row_at(row))};
    const ExprPtr is_low = loop::apply(Op::eq_, {scalar_value(last.maximum), low()});
    // The tile has that of elements without their factor.
    const ExprPtr maximum = scale_ == 1 ? get(maximum_, row) : loop::apply(Op::mul_, {get(maximum_, row), number(scale_)});
    const ExprPtr sum = loop::apply(Op::select_, {is_low, number(std::numeric_limits<double>::quiet_NaN()), get(sum_, row)});
    last.lets = {{Let{last.maximum, maximum}}, {Let{last.sum, sum}}};
    last.here.scalar = [this, of_maximum = last.maximum, of_sum = last.sum](const ScalarRef& s) {
      return s == form_.maximum ? scalar_value(of_maximum) : s == form_.sum ? scalar_value(of_sum) : ExprPtr();
    };
    return last;
  }
  Stmt store_results() {
    Stmt map = over(results_, form_.result, [&](const At& at) {
      Last last = last_of(at.row);
      const ScalarRef output = scalar(form_.output->name + ".last");
      Substitution here = last.here;
      here.var = [&, of_row = here.var](const VarRef& var) -> std::optional<Index> {
        return var == form_.result ? std::optional(Index(at.column)) : of_row(var);
      };
      here.scalar = [&, of_row = here.scalar](const ScalarRef& s) { return s == form_.output ? scalar_value(output) : of_row(s); };
      Block body = std::move(last.lets);
      ExprPtr value = get(results_, at);
      for (const StreamedRows::Scale& scale : form_.scales) value = loop::apply(scale.op, {value, substitute(scale.factor, here)});
      if (form_.zero_for_nan) value = loop::apply(Op::select_, {loop::apply(Op::isnan_, {scalar_value(last.sum)}), number(0), value});
      body.push_back({Let{output, value}});
      append_fresh(body, form_.stores, here);
      return body;
    });
    return only_inside(std::move(map));
  }

  Stmt store_rows() {
    Stmt map = over_rows(maximum_, [&](const VarRef& row) {
      Last last = last_of(row);
      Block body = std::move(last.lets);
      append_fresh(body, form_.row_stores, last.here);
      return body;
    });
    return only_inside(std::move(map));
  }

  // ----------------------------------------------------------------------------------------------------------- copies

  Block copies() {
    Block body;
    fill(body, query_, form_.query, form_.row, row_at(Index(0)), form_.first_k);
    Loop steps;
    steps.kind = Loop::Kind::for_;
    const VarRef block = make_var(names_.fresh(form_.column->name + "_0"), column_block_->extent);
    steps.dims = {{block, Bind::serial}};
    steps.where = is_reached(block);
    const Index from = Index(block) * sizes_.columns;
    fill(steps.body, key_, form_.key, form_.column, from, form_.first_k);
    fill(steps.body, value_, form_.value, form_.column, from, form_.result);
    body.push_back({std::move(steps)});
    return body;
  }

  const StreamedRows& form_;
  Staged query_, key_, value_;
  BufferRef scores_, weights_, results_, maximum_, base_, worth_, sum_;
  ExprPtr scaled_;  ///< elements are `scale_` times this
  double scale_ = 1;
};

}  // namespace

Unit stream(const Unit& unit, const std::string& maximum, int64_t rows, int64_t columns, int stages, int math_registers,
            int load_registers) {
  return with_nest_of(unit, maximum, [&](const Stmt& nest) {
    std::string why_not;
    const std::optional<StreamedRows> form = as_streamed_rows(nest, &why_not);
    if (!form) unfit("the rows of `" + maximum + "` can't be streamed: " + why_not);
    const StreamSizes sizes{rows, columns, stages, math_registers, load_registers};
    require_streamable(form->query->dtype, {form->first_k, form->result}, sizes);
    return Streamer(unit, *form, sizes).build();
  });
}

}  // namespace tcc::loop
