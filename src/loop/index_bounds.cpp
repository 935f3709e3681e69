// A fact is `sum <= high`. An index is bounded by its terms, each by its own range, and by each fact: index = sum + rest, so index <= high + max(rest).
#include "loop/index_bounds.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tcc::loop {

std::optional<Index> index_of(const ExprPtr& expr) {
  if (is_float(expr->dtype)) return std::nullopt;
  switch (expr->kind) {
    case Expr::Kind::constant: return Index(expr->int_value);
    case Expr::Kind::index: return expr->index;
    case Expr::Kind::scalar: return Index::of_scalar(expr->scalar);
    case Expr::Kind::load: return std::nullopt;
    case Expr::Kind::op: {
      if (expr->dtype != DType::i64 || expr->args.size() != 2) return std::nullopt;
      const auto a = index_of(expr->args[0]), b = index_of(expr->args[1]);
      if (!a || !b) return std::nullopt;
      if (expr->op == Op::add_) return *a + *b;
      if (expr->op == Op::sub_) return *a - *b;
      if (expr->op == Op::mul_ && b->is_constant()) return *a * b->constant();
      if (expr->op == Op::mul_ && a->is_constant()) return *b * a->constant();
      return std::nullopt;
    }
  }
  return std::nullopt;
}

void IndexBounds::add_at_most(const Index& sum, int64_t high) {
  const Index bare = sum - Index(sum.constant());
  high -= sum.constant();
  if (bare.is_constant()) return;
  uppers_.push_back({bare, high});
  if (bare.terms().size() != 1) return;
  const Term& term = bare.terms()[0];
  if (term.atom.operand) return;
  auto& leaf = leaves_[term.atom.var ? static_cast<const void*>(term.atom.var.get()) : term.atom.scalar.get()];
  auto floor = [](int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0 ? 1 : 0); };
  if (term.coefficient > 0)
    leaf.second = std::min(leaf.second.value_or(std::numeric_limits<int64_t>::max()), floor(high, term.coefficient));
  else leaf.first = std::max(leaf.first.value_or(std::numeric_limits<int64_t>::min()), -floor(high, -term.coefficient));
}

void IndexBounds::add(Op op, const Index& a, const Index& b) {
  switch (op) {
    case Op::lt_: add_at_most(a - b, -1); break;
    case Op::le_: add_at_most(a - b, 0); break;
    case Op::gt_: add_at_most(b - a, -1); break;
    case Op::ge_: add_at_most(b - a, 0); break;
    case Op::eq_:
      add_at_most(a - b, 0);
      add_at_most(b - a, 0);
      break;
    default: break;
  }
}

void IndexBounds::assume(const ExprPtr& condition) {
  if (!condition || condition->kind != Expr::Kind::op || condition->args.size() != 2) return;
  if (condition->op == Op::and_) {
    assume(condition->args[0]);
    assume(condition->args[1]);
    return;
  }
  const auto a = index_of(condition->args[0]), b = index_of(condition->args[1]);
  if (a && b) add(condition->op, *a, *b);
}

void IndexBounds::assume_not(const ExprPtr& condition) {
  if (!condition || condition->kind != Expr::Kind::op || condition->args.size() != 2) return;
  if (condition->op == Op::or_) {
    assume_not(condition->args[0]);
    assume_not(condition->args[1]);
    return;
  }
  const auto a = index_of(condition->args[0]), b = index_of(condition->args[1]);
  if (!a || !b) return;
  switch (condition->op) {
    case Op::lt_: add(Op::ge_, *a, *b); break;
    case Op::le_: add(Op::gt_, *a, *b); break;
    case Op::gt_: add(Op::le_, *a, *b); break;
    case Op::ge_: add(Op::lt_, *a, *b); break;
    case Op::ne_: add(Op::eq_, *a, *b); break;
    default: break;
  }
}

std::optional<Bounds> IndexBounds::bounds_of(const Atom& atom) const {
  if (atom.operand) {
    const auto inner = bounds(*atom.operand);
    const int64_t d = atom.divisor;
    auto floor = [d](int64_t a) { return a / d - (a % d != 0 && a < 0 ? 1 : 0); };
    if (atom.kind == Atom::Kind::floor_div) return inner ? std::optional(Bounds{floor(inner->low), floor(inner->high)}) : std::nullopt;
    if (inner && floor(inner->low) == floor(inner->high))
      return Bounds{inner->low - floor(inner->low) * d, inner->high - floor(inner->high) * d};
    return Bounds{0, d - 1};
  }
  std::optional<int64_t> low, high;
  if (atom.var) low = 0, high = std::max<int64_t>(atom.var->extent - 1, 0);
  const auto known = leaves_.find(atom.var ? static_cast<const void*>(atom.var.get()) : atom.scalar.get());
  if (known != leaves_.end()) {
    if (known->second.first) low = std::max(low.value_or(*known->second.first), *known->second.first);
    if (known->second.second) high = std::min(high.value_or(*known->second.second), *known->second.second);
  }
  if (!low || !high) return std::nullopt;
  return Bounds{*low, std::max(*low, *high)};
}

