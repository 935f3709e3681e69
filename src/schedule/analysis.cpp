// Facts about a nest that the choice of a schedule rests on: which memory it touches and with which strides.
#include "schedule/analysis.h"

#include "loop/primitives/edit.h"
#include "tcc/loop/fields.h"

namespace tcc::schedule {

using namespace tcc::loop;

namespace {

Access access(const BufferRef& buffer, const std::vector<Index>& indices, bool store, bool guarded) {
  Access result{buffer, indices, Index(), store, guarded};
  const std::vector<int64_t> strides = buffer->element_strides();
  for (size_t axis = 0; axis < indices.size(); axis++) result.flat = result.flat + indices[axis] * strides[axis];
  return result;
}

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
    if (expr.kind == Expr::Kind::load) result.push_back(access(expr.buffer, expr.indices, false, expr.otherwise != nullptr));
  });
  walk(block, [&](const Stmt& stmt) {
    if (together(stmt).team != Team::thread) return;  // boxes that all threads move
    each_place(stmt, [&](Effect effect, const BufferRef& buffer, const std::vector<Index>& indices) {
      result.push_back(access(buffer, indices, effect != Effect::reads, effect == Effect::updates));
    });
  });
  return result;
}

std::vector<Access> accesses_of(const ExprPtr& expr) {
  std::vector<Access> result;
  visit(expr, [&](const Expr& e) {
    if (e.kind == Expr::Kind::load) result.push_back(access(e.buffer, e.indices, false, e.otherwise != nullptr));
  });
  return result;
}

std::optional<int64_t> stride_of(const Access& access, const Var* var) {
  bool inside = false;
  const int64_t stride = access.flat.coefficient_of(var, &inside);
  if (inside) return std::nullopt;
  return stride;
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

bool is_costly(const ExprPtr& expr) {
  bool costly = false;
  visit(expr, [&](const Expr& e) {
    if (e.kind != Expr::Kind::op) return;
    switch (e.op) {
      case Op::exp_:
      case Op::exp2_:
      case Op::expm1_:
      case Op::log_:
      case Op::log2_:
      case Op::log1p_:
      case Op::sin_:
      case Op::cos_:
      case Op::tanh_:
      case Op::erf_:
      case Op::pow_:
      case Op::sinh_:
      case Op::cosh_:
      case Op::atan_: costly = true; break;
      default: break;
    }
  });
  return costly;
}

int64_t iterations(const std::vector<loop::Dim>& dims) {
  int64_t result = 1;
  for (const auto& dim : dims) result *= dim.var->extent;
  return result;
}

}  // namespace tcc::schedule
