#include "tcc/loop/streamed_rows.h"

#include <utility>

#include "loop/row_products.h"
#include "tcc/loop/edit.h"

namespace tcc::loop {
namespace {

/// A reduce of one state along a row, whose body has one product.
struct AlongRow {
  const Reduce* reduce;
  VarRef column, k;
  ScalarRef score;
  ExprPtr x, y;   ///< factors of the product, loads
  ExprPtr value;  ///< what it yields
};

AlongRow along_row(const Reduce& reduce, const Meanings& around) {
  if (reduce.dims.size() != 1 || reduce.where || reduce.combine || reduce.states.size() != 1 || reduce.states[0].init)
    refuse("a reduce along the row has more than one dim or state, or a mask");
  AlongRow result{&reduce, reduce.dims[0].var, nullptr, nullptr, nullptr, nullptr, nullptr};
  Meanings meanings = around;
  for (const Stmt& stmt : reduce.body) {
    if (const auto* let = as<Let>(stmt)) {
      meanings.add(*let);
      continue;
    }
    const auto* sum = as<Reduce>(stmt);
    if (!sum || result.score) refuse("an element of a row takes more than one product");
    RowProduct product = product_of(*sum, meanings);
    result.x = std::move(product.x);
    result.y = std::move(product.y);
    result.k = product.k;
    result.score = product.result;
  }
  if (!result.score) refuse("the elements of a row are no results of a product");
  result.value = meanings.of(reduce.states[0].value);
  return result;
}

/// The expression of `from` with the variables and the score of `to`.
ExprPtr in_terms_of(const AlongRow& to, const AlongRow& from, const ExprPtr& expr) {
  Substitution moved;
  moved.var = [&](const VarRef& var) -> std::optional<Index> {
    if (var == from.column) return Index(to.column);
    if (var == from.k) return Index(to.k);
    return std::nullopt;
  };
  moved.scalar = [&](const ScalarRef& scalar) { return scalar == from.score ? scalar_value(to.score) : ExprPtr(); };
  moved.buffer = [](const BufferRef&) { return BufferRef(); };
  return substitute(expr, moved);
}

void require_same_product(const AlongRow& a, const AlongRow& b) {
  if (a.column->extent != b.column->extent || a.k->extent != b.k->extent) refuse("loops along the row differ in length");
  const ExprPtr x = in_terms_of(a, b, b.x), y = in_terms_of(a, b, b.y);
  const bool same = (equal(x, a.x) && equal(y, a.y)) || (equal(x, a.y) && equal(y, a.x));
  if (!same) refuse("loops along the row take different products");
}

class Recogniser {
 public:
  StreamedRows run(const Stmt& stmt) {
    const auto* nest = as<Loop>(stmt);
    if (!nest || nest->kind != Loop::Kind::map || nest->where) refuse("it is no map without a mask");
    rows_.dims = nest->dims;
    const Loop* inner = nullptr;
    for (const Stmt& part : nest->body) {
      if (const auto* let = as<Let>(part)) outer_.add(*let);
      else if (const auto* reduce = as<Reduce>(part)) along_.push_back(along_row(*reduce, outer_));
      else if (const auto* map = as<Loop>(part); map && !inner) inner = map;
      else if (as<Store>(part)) rows_.row_stores.push_back(part);
      else refuse("the nest has more than a maximum, a sum, what is stored of them and a map of results");
    }
    if (along_.size() != 2 || !inner) refuse("the nest has no maximum, sum and map of results");
    look_at_statistics();
    look_at_row_stores();
    look_at_results(*inner);
    look_at_product();
    look_at_mask();
    return std::move(rows_);
  }

 private:
  void look_at_statistics() {
    const State &maximum = along_[0].reduce->states[0], &sum = along_[1].reduce->states[0];
    if (maximum.combiner != Combiner::max || sum.combiner != Combiner::sum || sum.result->dtype != DType::f32 ||
        maximum.result->dtype != DType::f32)
      refuse("the reduces along the row are no maximum and sum of f32");
    require_same_product(along_[0], along_[1]);
    rows_.maximum = maximum.result;
    rows_.sum = sum.result;
    rows_.column = along_[0].column;
    rows_.first_k = along_[0].k;
    rows_.score = along_[0].score;
    rows_.element = along_[0].value;
    exponential_ = apply(Op::exp_, {apply(Op::sub_, {rows_.element, scalar_value(rows_.maximum)})});
    if (!equal(in_terms_of(along_[0], along_[1], along_[1].value), exponential_)) refuse("the sum is not of exponentials less the maximum");
  }

  void look_at_row_stores() {
    for (Stmt& stmt : rows_.row_stores) {
      rewrite_block(stmt);
      const auto& store = std::get<Store>(stmt.node);
      visit(store.value, [&](const Expr& part) {
        const bool is_other = part.kind == Expr::Kind::scalar && part.scalar != rows_.maximum && part.scalar != rows_.sum;
        if (is_other) refuse("what is stored of a row is made of more than its maximum and its sum");
      });
      for (const Index& index : store.indices) {
        if (index.uses_scalars()) refuse("an index is read from memory");
      }
    }
  }

