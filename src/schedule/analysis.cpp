// Facts about a nest that the choice of a schedule rests on: which memory it touches and with which strides.
#include "schedule/analysis.h"

#include "tcc/loop/edit.h"
#include "tcc/loop/fields.h"
#include "tcc/loop/index_groups.h"
#include "tcc/ops/op.h"
#include "tcc/support/integer_math.h"

namespace tcc::schedule {

using namespace tcc::loop;

Access access_of(const BufferRef& buffer, const std::vector<Index>& indices, bool store, bool guarded) {
  Access result{buffer, indices, Index(), store, guarded};
  const std::vector<int64_t> strides = buffer->element_strides();
  for (size_t axis = 0; axis < indices.size(); axis++) result.flat = result.flat + indices[axis] * strides[axis];
  return result;
}

namespace {

bool stays_affine(const Index& index, const loop::Dim& outer, const loop::Dim& inner) {
  if (!index.uses(outer.var.get()) && !index.uses(inner.var.get())) return true;
  const VarRef fused = make_var("fused", outer.var->extent * inner.var->extent);
  const int64_t extent = inner.var->extent;
  const Index result = substitute(index, [&](const VarRef& var) -> std::optional<Index> {
    if (var == outer.var) return floor_div(Index(fused), extent);
    if (var == inner.var) return mod(Index(fused), extent);
    return std::nullopt;
  });
  bool inside = false;
  result.coefficient_of(fused.get(), &inside);
  return !inside;
}

}  // namespace

std::vector<Access> accesses_of(const Block& block) {
  std::vector<Access> result;
  walk_exprs(block, [&](const Expr& expr) {
    if (expr.kind == Expr::Kind::load) result.push_back(access_of(expr.buffer, expr.indices, false, expr.otherwise != nullptr));
  });
  walk(block, [&](const Stmt& stmt) {
    if (together(stmt).team != Team::thread) return;  // boxes that all threads move
    each_place(stmt, [&](Effect effect, const BufferRef& buffer, const std::vector<Index>& indices) {
      result.push_back(access_of(buffer, indices, effect != Effect::reads, effect == Effect::updates));
    });
  });
  return result;
}

std::vector<Access> accesses_of(const ExprPtr& expr) {
  std::vector<Access> result;
  visit(expr, [&](const Expr& e) {
    if (e.kind == Expr::Kind::load) result.push_back(access_of(e.buffer, e.indices, false, e.otherwise != nullptr));
  });
  return result;
}

std::optional<int64_t> stride_of(const Access& access, const Var* var) {
  bool inside = false;
  const int64_t stride = access.flat.coefficient_of(var, &inside);
  if (inside) return std::nullopt;
  return stride;
}

InGroups in_groups(const Index& index, const Var* var, int64_t width) {
  const VarRef group = loop::make_var("group", ceil_div(var->extent, width)), place = loop::make_var("place", width);
  return {loop::substitute(
              index,
              [&](const VarRef& other) { return other.get() == var ? std::optional(Index(group) * width + Index(place)) : std::nullopt; }),
          place};
}

bool guard_varies(const Access& access, const Var* var, int64_t width) {
  for (size_t axis = 0; axis < access.indices.size(); ++axis) {
    const Index& index = access.indices[axis];
    const std::optional<int64_t> low = index.min(), high = index.max();
    const int64_t extent = access.buffer->extents[axis];
    const bool inside = low && high && *low >= 0 && *high < extent;
    if (inside || !index.uses(var) || is_inside_by_groups(index, extent, var, width)) continue;
    const InGroups groups = in_groups(index, var, width);
    if (groups.index.uses(groups.place.get())) return true;
  }
  return false;
}

bool fuses(const Stmt& stmt, const loop::Dim& outer, const loop::Dim& inner) {
  if (outer.var->extent == 1 || inner.var->extent == 1) return true;  // one of them is no variable at all
  const Block block{stmt};
  for (const Access& access : accesses_of(block)) {
    if (!stays_affine(access.flat, outer, inner)) return false;
    if (!access.guarded) continue;
    for (const Index& index : access.indices) {
      if (!stays_affine(index, outer, inner)) return false;
    }
  }
  bool affine = true;
  walk_exprs(block, [&](const Expr& expr) {
    if (expr.kind == Expr::Kind::index) affine = affine && stays_affine(expr.index, outer, inner);
  });
  return affine;
}

int contiguity(const std::vector<Access>& accesses, const Var* var) {
  int score = 0;
  for (const Access& access : accesses) {
    const std::optional<int64_t> stride = stride_of(access, var);
    if (stride == 1) score++;
    else if (!stride || *stride != 0) score--;
  }
  return score;
}

bool is_costly(const ExprPtr& expr) {
  bool costly = false;
  visit(expr, [&](const Expr& e) { costly = costly || (e.kind == Expr::Kind::op && is_transcendental(e.op)); });
  return costly;
}

WrittenWork written_work(const loop::Unit& unit) {
  WrittenWork work;
  walk_exprs(unit.body, [&](const Expr& expr) {
    if (expr.kind == Expr::Kind::load) work.global_loads += expr.buffer->space == Space::global;
    if (expr.kind == Expr::Kind::op) work.costly_ops += is_transcendental(expr.op);
  });
  return work;
}

int64_t iterations(const std::vector<loop::Dim>& dims) {
  int64_t result = 1;
  for (const auto& dim : dims) result *= dim.var->extent;
  return result;
}

int64_t iterations(const std::vector<VarRef>& vars) {
  int64_t result = 1;
  for (const VarRef& var : vars) result *= var->extent;
  return result;
}

}  // namespace tcc::schedule
