#include "schedule/nest.h"

#include <algorithm>

#include "tcc/loop/edit.h"

namespace tcc::schedule {

using namespace tcc::loop;

namespace {

/// Whether some factor of the sum of products belongs to several results. Without one (a gradient of a scale) nothing is gained by tiles.
bool reuses_factors(const Loop& loop) {
  for (const Stmt& stmt : loop.body) {
    const auto* reduce = std::get_if<Reduce>(&stmt.node);
    if (!reduce) continue;
    for (const Access& access : accesses_of(Block{stmt})) {
      const auto follows = [&](const loop::Dim& dim) { return access.flat.uses(dim.var.get()); };
      if (access.guarded) return true;
      if (!std::any_of(reduce->dims.begin(), reduce->dims.end(), follows)) continue;
      for (const loop::Dim& dim : loop.dims) {
        if (dim.var->extent > 1 && !follows(dim)) return true;
      }
    }
  }
  return false;
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
  if (has_scan) return NestKind::scan;
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
    if (at_top && value->kind == Expr::Kind::op && value->op == Op::mul_ && loads >= 2) {
      if (const std::optional<Contraction> c = as_contraction(Stmt{nest}); c && (c->a.computed || c->b.computed))
        return NestKind::computed_factor;
    }
    if (at_top && value->kind == Expr::Kind::op && value->op == Op::mul_ && loads == 2)
      return reuses_factors(nest) ? NestKind::contraction : NestKind::dot_product;
  }
  return NestKind::reduction;
}

}  // namespace

std::string_view name_of(NestKind kind) {
  switch (kind) {
    case NestKind::pointwise: return "pointwise";
    case NestKind::reduction: return "reduction";
    case NestKind::dot_product: return "dot product";
    case NestKind::contraction: return "contraction";
    case NestKind::computed_factor: return "contraction with a computed factor";
    case NestKind::rows: return "rows";
    case NestKind::scan: return "scan";
  }
  return "";
}

Nest recognise(const Stmt& stmt) {
  const Loop& loop = std::get<Loop>(stmt.node);
  Nest nest;
  nest.first = loop.dims.front().var->name;
  nest.kind = kind_of(loop);
  if (nest.kind != NestKind::contraction && nest.kind != NestKind::computed_factor) return nest;
  nest.contraction = as_contraction(stmt, &nest.not_contraction);
  if (!nest.contraction) {
    nest.not_matmul = nest.not_convolution = nest.not_contraction;
    return nest;
  }
  nest.matmul = as_matmul(*nest.contraction, &nest.not_matmul);
  nest.convolution = as_convolution(*nest.contraction, &nest.not_convolution);
  return nest;
}

}  // namespace tcc::schedule
