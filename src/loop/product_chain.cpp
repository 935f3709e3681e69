#include "tcc/loop/product_chain.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "loop/row_products.h"
#include "tcc/loop/edit.h"

namespace tcc::loop {
namespace {

class Recogniser {
 public:
  ProductChain run(const Stmt& stmt) {
    const auto* nest = as<Loop>(stmt);
    if (!nest || nest->kind != Loop::Kind::map || nest->where) refuse("it is no map without a mask");
    chain_.dims = nest->dims;
    for (const Stmt& part : nest->body) {
      const auto* let = as<Let>(part);
      if (const auto* reduce = as<Reduce>(part)) look_at_sum(*reduce);
      else if (let && !depends_on_sum(let->value)) outer_.add(*let);
      else if (let || as<Store>(part)) add_store(part);
      else refuse("the nest has more than sums and stores");
    }
    if (chain_.results.empty()) refuse("the nest has no sum");
    look_at_dims();
    look_at_mask();
    return std::move(chain_);
  }

 private:
  bool depends_on_sum(const ExprPtr& expr) const {
    std::set<const Scalar*> scalars;
    collect_scalars(expr, scalars);
    return std::ranges::any_of(scalars, [&](const Scalar* scalar) { return of_sums_.contains(scalar); });
  }

  void add_store(Stmt stmt) {
    if (auto* let = as<Let>(stmt)) {
      let->value = outer_.of(let->value);
      of_sums_.insert(let->scalar.get());
    }
    if (auto* store = as<Store>(stmt)) store->value = outer_.of(store->value);
    chain_.stores.push_back(std::move(stmt));
  }

  void look_at_sum(const Reduce& sum) {
    const bool plain = sum.dims.size() == 1 && !sum.where && !sum.combine && sum.states.size() == 1 && !sum.states[0].init &&
                       sum.states[0].combiner == Combiner::sum && sum.states[0].result->dtype == DType::f32;
    if (!plain) refuse("it is no sum of f32 over one dim");
    const VarRef column = sum.dims[0].var;
    if (!chain_.column) chain_.column = column;
    if (chain_.column->extent != column->extent) refuse("sums differ in length");
    Substitution same;  // the variables and scores of the sums before
    std::map<const Scalar*, ScalarRef> scores;
    same.var = [&](const VarRef& var) { return var == column ? std::optional(Index(chain_.column)) : std::nullopt; };
    same.scalar = [&](const ScalarRef& scalar) {
      const auto known = scores.find(scalar.get());
      return known == scores.end() ? ExprPtr() : scalar_value(known->second);
    };
    same.buffer = [](const BufferRef&) { return BufferRef(); };
    Meanings meanings = outer_;
    for (const Stmt& stmt : sum.body) {
      const auto* let = as<Let>(stmt);
      const auto* inner = as<Reduce>(stmt);
      if (let) meanings.add(*let);
      else if (inner) add_product(product_of(*inner, meanings), same, scores);
      else refuse("a term of the sum is made by more than products");
    }
    if (scores.empty()) refuse("no product is within the sum");
    const ExprPtr term = meanings.of(sum.states[0].value);
    if (!is_op(term, Op::mul_)) refuse("the sum is not of products");
    const auto depends_on_product = [&](const ExprPtr& expr) {
      return std::ranges::any_of(scores, [&](const auto& score) { return uses_scalar(expr, score.first); });
    };
    const size_t side = depends_on_product(term->args[0]) ? 0 : 1;
    const ExprPtr weight = term->args[side], value = without_casts(term->args[1 - side]);
    if (!depends_on_product(weight)) refuse("no factor is made of products");
    if (depends_on_product(value) || value->kind != Expr::Kind::load || value->otherwise) refuse("a factor is not just read");
    chain_.results.push_back({without_casts(substitute(weight, same)), substitute(value, same), sum.states[0].result});
    of_sums_.insert(sum.states[0].result.get());
  }

  /// One that there is, or a new one.
  void add_product(RowProduct product, const Substitution& same, std::map<const Scalar*, ScalarRef>& scores) {
    product.x = substitute(product.x, same);
    product.y = substitute(product.y, same);
    if (uses(product.x, chain_.column.get())) std::swap(product.x, product.y);
    if (uses(product.x, chain_.column.get()) || !uses(product.y, chain_.column.get()))
      refuse("no factor of a product is that of rows alone");
    const auto known = std::ranges::find_if(chain_.products, [&](const ProductChain::Product& other) {
      const auto alike = [&](const ExprPtr& a, const ExprPtr& b) { return equal(substitute_var(a, product.k, Index(other.k)), b); };
      return other.k->extent == product.k->extent && alike(product.x, other.of_row) && alike(product.y, other.of_column);
    });
    scores[product.result.get()] = known == chain_.products.end() ? product.result : known->score;
    if (known == chain_.products.end()) chain_.products.push_back({product.result, product.k, product.x, product.y});
  }

