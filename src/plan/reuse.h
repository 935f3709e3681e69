// Results that take over the bytes of an operand which nothing reads any more.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "plan/buffer_aliases.h"
#include "tcc/loop/overwrite.h"
#include "tcc/schedule/schedule_units.h"

namespace tcc::plan {

/// The result of a unit lies where an operand did.
struct Reuse {
  int unit = 0;
  const Value* old;     ///< the operand's base
  const Value* result;  ///< a base too
  std::vector<loop::Overwrite> overwrites;
};

/// All that are possible, each base at most once as old and once as result. `scheduled`: of each unit; `in_arena`: whether a base has no other place;
/// `dies_at`: whether nothing uses a base after the unit; `can_overwrite`: loop::can_overwrite of the unit's kernels.
std::vector<Reuse> find_reuses(const group::Groups& groups, const BufferAliases& aliases,
                               const std::vector<const schedule::ScheduledUnit*>& scheduled,
                               const std::function<bool(const Value*)>& in_arena, const std::function<bool(const Value*, int)>& dies_at,
                               const std::function<bool(int, const loop::Overwrite&)>& can_overwrite);

/// Those of the possible ones that lower the peak. Old and result overlap only while their unit runs, so one elsewhere than at the peak saves nothing and
/// would only make one more kernel. `live`: bytes of the arena by launch; `both`: the launches during which both live, as pairs of first and last.
std::vector<size_t> choose_reuses(const std::vector<int64_t>& live, const std::vector<std::pair<int, int>>& both,
                                  const std::vector<int64_t>& sizes);

}  // namespace tcc::plan
