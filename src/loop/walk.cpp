// Visiting what a block holds. `each_expr` is the one list of where expressions stand in statements, `blocks_of` the one of where blocks do.
#include <type_traits>
#include <variant>

#include "loop/visit.h"
#include "tcc/loop/loop.h"
#include "tcc/loop/rewrite.h"

namespace tcc::loop {

std::vector<Dim>* dims_of(Stmt& stmt) {
  if (auto* loop = as<Loop>(stmt)) return &loop->dims;
  if (auto* reduce = as<Reduce>(stmt)) return &reduce->dims;
  if (auto* scan = as<Scan>(stmt)) return &scan->dims;
  return nullptr;
}
const std::vector<Dim>* dims_of(const Stmt& stmt) { return dims_of(const_cast<Stmt&>(stmt)); }

ExprPtr* where_of(Stmt& stmt) {
  if (auto* loop = as<Loop>(stmt)) return &loop->where;
  if (auto* reduce = as<Reduce>(stmt)) return &reduce->where;
  return nullptr;
}

std::vector<Block*> blocks_of(Stmt& stmt) {
  if (auto* loop = as<Loop>(stmt)) return {&loop->body};
  if (auto* reduce = as<Reduce>(stmt)) return {&reduce->body};
  if (auto* scan = as<Scan>(stmt)) return {&scan->body, &scan->after};
  if (auto* branch = as<If>(stmt)) return {&branch->then, &branch->otherwise};
  return {};
}
std::vector<const Block*> blocks_of(const Stmt& stmt) {
  const std::vector<Block*> blocks = blocks_of(const_cast<Stmt&>(stmt));
  return {blocks.begin(), blocks.end()};
}

std::vector<ScalarRef> defined_by(const Stmt& stmt) {
  std::vector<ScalarRef> result;
  if (const auto* let = as<Let>(stmt)) result.push_back(let->scalar);
  if (const auto* reduce = as<Reduce>(stmt)) {
    for (const State& state : reduce->states) result.push_back(state.result);
  }
  if (const auto* scan = as<Scan>(stmt)) {
    for (const State& state : scan->states) result.push_back(state.result);
  }
  return result;
}

void walk(const Block& block, const std::function<void(const Stmt&)>& f) {
  for (const Stmt& stmt : block) {
    f(stmt);
    for (const Block* inner : blocks_of(stmt)) walk(*inner, f);
    if (const Combine* combine = combine_of(stmt)) walk(combine->body, f);
  }
}

void walk_mutable(Block& block, const std::function<void(Stmt&)>& f) {
  for (Stmt& stmt : block) {
    f(stmt);
    for (Block* inner : blocks_of(stmt)) walk_mutable(*inner, f);
  }
}

namespace {

void walk_expr(const ExprPtr& expr, const std::function<void(const Expr&)>& f) {
  if (!expr) return;
  f(*expr);
  for (const ExprPtr& arg : expr->args) walk_expr(arg, f);
  walk_expr(expr->otherwise, f);
}

}  // namespace

void walk_exprs(const Block& block, const std::function<void(const Expr&)>& f) {
  walk(block, [&](const Stmt& stmt) { each_expr(stmt, [&](const ExprPtr& expr) { walk_expr(expr, f); }); });
}

}  // namespace tcc::loop
