#include "schedule/contraction.h"

#include <map>

#include "loop/primitives/edit.h"

namespace tcc::schedule {

using namespace tcc::loop;

int Factor::axis_of(const Var* var) const {
  int found = -1;
  for (size_t axis = 0; axis < indices.size(); axis++) {
    if (!indices[axis].uses(var)) continue;
    bool inside = false;
    if (found >= 0 || indices[axis].coefficient_of(var, &inside) != 1 || inside) return -1;
    found = static_cast<int>(axis);
  }
  return found;
}

bool Factor::uses(const Var* var) const {
  for (const Index& index : indices) {
    if (index.uses(var)) return true;
  }
  return false;
}

int64_t Contraction::results() const {
  int64_t count = 1;
  for (const VarRef& var : dims) count *= var->extent;
  return count;
}

int64_t Contraction::length() const {
  int64_t count = 1;
  for (const VarRef& var : sums) count *= var->extent;
  return count;
}

namespace {

bool is_zero(const ExprPtr& expr) { return expr->kind == Expr::Kind::constant && expr->float_value == 0 && expr->int_value == 0; }

/// The load that an expression is, through lets and casts to f32.
std::optional<Factor> as_factor(ExprPtr expr, const std::map<const Scalar*, ExprPtr>& lets) {
  while (true) {
    if (expr->kind == Expr::Kind::scalar) {
      const auto found = lets.find(expr->scalar.get());
      if (found == lets.end()) return std::nullopt;
      expr = found->second;
    } else if (expr->kind == Expr::Kind::op && expr->op == Op::cast_ && expr->dtype == DType::f32) {
      expr = expr->args[0];
    } else {
      break;
    }
  }
  if (expr->kind != Expr::Kind::load || (expr->otherwise && !is_zero(expr->otherwise))) return std::nullopt;
  for (const Index& index : expr->indices) {
    if (index.uses_scalars()) return std::nullopt;
  }
  return Factor{expr->buffer, expr->indices, expr->otherwise != nullptr};
}

}  // namespace

std::optional<Contraction> as_contraction(const Stmt& stmt, bool with_spread) {
  const auto* nest = std::get_if<Loop>(&stmt.node);
  if (!nest || nest->kind != Loop::Kind::map || nest->where || nest->tile) return std::nullopt;
  const Reduce* reduce = nullptr;
  const Store* first_store = nullptr;
  for (const Stmt& part : nest->body) {
    if (const auto* found = std::get_if<Reduce>(&part.node)) {
      if (reduce) return std::nullopt;
      reduce = found;
    } else if (const auto* store = std::get_if<Store>(&part.node)) {
      if (!first_store) first_store = store;
    } else if (!std::holds_alternative<Let>(part.node)) {
      return std::nullopt;
    }
  }
  if (!reduce || !first_store || reduce->states.size() != 1 || reduce->combine || reduce->where) return std::nullopt;
  const State& state = reduce->states[0];
  if (state.combiner != Combiner::sum || state.init || state.result->dtype != DType::f32) return std::nullopt;

  std::map<const Scalar*, ExprPtr> lets;
  for (const Stmt& part : reduce->body) {
    const auto* let = std::get_if<Let>(&part.node);
    if (!let) return std::nullopt;
    lets[let->scalar.get()] = let->value;
  }
  ExprPtr product = state.value;
  while (product->kind == Expr::Kind::scalar) {
    const auto found = lets.find(product->scalar.get());
    if (found == lets.end()) return std::nullopt;
    product = found->second;
  }
  if (product->kind != Expr::Kind::op || product->op != Op::mul_) return std::nullopt;
  const auto factor_of = [&](ExprPtr expr) {
    const bool spread =
        with_spread && product == state.value && expr->kind == Expr::Kind::op && expr->op == Op::select_ && is_zero(expr->args[2]);
    if (spread) expr = expr->args[1];
    std::optional<Factor> factor = as_factor(expr, lets);
    if (factor) factor->spread = spread;
    return factor;
  };
  std::optional<Factor> a = factor_of(product->args[0]), b = factor_of(product->args[1]);
  if (!a || !b) return std::nullopt;

  Contraction result;
  result.accumulator = state.result->name;
  for (const auto& dim : nest->dims) result.dims.push_back(dim.var);
  for (const auto& dim : reduce->dims) result.sums.push_back(dim.var);

  Access stored{first_store->buffer, first_store->indices, Index(), true, false};
  const std::vector<int64_t> strides = first_store->buffer->element_strides();
  for (size_t axis = 0; axis < stored.indices.size(); axis++) stored.flat = stored.flat + stored.indices[axis] * strides[axis];
  for (const VarRef& var : result.dims) {
    if (var->extent > 1 && stride_of(stored, var.get()) == 1) result.neighbour = var;
  }
  // The factor that varies along neighbouring results is b, whose dims are columns.
  if (result.neighbour && a->uses(result.neighbour.get()) && !b->uses(result.neighbour.get())) std::swap(a, b);
  result.a = std::move(*a);
  result.b = std::move(*b);
  for (const VarRef& var : result.dims) {
    const bool in_a = result.a.uses(var.get()), in_b = result.b.uses(var.get());
    (in_a == in_b ? result.both : in_a ? result.only_a : result.only_b).push_back(var);
  }
  return result;
}

}  // namespace tcc::schedule
