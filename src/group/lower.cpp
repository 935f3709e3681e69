// From a unit to first-form loops.
//
//   unit "softmax" rows {%m, %c, %e, %s, %y}   ->   unit (%a0: f32[8, 16]) -> (%r0: f32[8, 16]) {
//                                                     map %i in 8 {
//                                                       %v0: f32 = reduce max %j in 16 { %v1: f32 = load %a0[%i, %j];  yield %v1 }
//                                                       %v2: f32 = reduce sum %jb in 16 { %v3: f32 = load %a0[%i, %jb];  yield exp(sub(%v3, %v0)) }
//                                                       map %jc in 16 { %v4: f32 = load %a0[%i, %jc];  store div(exp(sub(%v4, %v0)), %v2), %r0[%i, %jc] }
//                                                     }
//                                                   }
//
// Placement says which loops there are; the outputs are then pulled (inliner.h) at their places: those that have every variable of the domain and no other at
// its innermost block, full ones of row units in an inner map. An output without a place gets a nest of its own: always right, what it shares with the others
// is computed again. Grouping sees to it that this stays rare.

#include "group/lower.h"

#include <algorithm>

#include "group/placement.h"
#include "tcc/loop/product_chain.h"
#include "tcc/support/diagnostics.h"

namespace tcc::group {

using loop::Index;
using loop::VarRef;

namespace {

int64_t product_of_extents(const Indices& at) {
  int64_t product = 1;
  for (const VarRef& var : vars_of(at)) product *= var->extent;
  return product;
}

/// Outputs that one inner map stores.
struct Inner {
  std::vector<VarRef> vars;
  std::vector<const Value*> values;
};

/// The loops of the domain in the order of the axes of a value that is stored in another order than its own.
void sort_as_stored(Placement& placement, const Unit& unit, const Value* value) {
  const auto output = std::find(unit.outputs.begin(), unit.outputs.end(), value);
  const Indices* at = placement.find(value);
  if (unit.order.empty() || output == unit.outputs.end() || !at) return;
  const std::vector<int64_t>& order = unit.order[unit.inputs.size() + static_cast<size_t>(output - unit.outputs.begin())];
  const auto rank = [&](const VarRef& var) {
    return std::find_if(order.begin(), order.end(), [&](int64_t axis) { return (*at)[static_cast<size_t>(axis)].uses(var.get()); }) -
           order.begin();
  };
  std::stable_sort(placement.domain.begin(), placement.domain.end(), [&](const VarRef& a, const VarRef& b) { return rank(a) < rank(b); });
}

}  // namespace

std::vector<VarRef> nest_vars(Inliner& inliner, const Shape& shape, Indices* at) {
  std::vector<VarRef> vars;
  for (int64_t extent : shape) {
    if (extent == 1) {
      at->emplace_back(0);
      continue;
    }
    vars.push_back(inliner.fresh_var(static_cast<int>(vars.size()), extent));
    at->emplace_back(vars.back());
  }
  return vars;
}

void store_whole(const Value* value, Inliner& inliner) {
  Indices at;
  const std::vector<VarRef> vars = nest_vars(inliner, value->type.shape(), &at);
  inliner.nest(vars, [&] { inliner.store(value, at); });
}

void lower_nests(const Unit& unit, Inliner& inliner) {
  std::vector<const Value*> outputs;
  for (const Value* value : unit.outputs) {
    if (value->type.count() > 0) outputs.push_back(value);
  }
  if (outputs.empty()) return;
  const Value* main =
      *std::max_element(outputs.begin(), outputs.end(), [](const Value* a, const Value* b) { return a->type.count() < b->type.count(); });
  Placement placement = place(unit.kind, unit.nodes, unit.anchor, main);
  sort_as_stored(placement, unit, main);
  for (const VarRef& var : placement.domain) inliner.take_name(var->name);

  std::vector<const Value*> direct, apart;
  std::vector<Inner> inner;
  for (const Value* value : outputs) {
    const Indices* at = placement.find(value);
    if (!at || !placement.covers_domain(*at) || product_of_extents(*at) != value->type.count()) {
      apart.push_back(value);
      continue;
    }
    std::vector<VarRef> vars = placement.inner_vars(*at);
    if (vars.empty()) {
      direct.push_back(value);
      continue;
    }
    const auto same = std::find_if(inner.begin(), inner.end(), [&](const Inner& one) {
      return std::is_permutation(one.vars.begin(), one.vars.end(), vars.begin(), vars.end());
    });
    if (same != inner.end()) same->values.push_back(value);
    else inner.push_back({std::move(vars), {value}});
  }

  if (!direct.empty() || !inner.empty()) {
    inliner.nest(placement.domain, [&] {
      for (const Value* value : direct) inliner.store(value, *placement.find(value));
      for (const Inner& one : inner) {
        std::vector<VarRef> vars;
        for (const VarRef& var : one.vars)
          vars.push_back(inliner.fresh_var(inliner.current()->depth + static_cast<int>(vars.size()), var->extent));
        inliner.map(vars, [&] {
          for (const Value* value : one.values) {
            Indices at;
            for (const Index& index : *placement.find(value)) {
              at.push_back(substitute(index, [&](const VarRef& var) {
                const auto found = std::find(one.vars.begin(), one.vars.end(), var);
                return found == one.vars.end() ? std::optional<Index>()
                                               : std::optional<Index>(vars[static_cast<size_t>(found - one.vars.begin())]);
              }));
            }
            inliner.store(value, at);
          }
        });
      }
    });
  }
  for (const Value* value : apart) store_whole(value, inliner);
}

/// Says of exponentials what their maxima tell.
void hide_masked(loop::Unit& lowered, const Unit& unit) {
  std::vector<loop::BufferRef> maxima;
  for (size_t i = 0; i < unit.inputs.size(); ++i) {
    if (std::find(unit.maxima.begin(), unit.maxima.end(), unit.inputs[i]) != unit.maxima.end()) maxima.push_back(lowered.params[i].buffer);
  }
  if (maxima.empty()) return;
  loop::hide_masked(lowered.body, maxima);
  tidy(lowered.body);
}

loop::Unit lower(const Graph&, const Unit& unit, std::vector<IndexCheck>* checks) {
  Inliner inliner(unit);
  switch (unit.kind) {
    case UnitKind::map:
    case UnitKind::rows:
    case UnitKind::contract:
    case UnitKind::stream:
    case UnitKind::chain:
    case UnitKind::window: lower_nests(unit, inliner); break;
    case UnitKind::scan: lower_scan(unit, inliner); break;
    case UnitKind::scatter: lower_scatter(unit, inliner); break;
    case UnitKind::sort: lower_topk(unit, inliner); break;
  }
  loop::Unit result;
  result.params = inliner.params();
  result.body = inliner.take_block();
  tidy(result.body);
  hide_masked(result, unit);
  if (checks) *checks = inliner.checks();
  return result;
}

}  // namespace tcc::group
