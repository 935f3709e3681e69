// A schedule under construction, and what kinds of nests there are.
#include "schedule/chooser.h"

#include "loop/primitives/edit.h"
#include "tcc/support/diagnostics.h"

namespace tcc::schedule {

using namespace tcc::loop;

namespace {

const Stmt* find_exact(const Block& block, const std::string& name) {
  const Stmt* found = nullptr;
  walk(block, [&](const Stmt& stmt) {
    const auto* dims = dims_of(stmt);
    if (!dims || found) return;
    for (const auto& dim : *dims) {
      if (dim.var->name == name) found = &stmt;
    }
  });
  return found;
}

}  // namespace

std::vector<std::string> names_of(const std::vector<loop::Dim>& dims) {
  std::vector<std::string> names;
  for (const auto& dim : dims) names.push_back(dim.var->name);
  return names;
}

void Chooser::add(const std::string& primitive, std::vector<Argument> arguments) {
  schedule_.push_back({primitive, std::move(arguments)});
  try {
    unit_ = apply_one(unit_, schedule_.back());
  } catch (const Error& error) {
    if (error.code() != ExitCode::usage) throw;
    internal_error(error.diagnostics()[0].message + " (chosen schedule: " + print(schedule_) + ")");
  }
}

const Stmt& Chooser::find(const std::string& dim) const {
  const Stmt* stmt = find_exact(unit_.body, dim);
  if (!stmt) internal_error("there is no loop `" + dim + "` (schedule so far: " + print(schedule_) + ")");
  return *stmt;
}

bool Chooser::has(const std::string& dim) const { return find_exact(unit_.body, dim) != nullptr; }

int64_t Chooser::extent(const std::string& name) const {
  for (const auto& dim : *dims_of(find(name))) {
    if (dim.var->name == name) return dim.var->extent;
  }
  internal_error("no dim `" + name + "`");
}

std::vector<std::string> Chooser::fuse_all(const std::string& dim) {
  std::vector<loop::Dim> dims = *dims_of(find(dim));
  std::vector<std::string> names = names_of(dims);
  for (size_t i = names.size(); i-- > 1;) {
    const Stmt& stmt = find(names[i]);
    const std::vector<loop::Dim>& now = *dims_of(stmt);
    if (!fuses(stmt, now[i - 1], now[i])) continue;
    names[i - 1] = fuse(names[i - 1], names[i]);
    names.erase(names.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return names;
}

NestKind kind_of(const Loop& nest) {
  bool has_loop = false, has_scan = false;
  int num_reduces = 0;
  const Reduce* reduce = nullptr;
  walk(nest.body, [&](const Stmt& stmt) {
    has_loop |= std::holds_alternative<Loop>(stmt.node);
    has_scan |= std::holds_alternative<Scan>(stmt.node);
    if (const auto* found = std::get_if<Reduce>(&stmt.node)) {
      num_reduces++;
      reduce = found;
    }
  });
  if (has_scan) return NestKind::ordered;
  if (has_loop) return NestKind::rows;
  if (num_reduces == 0) return NestKind::pointwise;
  if (num_reduces == 1 && reduce->states.size() == 1 && !reduce->combine && reduce->states[0].combiner == Combiner::sum && !reduce->where) {
    const ExprPtr& value = reduce->states[0].value;
    const bool at_top = [&] {
      for (const Stmt& stmt : nest.body) {
        if (std::get_if<Reduce>(&stmt.node) == reduce) return true;
      }
      return false;
    }();
    int loads = 0;
    walk_exprs(reduce->body, [&](const Expr& expr) { loads += expr.kind == Expr::Kind::load; });
    visit(value, [&](const Expr& expr) { loads += expr.kind == Expr::Kind::load; });
    if (at_top && value->kind == Expr::Kind::op && value->op == Op::mul_ && loads == 2) return NestKind::contraction;
  }
  return NestKind::reduction;
}

}  // namespace tcc::schedule
