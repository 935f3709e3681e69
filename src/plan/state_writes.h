// Which state updates are written in place, and what must then come first.
#pragma once

#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "plan/buffer_aliases.h"
#include "plan/order.h"
#include "tcc/graph/state.h"
#include "tcc/loop/overwrite.h"
#include "tcc/schedule/schedule_units.h"

namespace tcc::plan {

/// Bytes of a block of state.
struct StateRange {
  int block = 0;
  int64_t begin = 0, end = 0;
  bool operator==(const StateRange&) const = default;
  bool overlaps(const StateRange& other) const { return block == other.block && begin < other.end && other.begin < end; }
};

/// The state that weights are, looked up by name.
class StateWeights {
 public:
  explicit StateWeights(const StateLayout* layout) : layout_(layout) {}
  /// Null when the value is no weight or the state does not have it.
  const StateTensor* find(const Value* value) const;
  const StateTensor* find(const Weight* weight) const;
  bool any() const { return layout_ != nullptr; }

 private:
  const StateLayout* layout_;
};

/// A step (unit or copy) that reads state. `input`: which input of the unit, -1 for copies.
struct StateRead {
  int step = 0;
  StateRange range;
  int input = -1;
};

struct StateWrites {
  std::unordered_map<const Value*, const StateTensor*> in_place;  ///< the base whose bytes are those of the tensor
  std::vector<std::vector<loop::Overwrite>> overwrites;           ///< of each unit: inputs whose place a result takes
  std::vector<const StateUpdate*> copied;                         ///< the others
};

/// Adds to the order what in-place writes ask for. `scheduled`: of each unit; `taken`: bases that have a place elsewhere; `padding_steps`: the steps that fill the paddings of bases.
StateWrites choose_state_writes(const Graph& graph, const group::Groups& groups, const BufferAliases& aliases,
                                const std::vector<const schedule::ScheduledUnit*>& scheduled, const StateWeights& weights,
                                const std::vector<StateRead>& reads, const std::unordered_set<const Value*>& taken,
                                const std::unordered_map<const Value*, int>& padding_steps, Order& order);

}  // namespace tcc::plan
