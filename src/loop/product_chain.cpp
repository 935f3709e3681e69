#include "tcc/loop/product_chain.h"

#include <algorithm>
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
    const Reduce* sum = nullptr;
    for (const Stmt& part : nest->body) {
      const auto* let = as<Let>(part);
      const auto* reduce = as<Reduce>(part);
      if (reduce && !sum) sum = reduce;
      else if (let && !sum) outer_.add(*let);
      else if (let || as<Store>(part)) add_store(part);
      else refuse("the nest has more than one sum and stores");
    }
    if (!sum) refuse("the nest has no sum");
    look_at_sum(*sum);
    look_at_dims();
    look_at_mask();
    return std::move(chain_);
  }

 private:
  void add_store(Stmt stmt) {
    if (auto* let = as<Let>(stmt)) let->value = outer_.of(let->value);
    if (auto* store = as<Store>(stmt)) store->value = outer_.of(store->value);
    chain_.stores.push_back(std::move(stmt));
  }

  void look_at_sum(const Reduce& sum) {
    const bool plain = sum.dims.size() == 1 && !sum.where && !sum.combine && sum.states.size() == 1 && !sum.states[0].init &&
                       sum.states[0].combiner == Combiner::sum && sum.states[0].result->dtype == DType::f32;
    if (!plain) refuse("it is no sum of f32 over one dim");
    chain_.column = sum.dims[0].var;
    chain_.output = sum.states[0].result;
    Meanings meanings = outer_;
    for (const Stmt& stmt : sum.body) {
      const auto* let = as<Let>(stmt);
      const auto* inner = as<Reduce>(stmt);
      if (let) meanings.add(*let);
      else if (inner) products_.push_back(product_of(*inner, meanings));
      else refuse("a term of the sum is made by more than products");
    }
    if (products_.empty()) refuse("no product is within the sum");
    const ExprPtr term = meanings.of(sum.states[0].value);
    if (!is_op(term, Op::mul_)) refuse("the sum is not of products");
    const size_t side = depends_on_product(term->args[0]) ? 0 : 1;
    chain_.weight = term->args[side];
    chain_.value = without_casts(term->args[1 - side]);
    if (!depends_on_product(chain_.weight)) refuse("no factor is made of products");
    if (depends_on_product(chain_.value) || chain_.value->kind != Expr::Kind::load || chain_.value->otherwise)
      refuse("a factor is not just read");
  }

  bool depends_on_product(const ExprPtr& expr) const {
    return std::any_of(products_.begin(), products_.end(),
                       [&](const RowProduct& product) { return uses_scalar(expr, product.result.get()); });
  }

  /// Which dim numbers the rows, and which the results of a row.
  void look_at_dims() {
    for (RowProduct& product : products_) {
      if (uses(product.x, chain_.column.get())) std::swap(product.x, product.y);
      if (uses(product.x, chain_.column.get()) || !uses(product.y, chain_.column.get()))
        refuse("no factor of a product is that of rows alone");
      chain_.products.push_back({product.result, product.k, product.x, product.y});
    }
    const auto any = [&](const Var* var, ExprPtr ProductChain::Product::* factor) {
      return std::any_of(chain_.products.begin(), chain_.products.end(), [&](const auto& product) { return uses(product.*factor, var); });
    };
    for (const Dim& dim : chain_.dims) {
      const Var* var = dim.var.get();
      if (dim.var->extent == 1) continue;
      const bool of_row = any(var, &ProductChain::Product::of_row), of_column = any(var, &ProductChain::Product::of_column);
      const bool of_value = uses(chain_.value, var), of_weight = uses(chain_.weight, var);
      if (of_value && !of_row && !of_column && !of_weight) {
        if (chain_.result) refuse("results of a row have more than one dim");
        chain_.result = dim.var;
      } else if (of_row && !of_column && !of_value) {
        if (chain_.row) refuse("rows have more than one dim");
        chain_.row = dim.var;
      }
    }
    if (!chain_.row || !chain_.result) refuse("no dim numbers the rows, or none their results");
    for (const auto& product : chain_.products) {
      if (!uses(product.of_row, chain_.row.get())) refuse("a product has no rows");
      if (product.of_row->dtype != chain_.value->dtype || product.of_column->dtype != chain_.value->dtype)
        refuse("the factors have different dtypes");
    }
    if (!uses(chain_.value, chain_.column.get())) refuse("the factor that is read does not follow the sum");
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
    chain_.weight = without_casts(chain_.weight);
    chain_.distance = mask_of(chain_.weight);
    if (!chain_.distance) return;
    const int64_t of_row = chain_.distance->coefficient_of(chain_.row.get());
    const Index rest = *chain_.distance - Index(chain_.row) * of_row + Index(chain_.column) * of_row;
    if ((of_row != 1 && of_row != -1) || !rest.is_constant()) {
      chain_.distance.reset();
      return;
    }
    // What is selected where that is not negative.
    chain_.weight = rewrite_expr(chain_.weight, [&](const ExprPtr& part) {
      const std::optional<Index> distance = is_op(part, Op::select_) ? distance_of(part->args[0]) : std::nullopt;
      if (!distance) return part;
      return *distance == *chain_.distance ? part->args[1] : Index(-1) - *distance == *chain_.distance ? part->args[2] : part;
    });
  }

  ProductChain chain_;
  Meanings outer_;
  std::vector<RowProduct> products_;
};

}  // namespace

std::optional<ProductChain> as_product_chain(const Stmt& nest, std::string* why_not) {
  try {
    return Recogniser().run(nest);
  } catch (const Refused& refused) {
    if (why_not) *why_not = refused.why;
    return std::nullopt;
  }
}

}  // namespace tcc::loop
