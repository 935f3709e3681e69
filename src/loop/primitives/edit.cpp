// What the primitives share: finding loops by name, editing blocks, and small facts about expressions.
#include "tcc/loop/edit.h"

#include <algorithm>
#include <utility>

#include "tcc/loop/fields.h"
#include "tcc/support/diagnostics.h"

namespace tcc::loop {

bool is_copy(std::string_view name, std::string_view stem) {
  return name.starts_with(stem) && (name.size() == stem.size() || name[stem.size()] == '.');
}

std::string restem(const std::string& name, std::string_view stem, std::string_view part) {
  return std::string(part) + name.substr(stem.size());
}

int find_dim(const std::vector<Dim>& dims, std::string_view name) {
  for (size_t i = 0; i < dims.size(); i++) {
    if (is_copy(dims[i].var->name, name)) return static_cast<int>(i);
  }
  return -1;
}

void rewrite(Block& block, const std::function<std::optional<Block>(Stmt&)>& edit) {
  Block result;
  for (Stmt& stmt : block) {
    if (std::optional<Block> replacement = edit(stmt)) {
      for (Stmt& part : *replacement) result.push_back(std::move(part));
    } else {
      for (Block* inner : blocks_of(stmt)) rewrite(*inner, edit);
      result.push_back(std::move(stmt));
    }
  }
  block = std::move(result);
}

void for_each_block(Block& block, const std::function<void(Block&)>& f) {
  f(block);
  for (Stmt& stmt : block) {
    for (Block* inner : blocks_of(stmt)) for_each_block(*inner, f);
  }
}

void visit(const ExprPtr& expr, const std::function<void(const Expr&)>& f) {
  if (!expr) return;
  f(*expr);
  visit(expr->otherwise, f);
  for (const ExprPtr& arg : expr->args) visit(arg, f);
}

namespace {

void collect_scalars(const Index& index, std::set<const Scalar*>& scalars) {
  for (const Term& term : index.terms()) {
    if (term.atom.kind == Atom::Kind::scalar) scalars.insert(term.atom.scalar.get());
    if (term.atom.operand) collect_scalars(*term.atom.operand, scalars);
  }
}

}  // namespace

bool uses(const ExprPtr& expr, const Var* var) {
  bool found = false;
  visit(expr, [&](const Expr& e) {
    found |= e.kind == Expr::Kind::index && e.index.uses(var);
    for (const Index& index : e.indices) found |= index.uses(var);
  });
  return found;
}

bool uses_any(const ExprPtr& expr, const std::vector<Dim>& dims) {
  return std::any_of(dims.begin(), dims.end(), [&](const Dim& dim) { return uses(expr, dim.var.get()); });
}

void collect_scalars(const ExprPtr& expr, std::set<const Scalar*>& scalars) {
  visit(expr, [&](const Expr& e) {
    if (e.kind == Expr::Kind::scalar) scalars.insert(e.scalar.get());
    collect_scalars(e.index, scalars);
    for (const Index& index : e.indices) collect_scalars(index, scalars);
  });
}

bool uses_scalar(const ExprPtr& expr, const Scalar* scalar) {
  std::set<const Scalar*> scalars;
  collect_scalars(expr, scalars);
  return scalars.contains(scalar);
}

void collect_scalars(const Block& block, std::set<const Scalar*>& scalars) {
  walk_exprs(block, [&](const Expr& e) {
    if (e.kind == Expr::Kind::scalar) scalars.insert(e.scalar.get());
    collect_scalars(e.index, scalars);
    for (const Index& index : e.indices) collect_scalars(index, scalars);
  });
  // Indices that belong to statements, not to expressions.
  walk(block, [&](const Stmt& stmt) {
    each_place(stmt, [&](Effect, const BufferRef&, const std::vector<Index>& indices) {
      for (const Index& index : indices) collect_scalars(index, scalars);
    });
  });
}

bool uses_scalar(const Block& block, const Scalar* scalar) {
  std::set<const Scalar*> scalars;
  collect_scalars(block, scalars);
  return scalars.contains(scalar);
}

std::vector<ExprPtr> conjuncts(const ExprPtr& condition) {
  if (!condition) return {};
  if (condition->kind != Expr::Kind::op || condition->op != Op::and_) return {condition};
  std::vector<ExprPtr> result = conjuncts(condition->args[0]);
  for (ExprPtr& part : conjuncts(condition->args[1])) result.push_back(std::move(part));
  return result;
}

ExprPtr conjunction(const std::vector<ExprPtr>& conditions) {
  ExprPtr result;
  for (const ExprPtr& condition : conditions) result = logical_and(result, condition);
  return result;
}

std::optional<UpperBound> as_upper_bound(const ExprPtr& condition) {
  if (condition->kind != Expr::Kind::op || condition->op != Op::lt_) return std::nullopt;
  const ExprPtr& index = condition->args[0];
  const ExprPtr& high = condition->args[1];
  if (index->kind != Expr::Kind::index) return std::nullopt;
  if (high->kind == Expr::Kind::constant) return UpperBound{index->index, high->int_value};
  if (high->kind == Expr::Kind::index && high->index.is_constant()) return UpperBound{index->index, high->index.constant()};
  return std::nullopt;
}

UpperBound without_divisions(const Index& index, int64_t high) {
  UpperBound bound{index, high};
  while (bound.index.terms().size() == 1) {
    const Term& term = bound.index.terms()[0];
    int64_t product = 0;
    if (term.coefficient != 1 || term.atom.kind != Atom::Kind::floor_div || __builtin_mul_overflow(bound.high, term.atom.divisor, &product))
      break;
    bound = {*term.atom.operand + Index(bound.index.constant() * term.atom.divisor), product};
  }
  return bound;
}

namespace {

Substitution replace_var(const VarRef& var, const Index& by) {
  Substitution substitution;
  substitution.var = [var, by](const VarRef& v) -> std::optional<Index> {
    if (v == var) return by;
    return std::nullopt;
  };
  substitution.scalar = [](const ScalarRef&) { return ExprPtr(); };
  substitution.buffer = [](const BufferRef&) { return BufferRef(); };
  return substitution;
}

}  // namespace

std::optional<Index> distance_of(const ExprPtr& condition) {
  if (condition->kind != Expr::Kind::op || condition->args.size() != 2) return std::nullopt;
  const auto place = [](const ExprPtr& expr) -> std::optional<Index> {
    if (expr->kind == Expr::Kind::index) return expr->index;
    return expr->kind == Expr::Kind::constant && is_integer(expr->dtype) ? std::optional<Index>(expr->int_value) : std::nullopt;
  };
  const std::optional<Index> a = place(condition->args[0]), b = place(condition->args[1]);
  if (!a || !b) return std::nullopt;
  switch (condition->op) {
    case Op::le_: return *b - *a;
    case Op::lt_: return *b - *a - Index(1);
    case Op::ge_: return *a - *b;
    case Op::gt_: return *a - *b - Index(1);
    default: return std::nullopt;
  }
}

void append(Block& block, Block more) {
  for (Stmt& stmt : more) block.push_back(std::move(stmt));
}

Block substitute_var(const Block& block, const VarRef& var, const Index& by) { return substitute(block, replace_var(var, by)); }

ExprPtr substitute_var(const ExprPtr& expr, const VarRef& var, const Index& by) {
  return expr ? substitute(expr, replace_var(var, by)) : nullptr;
}

ExprPtr combine_values(Combiner combiner, const ExprPtr& a, const ExprPtr& b) { return apply(pointwise_of(combiner), {a, b}); }

namespace {

ExprPtr guard_load(const ExprPtr& expr, const std::vector<VarRef>& unmasked) {
  if (expr->kind != Expr::Kind::load || expr->otherwise) return expr;
  for (size_t i = 0; i < expr->indices.size(); i++) {
    const Index& index = expr->indices[i];
    const bool concerned =
        index.uses_scalars() || std::any_of(unmasked.begin(), unmasked.end(), [&](const VarRef& var) { return index.uses(var.get()); });
    if (!concerned) continue;
    const std::optional<int64_t> low = index.min(), high = index.max();
    if (!low || !high || *low < 0 || *high >= expr->buffer->extents[i]) return load(expr->buffer, expr->indices, zero_of(expr->dtype));
  }
  return expr;
}

}  // namespace

Block guard_loads(const Block& block, const std::vector<VarRef>& unmasked) {
  if (unmasked.empty()) return block;
  Block result = block;
  rewrite_exprs(result, [&](const ExprPtr& expr) { return guard_load(expr, unmasked); });
  return result;
}

bool needed_lets(const Block& block, const std::set<const Scalar*>& roots, Block& needed) {
  std::set<const Scalar*> wanted = roots;
  std::vector<const Stmt*> chosen;
  for (auto stmt = block.rbegin(); stmt != block.rend(); ++stmt) {
    if (const auto* let = std::get_if<Let>(&stmt->node)) {
      if (!wanted.contains(let->scalar.get())) continue;
      collect_scalars(let->value, wanted);
      chosen.push_back(&*stmt);
    } else if (const auto* reduce = std::get_if<Reduce>(&stmt->node)) {
      for (const State& state : reduce->states) {
        if (wanted.contains(state.result.get())) return false;
      }
    }
  }
  for (auto stmt = chosen.rbegin(); stmt != chosen.rend(); ++stmt) needed.push_back(**stmt);
  return true;
}

void drop_unused(Block& block, std::set<const Scalar*> roots) {
  for (size_t i = block.size(); i-- > 0;) {
    const bool removable = std::holds_alternative<Let>(block[i].node) || std::holds_alternative<Reduce>(block[i].node);
    bool used = !removable;
    for (const ScalarRef& scalar : defined_by(block[i])) used |= roots.contains(scalar.get());
    if (!used) {
      block.erase(block.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    collect_scalars(Block{block[i]}, roots);
  }
}

}  // namespace tcc::loop