  /// Which dim numbers the rows, and which the results of a row.
  void look_at_dims() {
    const auto any = [&](const Var* var, ExprPtr ProductChain::Product::* factor) {
      return std::any_of(chain_.products.begin(), chain_.products.end(), [&](const auto& product) { return uses(product.*factor, var); });
    };
    for (const Dim& dim : chain_.dims) {
      const Var* var = dim.var.get();
      if (dim.var->extent == 1) continue;
      const bool of_row = any(var, &ProductChain::Product::of_row), of_column = any(var, &ProductChain::Product::of_column);
      const auto in_any = [&](ExprPtr ProductChain::Result::* part) {
        return std::ranges::any_of(chain_.results, [&](const auto& result) { return uses(result.*part, var); });
      };
      const bool of_value = in_any(&ProductChain::Result::value), of_weight = in_any(&ProductChain::Result::weight);
      if (of_value && !of_row && !of_column && !of_weight) {
        if (chain_.result) refuse("results of a row have more than one dim");
        chain_.result = dim.var;
      } else if (of_row && !of_column && !of_value) {
        if (chain_.row) refuse("rows have more than one dim");
        chain_.row = dim.var;
      }
    }
    if (!chain_.row || !chain_.result) refuse("no dim numbers the rows, or none their results");
    const DType dtype = chain_.results[0].value->dtype;
    for (const auto& product : chain_.products) {
      if (!uses(product.of_row, chain_.row.get())) refuse("a product has no rows");
      if (product.of_row->dtype != dtype || product.of_column->dtype != dtype) refuse("the factors have different dtypes");
    }
    for (const auto& result : chain_.results) {
      if (result.value->dtype != dtype) refuse("the factors have different dtypes");
      if (!uses(result.value, chain_.column.get()) || !uses(result.value, chain_.result.get()))
        refuse("the factor that is read does not follow the sum");
    }
  }

  /// What is not negative where the expression may be other than zero, by a selection of zero by places.
  static std::optional<Index> mask_of(const ExprPtr& expr) {
    if (expr->kind != Expr::Kind::op) return std::nullopt;
    switch (expr->op) {
      case Op::cast_: return is_float(expr->dtype) && is_float(expr->args[0]->dtype) ? mask_of(expr->args[0]) : std::nullopt;
      case Op::mul_: {
        const std::optional<Index> first = mask_of(expr->args[0]);
        return first ? first : mask_of(expr->args[1]);
      }
      case Op::select_: {
        if (is_op(expr->args[0], Op::isnan_) && is_zero(expr->args[1])) return mask_of(expr->args[2]);
        const std::optional<Index> distance = distance_of(expr->args[0]);
        if (distance && is_zero(expr->args[2])) return distance;
        if (distance && is_zero(expr->args[1])) return Index(-1) - *distance;
        return std::nullopt;
      }
      default: return std::nullopt;
    }
  }

  void look_at_mask() {
    const std::optional<Index> distance = mask_of(chain_.results[0].weight);
    if (!distance) return;
    for (const auto& result : chain_.results) {
      const std::optional<Index> other = mask_of(result.weight);
      if (!other || !(*other == *distance)) return;
    }
    const int64_t of_row = distance->coefficient_of(chain_.row.get());
    const Index rest = *distance - Index(chain_.row) * of_row + Index(chain_.column) * of_row;
    if ((of_row != 1 && of_row != -1) || !rest.is_constant()) return;
    chain_.distance = distance;
    // What is selected where that is not negative.
    for (auto& result : chain_.results) {
      result.weight = rewrite_expr(result.weight, [&](const ExprPtr& part) {
        const std::optional<Index> other = is_op(part, Op::select_) ? distance_of(part->args[0]) : std::nullopt;
        if (!other) return part;
        return *other == *distance ? part->args[1] : Index(-1) - *other == *distance ? part->args[2] : part;
      });
    }
  }

  ProductChain chain_;
  Meanings outer_;
  std::set<const Scalar*> of_sums_;  ///< sums, and what is made of them
};

}  // namespace

std::optional<ProductChain> as_product_chain(const Stmt& nest, std::string* why_not) { return recognised<Recogniser>(nest, why_not); }

}  // namespace tcc::loop
