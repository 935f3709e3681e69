// topk by rank: an element's place in the order is the number of elements that come before it. No two have the same, so that those below k are stored at it.
//
//   map %i in rows, %j in n {
//     %v0: f32 = load %a0[%i, %j]
//     %v1: i64 = reduce sum %k in n { %v2: f32 = load %a0[%i, %k];  yield select(before(%v2 at %k, %v0 at %j), 1, 0) }
//     scatter identity %v0, %r0[%i, %v1]            // not written where the rank is k or more
//     scatter identity %j, %r1[%i, %v1]
//   }
//
// n^2 comparisons, all independent: right for the rows of hundreds or thousands of elements that models have. Ties go to the lower index; NaN counts as larger
// than every number.

#include <algorithm>

#include "group/lower.h"

namespace tcc::group {

using loop::apply;
using loop::ExprPtr;
using loop::Index;
using loop::VarRef;

namespace {

ExprPtr less(const ExprPtr& a, const ExprPtr& b) {
  const ExprPtr below = apply(Op::lt_, {a, b});
  if (!is_float(a->dtype)) return below;
  return apply(Op::or_, {below, apply(Op::and_, {apply(Op::not_, {apply(Op::isnan_, {a})}), apply(Op::isnan_, {b})})});
}

}  // namespace

void lower_topk(const Unit& unit, Inliner& inliner) {
  const Node& node = *unit.anchor;
  const Value* x = node.operand(0);
  if (x->type.count() == 0 || node.result()->type.count() == 0) return;
  const size_t axis = static_cast<size_t>(node.attrs.get_int("axis"));
  const bool largest = node.attrs.get_bool("largest");
  const int64_t extent = x->type.shape()[axis];
  Indices at;
  const std::vector<VarRef> vars = nest_vars(inliner, x->type.shape(), &at);
  inliner.nest(vars, [&] {
    const ExprPtr mine = inliner.value_at(x, at);
    const ExprPtr one = loop::constant_int(DType::i64, 1), zero = loop::constant_int(DType::i64, 0);
    Index rank(0);
    if (extent > 1) {
      const VarRef var = inliner.fresh_var(extent);
      loop::Reduce count;
      count.dims.push_back({var, loop::Bind::none});
      loop::State state;
      state.result = inliner.fresh_scalar(DType::i64);
      state.combiner = Combiner::sum;
      inliner.in_scope(
          {var},
          [&] {
            Indices other_at = at;
            other_at[axis] = Index(var);
            const ExprPtr other = inliner.value_at(x, other_at);
            const ExprPtr& low = largest ? mine : other;
            const ExprPtr& high = largest ? other : mine;
            const ExprPtr earlier = apply(Op::lt_, {index_value(Index(var)), index_value(at[axis])});
            const ExprPtr tie = apply(Op::and_, {apply(Op::not_, {less(high, low)}), earlier});
            state.value = apply(Op::select_, {apply(Op::or_, {less(low, high), tie}), one, zero});
          },
          [&](loop::Block block) {
            count.body = std::move(block);
            count.states.push_back(state);
            return loop::Stmt{count};
          });
      inliner.define(state.result, nullptr, {});
      rank = Index::of_scalar(state.result);
    }
    Indices to = at;
    to[axis] = rank;
    for (const Value* output : unit.outputs) {
      const ExprPtr value = output->index == 0 ? Inliner::as_stored(mine, output->type.dtype) : index_value(at[axis]);
      inliner.append({loop::Scatter{inliner.buffer_of(output), to, Combiner::assign, value}});
    }
  });
}

}  // namespace tcc::group
