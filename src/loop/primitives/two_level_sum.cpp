// two_level_sum(k_0): what the dims inside k_0 give is reduced from nothing, and then joins the rest. Rounding errors grow with the length of a sum, so two short
// sums are better than one long one; `split`, `peel` and this, repeated, make a tree of them.
//
//   %s: f32 = reduce sum %k_0 in 50, %k_1 in 64, %k_2 in 8 bind(vector) { ...  yield %v }
// becomes
//   %s: f32 = reduce sum %k_0 in 50, %k_2 in 8 bind(vector) {
//     %s.apart: f32 = reduce sum %k_1 in 64 { ...  yield %v }
//     yield %s.apart
//   }
//
// Lanes and threads stay outside: each has its own sums, and they are combined once, at the end. For reduces with combiners, whose order is free.
#include <optional>
#include <utility>

#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"

namespace tcc::loop {

namespace {

/// The dims after `at` that one lane of one thread runs move inside; nothing where there are none.
std::optional<Stmt> nested(const Reduce& reduce, int at, NameTable& names) {
  Reduce outer = reduce, inner = reduce;
  outer.dims.clear();
  inner.dims.clear();
  for (int i = 0; i < static_cast<int>(reduce.dims.size()); i++) {
    const Bind bind = reduce.dims[static_cast<size_t>(i)].bind;
    const bool moves = i > at && (bind == Bind::none || bind == Bind::serial || bind == Bind::unroll);
    (moves ? inner : outer).dims.push_back(reduce.dims[static_cast<size_t>(i)]);
  }
  if (inner.dims.empty()) return std::nullopt;
  std::vector<ExprPtr> outside, inside;
  for (const ExprPtr& condition : conjuncts(reduce.where)) (uses_any(condition, inner.dims) ? inside : outside).push_back(condition);
  outer.where = conjunction(outside);
  inner.where = conjunction(inside);
  for (size_t i = 0; i < reduce.states.size(); i++) {
    const ScalarRef& whole = reduce.states[i].result;
    inner.states[i].result = make_scalar(names.fresh(whole->name + ".apart"), whole->dtype);
    inner.states[i].init = nullptr;
    outer.states[i].value = scalar_value(inner.states[i].result);
  }
  outer.body = Block{Stmt{std::move(inner)}};
  return Stmt{std::move(outer)};
}

}  // namespace

Unit two_level_sum(const Unit& unit, const std::string& dim) {
  Unit result = unit;
  NameTable names(unit);
  bool found = false;
  rewrite(result.body, [&](Stmt& stmt) -> std::optional<Block> {
    const auto* reduce = std::get_if<Reduce>(&stmt.node);
    const int at = reduce ? find_dim(reduce->dims, dim) : -1;
    if (at < 0) return std::nullopt;
    if (reduce->combine) unfit("`" + reduce->states[0].result->name + "` combines in a way of its own");
    std::optional<Stmt> apart = nested(*reduce, at, names);
    if (!apart) return std::nullopt;
    found = true;
    return Block{std::move(*apart)};
  });
  if (!found) unfit("there is no reduce with dims inside `" + dim + "`");
  return result;
}

}  // namespace tcc::loop