std::optional<Bounds> IndexBounds::by_terms(const Index& index) const {
  Bounds result{index.constant(), index.constant()};
  for (const Term& term : index.terms()) {
    const auto atom = bounds_of(term.atom);
    if (!atom) return std::nullopt;
    result.low += term.coefficient * (term.coefficient > 0 ? atom->low : atom->high);
    result.high += term.coefficient * (term.coefficient > 0 ? atom->high : atom->low);
  }
  return result;
}

std::optional<Bounds> IndexBounds::bounds(const Index& index) const {
  const auto plain = by_terms(index);
  std::optional<int64_t> low, high;
  if (plain) low = plain->low, high = plain->high;
  // Index::min and max know no facts, but see through divisions.
  if (const auto least = index.min()) low = std::max(low.value_or(*least), *least);
  if (const auto most = index.max()) high = std::min(high.value_or(*most), *most);
  constexpr int kDeepest = 2;
  if (depth_ >= kDeepest) return low && high ? std::optional(Bounds{*low, *high}) : std::nullopt;
  depth_++;
  for (const Upper& fact : uppers_) {
    if (const auto rest = by_terms(index - fact.sum))
      high = std::min(high.value_or(std::numeric_limits<int64_t>::max()), fact.high + rest->high);
    if (const auto rest = by_terms(index + fact.sum))
      low = std::max(low.value_or(std::numeric_limits<int64_t>::min()), rest->low - fact.high);
  }
  depth_--;
  if (!low || !high) return std::nullopt;
  return Bounds{*low, *high};
}

bool IndexBounds::mentions(const Index& index) const {
  std::vector<VarRef> vars;
  collect_vars(index, vars);
  return std::any_of(vars.begin(), vars.end(), [&](const VarRef& var) {
    return std::any_of(uppers_.begin(), uppers_.end(), [&](const Upper& upper) { return upper.sum.uses(var.get()); });
  });
}

bool IndexBounds::proves(const Index& index, int64_t low, int64_t high) const {
  const auto range = bounds(index);
  return range && range->low >= low && range->high < high;
}

bool IndexBounds::proves(const ExprPtr& condition) const {
  if (!condition) return true;
  if (condition->kind == Expr::Kind::constant) return condition->int_value != 0;
  if (condition->kind != Expr::Kind::op || condition->args.size() != 2) return false;
  if (condition->op == Op::and_) return proves(condition->args[0]) && proves(condition->args[1]);
  if (condition->op == Op::or_) return proves(condition->args[0]) || proves(condition->args[1]);
  const auto a = index_of(condition->args[0]), b = index_of(condition->args[1]);
  const auto range = a && b ? bounds(*a - *b) : std::nullopt;
  if (!range) return false;
  switch (condition->op) {
    case Op::lt_: return range->high < 0;
    case Op::le_: return range->high <= 0;
    case Op::gt_: return range->low > 0;
    case Op::ge_: return range->low >= 0;
    case Op::eq_: return range->low == 0 && range->high == 0;
    case Op::ne_: return range->low > 0 || range->high < 0;
    default: return false;
  }
}

bool implies(const ExprPtr& premise, const ExprPtr& conclusion) {
  if (!conclusion || (premise && equal(premise, conclusion))) return true;
  const auto holds = [&](const auto& self, const ExprPtr& known) -> bool {  // one of the premise's parts says it literally
    if (!known) return false;
    if (equal(known, conclusion)) return true;
    return known->kind == Expr::Kind::op && known->op == Op::and_ && (self(self, known->args[0]) || self(self, known->args[1]));
  };
  if (holds(holds, premise)) return true;
  if (conclusion->kind == Expr::Kind::op && conclusion->op == Op::and_)
    return implies(premise, conclusion->args[0]) && implies(premise, conclusion->args[1]);
  IndexBounds bounds;
  bounds.assume(premise);
  return bounds.proves(conclusion);
}

}  // namespace tcc::loop
