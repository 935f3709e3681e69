// cumulative: a map over the rows, in each a scan along the axis; what follows point by point is computed in `after`, from the running state.
//
//   %y = cumulative(%x) {op="sum", axis=1}   ->   map %i in 4 { %v0: f32 = scan sum %j in 8 { yield load %a0[%i, %j] } after { store %v0, %r0[%i, %j] } }
//
// reverse runs %j from the other end; a scan of one element is the element (exclusive: the identity).

#include <algorithm>

#include "group/lower.h"
#include "group/placement.h"
#include "tcc/loop/rewrite.h"
#include "tcc/support/diagnostics.h"

namespace tcc::group {

using loop::ExprPtr;
using loop::Index;
using loop::VarRef;

void lower_scan(const Unit& unit, Inliner& inliner) {
  const Node& node = *unit.anchor;
  const Value* result = node.result();
  if (result->type.count() == 0) return;
  const Placement placement = place(unit.kind, unit.nodes, unit.anchor, nullptr);
  for (const VarRef& var : placement.domain) inliner.take_name(var->name);
  const size_t axis = static_cast<size_t>(node.attrs.get_int("axis"));
  const int64_t extent = result->type.shape()[axis];
  const bool exclusive = node.attrs.get_bool("exclusive");
  const Combiner combiner = combiner_in(node.attrs, "op");
  const DType dtype = compute_dtype(result->type.dtype);
  const std::vector<VarRef> inner = placement.inner_vars(*placement.find(result));

  std::vector<const Value*> apart;
  auto store_all = [&](const Index& along) {
    for (const Value* value : unit.outputs) {
      const Indices* at = placement.find(value);
      if (!at) {
        apart.push_back(value);
        continue;
      }
      Indices to;
      for (const Index& index : *at) {
        to.push_back(
            substitute(index, [&](const VarRef& var) { return !inner.empty() && var == inner[0] ? std::optional(along) : std::nullopt; }));
      }
      inliner.store(value, to);
    }
  };
  inliner.nest(placement.domain, [&] {
    Indices at = *placement.find(result);
    const ExprPtr identity = loop::identity_value(combiner, dtype);
    if (extent == 1) {
      inliner.current()->memo[result].emplace_back(at, exclusive ? identity : cast_to(inliner.value_at(node.operand(0), at), dtype));
      store_all(Index(0));
      return;
    }
    const VarRef var = inliner.fresh_var(extent);
    const Index along = node.attrs.get_bool("reverse") ? Index(extent - 1) - Index(var) : Index(var);
    at[axis] = along;
    loop::Scan scan;
    scan.dims.push_back({var, loop::Bind::none});
    scan.exclusive = exclusive;
    loop::State state;
    state.result = inliner.fresh_scalar(dtype);
    state.combiner = combiner;
    inliner.in_scope(
        {var}, [&] { state.value = cast_to(inliner.value_at(node.operand(0), at), dtype); },
        [&](loop::Block block) {
          scan.body = std::move(block);
          return loop::Stmt{loop::Scan{}};
        });
    inliner.current()->block.pop_back();  // the scan itself comes when `after` is known
    inliner.in_scope(
        {var},
        [&] {
          inliner.define(state.result, result, at);
          store_all(along);
        },
        [&](loop::Block block) {
          scan.states.push_back(state);
          scan.after = std::move(block);
          return loop::Stmt{std::move(scan)};
        });
  });
  check(apart.empty(), "an output of a scan has no place beside its running state");
}

}  // namespace tcc::group
