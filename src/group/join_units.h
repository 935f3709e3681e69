// What passes share that make one unit of several, where what one stores for another then need not be stored (stream_rows.cpp, chain_products.cpp).
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "group/memory.h"
#include "tcc/group/group.h"

namespace tcc::group {

class UnitJoiner {
 protected:
  UnitJoiner(Groups& groups, const GroupOptions& options);

  static bool is_product(const Unit& unit) { return unit.kind == UnitKind::contract && unit.anchor->op == Op::dot_general_; }
  /// The unit that stores the value; nothing where it is part of another by now, or where the value has to be in memory.
  std::optional<size_t> writer_of(const Value* value) const;
  /// The units that read a value, by any of its names.
  const std::unordered_set<size_t>& readers_of(const Value* stored) const;

  /// Whether the value is one in memory, or all of one seen through views: no piece of a concat.
  bool is_whole(const Value* value) const;

  struct Union {
    Unit unit;                             ///< its anchor is that of the last unit
    std::unordered_set<size_t> positions;  ///< units that make masks of positions alone, which it makes itself
  };
  /// The nodes of units, in order, as one. `inside`: what they store for each other.
  Union union_of(UnitKind kind, const std::vector<size_t>& numbers, const std::unordered_set<const Value*>& inside) const;
  /// Whether nothing up to unit `number` reads what another stores, so that this may be stored there.
  bool may_wait(size_t unit, size_t number) const;
  /// How long the target's kernel for the unit takes; nothing where it has none.
  std::optional<double> ns_of(const Unit& unit) const;

  /// Puts the unit where number `last` is. `gone`: units that it has in it, and nothing else needs.
  void replace(size_t last, Union joined, const std::vector<size_t>& gone, const std::unordered_set<const Value*>& not_stored);
  /// Removes what is gone. Returns whether anything is.
  bool finish();

  Groups& groups_;
  const Storage storage_;

 private:
  bool is_of_positions(size_t number) const;

  const GroupOptions& options_;
  std::unordered_map<const Node*, size_t> position_;
  std::unordered_map<const Value*, size_t> writer_;                       ///< units, by what they store
  std::unordered_map<const Value*, std::unordered_set<size_t>> readers_;  ///< by what they read, other names resolved
  std::unordered_set<const Value*> held_;                                 ///< results of the graph, and what state takes
  std::unordered_set<size_t> gone_;                                       ///< units that are part of another
  std::unordered_set<const Value*> not_stored_;                           ///< any more
};

}  // namespace tcc::group
