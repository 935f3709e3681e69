// Visiting what a block holds; what a statement holds is said in fields.h.
#include "tcc/loop/fields.h"
#include "tcc/loop/loop.h"
#include "tcc/loop/rewrite.h"

namespace tcc::loop {

std::vector<Dim>* dims_of(Stmt& stmt) {
  struct Dims : NoFields {
    std::vector<Dim>* result = nullptr;
    void dims(std::vector<Dim>& dims) { result = &dims; }
  } found;
  fields_of(stmt, found);
  return found.result;
}
const std::vector<Dim>* dims_of(const Stmt& stmt) { return dims_of(const_cast<Stmt&>(stmt)); }

ExprPtr condition_of(const Stmt& stmt) {
  struct Condition : NoFields {
    ExprPtr result;
    void condition(const ExprPtr& condition) { result = condition; }
  } found;
  fields_of(stmt, found);
  return found.result;
}
ExprPtr* where_of(Stmt& stmt) {
  struct Where : NoFields {
    bool loops = false;
    ExprPtr* result = nullptr;
    void dims(std::vector<Dim>&) { loops = true; }
    void condition(ExprPtr& condition) { result = loops ? &condition : nullptr; }
  } found;
  fields_of(stmt, found);
  return found.result;
}

std::vector<Block*> blocks_of(Stmt& stmt) {
  struct Blocks : NoFields {
    std::vector<Block*> result;
    void block(Block& block) { result.push_back(&block); }
  } found;
  fields_of(stmt, found);
  return std::move(found.result);
}
std::vector<const Block*> blocks_of(const Stmt& stmt) {
  const std::vector<Block*> blocks = blocks_of(const_cast<Stmt&>(stmt));
  return {blocks.begin(), blocks.end()};
}

std::vector<ScalarRef> defined_by(const Stmt& stmt) {
  struct Scalars : NoFields {
    std::vector<ScalarRef> result;
    void defines(const ScalarRef& scalar) { result.push_back(scalar); }
    void defines(const BufferRef&) {}
    void defines(const PipeRef&) {}
  } found;
  fields_of(stmt, found);
  return std::move(found.result);
}

const Combine* combine_of(const Stmt& stmt) {
  struct Custom : NoFields {
    const Combine* result = nullptr;
    void combine(const std::shared_ptr<const Combine>& combine) { result = combine.get(); }
  } found;
  fields_of(stmt, found);
  return found.result;
}

Together together(const Stmt& stmt) {
  struct Threads : NoFields {
    Together result;
    void together(const Together& threads) { result = threads; }
  } found;
  fields_of(stmt, found);
  return found.result;
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
