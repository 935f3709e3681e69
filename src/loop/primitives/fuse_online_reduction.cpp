// fuse_online_reduction(m, s): a sum of exp(x - m) * y merges into the maximum m that it reads, so that one pass over the row does.
//
//   %m: f32 = reduce max %j in C { %x: f32 = load %z[%i, %j];  yield %x }
//   %s: f32 = reduce sum %j1 in C { %x1: f32 = load %z[%i, %j1];  yield exp(sub(%x1, %m)) }
// becomes
//   (%m: f32, %s: f32) = reduce %j in C { ...; yield %x, exp(sub(%x1, %x)) }
//     combine (m, s), (m', s') -> M = max(m, m'), s * exp(m - M) + s' * exp(m' - M)
//
// The rule: a factor exp(a - m) is exp(a - M) * exp(M - m), so partial sums are rescaled when the maximum moves. An iteration's own value is taken relative
// to its own x. Where both maxima are equal (both may be -inf) the scale is 1 without computing a difference; an iteration whose x is -inf adds nothing.
#include <utility>

#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"

namespace tcc::loop {

namespace {

/// Whether the value is a product with exactly one factor exp(... - m), m occurring nowhere else: then it rescales.
bool rescales(const ExprPtr& value, const Scalar* m, const Block& lets) {
  if (value->kind == Expr::Kind::scalar) {
    for (const Stmt& stmt : lets) {
      const auto* let = std::get_if<Let>(&stmt.node);
      if (let && let->scalar == value->scalar) return rescales(let->value, m, lets);
    }
    return false;
  }
  if (value->kind != Expr::Kind::op) return false;
  const auto depends_on_m = [&](const ExprPtr& expr) {
    std::set<const Scalar*> roots;
    collect_scalars(expr, roots);
    Block needed;
    if (!needed_lets(lets, roots, needed)) return true;
    return roots.contains(m) || uses_scalar(needed, m);
  };
  if (value->op == Op::mul_) {
    const bool first = depends_on_m(value->args[0]), second = depends_on_m(value->args[1]);
    if (first == second) return false;
    return rescales(value->args[first ? 0 : 1], m, lets);
  }
  if (value->op != Op::exp_) return false;
  ExprPtr difference = value->args[0];
  for (const Stmt& stmt : lets) {
    const auto* let = std::get_if<Let>(&stmt.node);
    if (let && difference->kind == Expr::Kind::scalar && let->scalar == difference->scalar) difference = let->value;
  }
  return difference->kind == Expr::Kind::op && difference->op == Op::sub_ && difference->args[1]->kind == Expr::Kind::scalar &&
         difference->args[1]->scalar.get() == m && !depends_on_m(difference->args[0]);
}

Reduce* find_reduce(Block& block, const std::string& name, size_t& position) {
  for (size_t i = 0; i < block.size(); i++) {
    auto* reduce = std::get_if<Reduce>(&block[i].node);
    if (reduce && reduce->states.size() == 1 && reduce->states[0].result->name == name) {
      position = i;
      return reduce;
    }
  }
  return nullptr;
}

/// Says what is missing where the two are not in one block.
[[noreturn]] void lacks(const Unit& unit, const std::string& first, const std::string& second) {
  for (const std::string& name : {first, second}) {
    bool found = false;
    walk(unit.body, [&](const Stmt& stmt) {
      const auto* reduce = std::get_if<Reduce>(&stmt.node);
      found |= reduce && reduce->states.size() == 1 && reduce->states[0].result->name == name;
    });
    if (!found) no_such_reduce(unit, name);
  }
  unfit("`" + first + "` and `" + second + "` are not in one block");
}

}  // namespace

Unit fuse_online_reduction(const Unit& unit, const std::string& first, const std::string& second) {
  Unit result = unit;
  NameTable names(unit);
  bool found = false;
  for_each_block(result.body, [&](Block& block) {
    size_t at_first = 0, at_second = 0;
    Reduce* m = found ? nullptr : find_reduce(block, first, at_first);
    Reduce* s = m ? find_reduce(block, second, at_second) : nullptr;
    if (!s) return;
    found = true;
    const State max = m->states[0], sum = s->states[0];
    if (max.combiner != Combiner::max || sum.combiner != Combiner::sum || m->combine || s->combine || max.init || sum.init) {
      unfit("`" + first + "` must be a maximum and `" + second + "` a sum, both from their identity");
    }
    if (m->dims.size() != s->dims.size() || at_second < at_first) unfit("`" + first + "` and `" + second + "` run over different loops");
    if (!rescales(sum.value, max.result.get(), s->body)) unfit("`" + second + "` is not a sum of exp(x - " + first + ") * y");

    Reduce merged = *m;
    const ScalarRef own = make_scalar(names.fresh(first + ".own"), max.result->dtype);
    merged.body.push_back({Let{own, max.value}});
    Substitution into;
    into.var = [&](const VarRef& var) -> std::optional<Index> {
      for (size_t i = 0; i < s->dims.size(); i++) {
        if (s->dims[i].var == var) return Index(m->dims[i].var);
      }
      return std::nullopt;
    };
    into.scalar = [&](const ScalarRef& scalar) { return scalar == max.result ? scalar_value(own) : ExprPtr(); };
    into.buffer = [](const BufferRef&) { return BufferRef(); };
    for (size_t i = 0; i < s->dims.size(); i++) {
      if (s->dims[i].var->extent != m->dims[i].var->extent) unfit("`" + first + "` and `" + second + "` run over different loops");
    }
    if ((s->where == nullptr) != (m->where == nullptr) || (s->where && !equal(substitute(s->where, into), m->where))) {
      unfit("`" + first + "` and `" + second + "` run over different iterations");
    }
    for (Stmt& stmt : substitute(s->body, into)) merged.body.push_back(std::move(stmt));

    const DType dtype = sum.result->dtype;
    auto combine = std::make_shared<Combine>();
    const auto scalar = [&](const std::string& name) { return make_scalar(names.fresh(name), dtype); };
    combine->left = {scalar(first + ".left"), scalar(second + ".left")};
    combine->right = {scalar(first + ".right"), scalar(second + ".right")};
    const ScalarRef high = scalar(first + ".high");
    combine->body.push_back({Let{high, loop::apply(Op::max_, {scalar_value(combine->left[0]), scalar_value(combine->right[0])})}});
    const auto rescaled = [&](const ScalarRef& top, const ScalarRef& total) {
      const ExprPtr same = loop::apply(Op::eq_, {scalar_value(top), scalar_value(high)});
      const ExprPtr scale = loop::apply(Op::exp_, {loop::apply(Op::sub_, {scalar_value(top), scalar_value(high)})});
      return loop::apply(Op::mul_, {scalar_value(total), loop::apply(Op::select_, {same, constant_float(dtype, 1), scale})});
    };
    combine->results = {scalar_value(high), loop::apply(Op::add_, {rescaled(combine->left[0], combine->left[1]),
                                                                   rescaled(combine->right[0], combine->right[1])})};
    State state_max = max, state_sum = sum;
    state_max.value = scalar_value(own);
    state_max.init = identity_value(Combiner::max, dtype);
    const ExprPtr nothing = loop::apply(Op::eq_, {scalar_value(own), identity_value(Combiner::max, dtype)});
    state_sum.value = loop::apply(Op::select_, {nothing, constant_float(dtype, 0), substitute(sum.value, into)});
    state_sum.init = identity_value(Combiner::sum, dtype);
    merged.states = {state_max, state_sum};
    merged.combine = std::move(combine);
    block[at_first].node = std::move(merged);
    block.erase(block.begin() + static_cast<std::ptrdiff_t>(at_second));
  });
  if (!found) lacks(unit, first, second);
  return result;
}

}  // namespace tcc::loop
