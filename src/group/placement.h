// Where the values of a unit sit in its iteration domain: for each value its index in terms of the domain's variables.
//
// A unit of rows, softmax over the last axis:      domain rows (%i), inner (%j)
//   %x [%i, %j]      %m = reduce_max(%x) [%i]      %e = exp(%x - %m) [%i, %j]      %s = reduce_sum(%e) [%i]      %y [%i, %j]
//
// Placement starts at the value that shapes the domain and spreads through everything that loses no element: pointwise nodes, transpose, reshape, reverse.
// It goes back through broadcast (the operand has fewer variables) and forward through reductions (the result has fewer). A value whose variables are all
// of the rows and nothing else is computed once per row; one that has others beside them is full; one without a place is computed where it is pulled.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "group/index_maps.h"
#include "tcc/group/group.h"

namespace tcc::group {

struct Placement {
  std::vector<loop::VarRef> domain;  ///< outer loops, slowest first; extents above 1 only
  /// Of members' operands and results; equal elements share theirs.
  std::unordered_map<const Value*, std::shared_ptr<const Indices>> at;

  const Indices* find(const Value* value) const;
  /// The variables beside the domain's that the index of a placed value has, in order of appearance.
  std::vector<loop::VarRef> inner_vars(const Indices& at) const;
  /// Whether the index has every variable of the domain.
  bool covers_domain(const Indices& at) const;
};

/// Places the members of a unit. `nodes` in graph order; `anchor` for the kinds that have one; `main` shapes a unit of kind map.
Placement place(UnitKind kind, const std::vector<Node*>& nodes, const Node* anchor, const Value* main);

/// Letters for loops by depth: i, j, k, ...
std::string loop_letter(int depth);

}  // namespace tcc::group
