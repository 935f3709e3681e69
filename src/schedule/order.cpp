#include "tcc/schedule/order.h"

#include <algorithm>
#include <variant>

#include "tcc/loop/edit.h"
#include "tcc/loop/rewrite.h"

namespace tcc::schedule {

using namespace tcc::loop;

namespace {

bool runs_at_once(Bind bind) {
  return bind == Bind::block || bind == Bind::parallel || bind == Bind::thread || bind == Bind::warp || bind == Bind::lane;
}

/// What is around a statement: dims that run at once, and conditions.
struct Around {
  std::vector<const Var*> at_once;
  std::vector<UpperBound> bounds;
};

/// Whether the index is a sum of dims whose values are all different, at least `apart` from each other: the digits of a number.
bool is_number_of_dims(const Index& index, int64_t apart) {
  std::vector<Term> terms = index.terms();
  std::ranges::sort(terms, {}, &Term::coefficient);
  for (const Term& term : terms) {
    if (term.atom.kind != Atom::Kind::var || term.coefficient < apart) return false;
    apart = term.coefficient * term.atom.var->extent;
  }
  return true;
}

/// Whether each iteration of the dim makes the updates of its own part of an axis: one of the conditions is 0 <= index - owner * n < n.
bool owns(const Var* var, const Scatter& scatter, const std::vector<UpperBound>& bounds) {
  return std::ranges::any_of(bounds, [&](const UpperBound& bound) {
    return std::ranges::any_of(scatter.indices, [&](const Index& index) {
      const Index begin = index - bound.index;  // owner * n
      return begin.uses(var) && begin.constant() == 0 && is_number_of_dims(begin, bound.high);
    });
  });
}

bool meets(const Block& block, Around& around) {
  for (const Stmt& stmt : block) {
    if (const auto* scatter = std::get_if<Scatter>(&stmt.node); scatter != nullptr && order_matters(*scatter)) {
      const auto may_meet = [&](const Var* var) { return !keeps_apart(var, *scatter) && !owns(var, *scatter, around.bounds); };
      if (std::ranges::any_of(around.at_once, may_meet)) return true;
    }
    const size_t num_dims = around.at_once.size(), num_bounds = around.bounds.size();
    if (const auto* dims = dims_of(stmt)) {
      for (const Dim& dim : *dims) {
        if (runs_at_once(dim.bind) && dim.var->extent > 1) around.at_once.push_back(dim.var.get());
      }
    }
    if (const ExprPtr condition = condition_of(stmt)) {
      for (const ExprPtr& part : conjuncts(condition)) {
        if (const std::optional<UpperBound> bound = as_upper_bound(part)) around.bounds.push_back(*bound);
      }
    }
    const bool found = std::ranges::any_of(blocks_of(stmt), [&](const Block* inner) { return meets(*inner, around); });
    around.at_once.resize(num_dims);
    around.bounds.resize(num_bounds);
    if (found) return true;
  }
  return false;
}

}  // namespace

bool order_matters(const Scatter& scatter) {
  switch (scatter.combiner) {
    case Combiner::assign: return true;
    case Combiner::sum:
    case Combiner::prod: return is_float(scatter.buffer->dtype);
    default: return false;
  }
}

bool keeps_apart(const Var* var, const Scatter& scatter) {
  return std::ranges::any_of(scatter.indices, [&](const Index& index) { return index.uses(var) && is_number_of_dims(index, 1); });
}

bool depends_on_order(const Kernel& kernel) {
  Around around;
  return meets(kernel.body, around);
}

}  // namespace tcc::schedule
