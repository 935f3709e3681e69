// Exponentials of elements less the maximum of their row are zero where a mask made the element too low for any: that is said where they are computed, so that what
// multiplies them need not look at such places. The mask need not be added then.
//
//   exp(sub(add(%s, select(le(index(%k), index(%j)), 0.0, -3e38)), load %m[%j]))    ->    select(ge(index(%j - %k), 0), exp(sub(%s, load %m[%j])), 0.0)
//
// A row of which nothing is left is another thing: its elements are all as low as the maximum. So it has to be plain that each row has a place that is not hidden.
#include <algorithm>

#include "loop/row_products.h"
#include "tcc/loop/edit.h"
#include "tcc/loop/product_chain.h"

namespace tcc::loop {
namespace {

class Hider {
 public:
  explicit Hider(const std::vector<BufferRef>& maxima) : maxima_(maxima) {}

  /// Returns what stands for scalars at the end.
  Meanings run(Block& block, Meanings meanings) {
    for (Stmt& stmt : block) {
      if (auto* let = as<Let>(stmt)) {
        change(let->value, meanings);
        meanings.add(*let);
      } else if (auto* reduce = as<Reduce>(stmt)) {
        const Meanings inside = run(reduce->body, meanings);
        for (State& state : reduce->states) change(state.value, inside);
      } else if (auto* loop = as<Loop>(stmt)) {
        run(loop->body, meanings);
      } else if (auto* store = as<Store>(stmt)) {
        change(store->value, meanings);
      }
    }
    return meanings;
  }

 private:
  void change(ExprPtr& value, const Meanings& meanings) const {
    value = rewrite_expr(value, [&](const ExprPtr& expr) { return hidden(expr, meanings); });
  }

  ExprPtr hidden(const ExprPtr& expr, const Meanings& meanings) const {
    if (!is_op(expr, Op::exp_) || !is_op(expr->args[0], Op::sub_)) return expr;
    const ExprPtr maximum = meanings.of(expr->args[0]->args[1]);
    if (maximum->kind != Expr::Kind::load || std::ranges::find(maxima_, maximum->buffer) == maxima_.end()) return expr;
    const std::optional<Masked> masked = masked_part(meanings.of(expr->args[0]->args[0]));
    if (!masked || !leaves_some(masked->distance, *maximum)) return expr;
    const ExprPtr shown = apply(Op::ge_, {index_value(masked->distance), constant_int(DType::i64, 0)});
    const ExprPtr value = apply(Op::exp_, {apply(Op::sub_, {masked->visible, expr->args[0]->args[1]})});
    return apply(Op::select_, {shown, value, constant_float(expr->dtype, 0)});
  }

  /// Whether each row, which the maximum is one for, has a column where the distance is not negative.
  static bool leaves_some(const Index& distance, const Expr& maximum) {
    VarRef row, column;
    for (const Term& term : distance.terms()) {
      if (term.atom.kind != Atom::Kind::var || (term.coefficient != 1 && term.coefficient != -1)) return false;
      const bool of_row = std::ranges::any_of(maximum.indices, [&](const Index& index) { return index.uses(term.atom.var.get()); });
      VarRef& found = of_row ? row : column;
      if (found) return false;
      found = term.atom.var;
    }
    if (!row || !column || distance.coefficient_of(row.get()) == distance.coefficient_of(column.get())) return false;
    // The column where the distance is largest, for the row where that is least.
    const int64_t constant = distance.constant();
    return distance.coefficient_of(row.get()) > 0 ? constant >= 0 : constant + column->extent - row->extent >= 0;
  }

  const std::vector<BufferRef>& maxima_;
};

}  // namespace

void hide_masked(Block& block, const std::vector<BufferRef>& maxima) {
  try {
    Hider(maxima).run(block, {});
  } catch (const Refused&) {}  // an index that is read from memory: what stands before it is done
}

}  // namespace tcc::loop