  void look_at_results(const Loop& map) {
    if (map.kind != Loop::Kind::map || map.dims.size() != 1 || map.where || map.body.empty())
      refuse("results have more than one dim, or a mask");
    rows_.result = map.dims[0].var;
    const auto* reduce = as<Reduce>(map.body.front());
    if (!reduce) refuse("results are no sums");
    const AlongRow second = along_row(*reduce, outer_);
    const State& state = reduce->states[0];
    if (state.combiner != Combiner::sum || state.result->dtype != DType::f32) refuse("results are no sums of f32");
    require_same_product(along_[0], second);
    rows_.output = state.result;
    const ExprPtr product = in_terms_of(along_[0], second, second.value);
    if (!is_op(product, Op::mul_)) refuse("results are no sums of products");
    ExprPtr weight = product->args[0];
    rows_.value = without_casts(product->args[1]);
    if (depends_on_element(rows_.value)) {
      weight = product->args[1];
      rows_.value = without_casts(product->args[0]);
    }
    if (rows_.value->kind != Expr::Kind::load || rows_.value->otherwise || depends_on_element(rows_.value))
      refuse("a factor of the second product is not just read");
    if (!look_at_weight(weight)) refuse("the weights are not exponentials times what is one for the row");
    for (size_t i = 1; i < map.body.size(); ++i) {
      const auto* let = as<Let>(map.body[i]);
      const auto* store = as<Store>(map.body[i]);
      if (!let && !store) refuse("results are used by more than stores");
      Stmt stmt = map.body[i];
      rewrite_block(stmt);
      rows_.stores.push_back(std::move(stmt));
    }
  }

  /// Lets of the nest are put in.
  void rewrite_block(Stmt& stmt) const {
    if (auto* let = as<Let>(stmt)) let->value = outer_.of(let->value);
    if (auto* store = as<Store>(stmt)) store->value = outer_.of(store->value);
  }

  bool depends_on_element(const ExprPtr& expr) const { return uses_scalar(expr, rows_.score.get()); }

  bool look_at_weight(const ExprPtr& expr) {
    if (equal(expr, exponential_)) return true;
    if (expr->kind != Expr::Kind::op) return false;
    const auto of_row = [&](const ExprPtr& part) { return !depends_on_element(part) && !uses(part, rows_.column.get()); };
    switch (expr->op) {
      case Op::cast_: return is_float(expr->dtype) && is_float(expr->args[0]->dtype) && look_at_weight(expr->args[0]);
      case Op::mul_:
      case Op::div_: {
        const size_t other = expr->op == Op::mul_ && of_row(expr->args[0]) ? 0 : 1;
        if (!of_row(expr->args[other]) || !look_at_weight(expr->args[1 - other])) return false;
        rows_.scales.push_back({expr->op, expr->args[other]});
        return true;
      }
      case Op::select_: {
        if (!is_op(expr->args[0], Op::isnan_) || !is_zero(expr->args[1])) return false;
        if (!equal(without_casts(expr->args[0]->args[0]), without_casts(expr->args[2]))) return false;
        rows_.zero_for_nan = true;
        return look_at_weight(expr->args[2]);
      }
      default: return false;
    }
  }

  /// Which factor has the rows.
  void look_at_product() {
    rows_.query = along_[0].x;
    rows_.key = along_[0].y;
    if (uses(rows_.query, rows_.column.get())) std::swap(rows_.query, rows_.key);
    if (uses(rows_.query, rows_.column.get()) || !uses(rows_.key, rows_.column.get())) refuse("no factor is that of the rows");
    for (const Dim& dim : rows_.dims) {
      const Var* var = dim.var.get();
      if (dim.var->extent == 1 || uses(rows_.key, var) || uses(rows_.value, var) || !uses(rows_.query, var)) continue;
      if (rows_.row) refuse("rows have more than one dim");
      rows_.row = dim.var;
    }
    if (!rows_.row) refuse("no dim numbers the rows");
    const DType dtype = rows_.query->dtype;
    if (rows_.key->dtype != dtype || rows_.value->dtype != dtype) refuse("the factors have different dtypes");
  }

  void look_at_mask() {
    const std::optional<Masked> masked = masked_part(rows_.element);
    if (!masked) return;
    const Index offset = masked->distance - Index(rows_.row) + Index(rows_.column);
    if (!offset.is_constant() || offset.constant() < 0) return;  // rows of which nothing is left are another thing
    rows_.element = masked->visible;
    rows_.diagonal = offset.constant();
  }

  StreamedRows rows_;
  Meanings outer_;
  std::vector<AlongRow> along_;
  ExprPtr exponential_;
};

}  // namespace

std::optional<StreamedRows> as_streamed_rows(const Stmt& nest, std::string* why_not) { return recognised<Recogniser>(nest, why_not); }

}  // namespace tcc::loop
