#include "loop/row_products.h"

#include <utility>

#include "tcc/loop/edit.h"

namespace tcc::loop {

void refuse(std::string why) { throw Refused{std::move(why)}; }

ExprPtr Meanings::of(const ExprPtr& expr) const {
  visit(expr, [](const Expr& part) {
    for (const Index& index : part.indices) {
      if (index.uses_scalars()) refuse("an index is read from memory");
    }
    if (part.kind == Expr::Kind::index && part.index.uses_scalars()) refuse("an index is read from memory");
  });
  return rewrite_expr(expr, [&](const ExprPtr& part) {
    const auto found = part->kind == Expr::Kind::scalar ? meanings_.find(part->scalar.get()) : meanings_.end();
    return found == meanings_.end() ? part : found->second;
  });
}

ExprPtr without_casts(ExprPtr expr) {
  while (expr->kind == Expr::Kind::op && expr->op == Op::cast_ && is_float(expr->dtype) && is_float(expr->args[0]->dtype))
    expr = expr->args[0];
  return expr;
}

bool is_op(const ExprPtr& expr, Op op) { return expr->kind == Expr::Kind::op && expr->op == op; }

bool is_zero(const ExprPtr& expr) {
  const ExprPtr value = without_casts(expr);
  return value->kind == Expr::Kind::constant && is_float(value->dtype) && value->float_value == 0;
}

RowProduct product_of(const Reduce& sum, const Meanings& around) {
  const bool plain = sum.dims.size() == 1 && !sum.where && !sum.combine && sum.states.size() == 1 && !sum.states[0].init &&
                     sum.states[0].combiner == Combiner::sum && sum.states[0].result->dtype == DType::f32;
  if (!plain) refuse("a product is no sum over one dim");
  Meanings meanings = around;
  for (const Stmt& stmt : sum.body) {
    const auto* let = as<Let>(stmt);
    if (!let) refuse("a product has more than factors");
    meanings.add(*let);
  }
  const ExprPtr product = meanings.of(sum.states[0].value);
  if (!is_op(product, Op::mul_)) refuse("a sum is not of products");
  ExprPtr x = without_casts(product->args[0]), y = without_casts(product->args[1]);
  if (x->kind != Expr::Kind::load || y->kind != Expr::Kind::load || x->otherwise || y->otherwise) refuse("a factor is not just read");
  return {sum.states[0].result, sum.dims[0].var, std::move(x), std::move(y)};
}

namespace {

bool is_lowest(const ExprPtr& expr) {
  constexpr double kLowest = -1e30;
  const ExprPtr value = without_casts(expr);
  return value->kind == Expr::Kind::constant && is_float(value->dtype) && value->float_value <= kLowest;
}

}  // namespace

std::optional<Masked> masked_part(const ExprPtr& expr) {
  if (expr->kind != Expr::Kind::op) return std::nullopt;
  switch (expr->op) {
    case Op::cast_: {
      if (!is_float(expr->dtype) || !is_float(expr->args[0]->dtype)) return std::nullopt;
      std::optional<Masked> inner = masked_part(expr->args[0]);
      if (inner) inner->visible = cast_to(inner->visible, expr->dtype);
      return inner;
    }
    case Op::select_: {
      std::optional<Index> distance = distance_of(expr->args[0]);
      if (distance && is_lowest(expr->args[2])) return Masked{expr->args[1], *distance};
      if (distance && is_lowest(expr->args[1])) return Masked{expr->args[2], Index(-1) - *distance};
      return std::nullopt;
    }
    case Op::add_:
      for (const size_t side : {0, 1}) {
        std::optional<Masked> inner = masked_part(expr->args[side]);
        if (!inner) continue;
        const ExprPtr& other = expr->args[1 - side];
        return Masked{is_zero(inner->visible) ? other : apply(Op::add_, {other, inner->visible}), inner->distance};
      }
      return std::nullopt;
    default: return std::nullopt;
  }
}

}  // namespace tcc::loop
