// Peaks of training are often where a large gradient is made from large values that die there:
//
//   %g: [8, 1024, 3072] = dot_general(%dy, @w) * gelu'(%x)       %x: [8, 1024, 3072] is not read again: %g may lie where it was
//
// which loop/overwrite.h allows where the kernel reads %x only at the element that it writes.

#include "plan/reuse.h"

#include <algorithm>
#include <unordered_set>

namespace tcc::plan {

std::vector<Reuse> find_reuses(const group::Groups& groups, const BufferAliases& aliases,
                               const std::vector<const schedule::ScheduledUnit*>& scheduled,
                               const std::function<bool(const Value*)>& in_arena, const std::function<bool(const Value*, int)>& dies_at,
                               const std::function<bool(int, const loop::Overwrite&)>& can_overwrite) {
  std::vector<Reuse> found;
  for (int unit_number = 0; unit_number < static_cast<int>(groups.units.size()); ++unit_number) {
    const group::Unit& unit = groups.units[static_cast<size_t>(unit_number)];
    const std::vector<loop::Param>& params = scheduled[static_cast<size_t>(unit_number)]->form.unit->params;
    if (scheduled[static_cast<size_t>(unit_number)]->kernels.empty()) continue;
    std::unordered_set<const Value*> taken;
    for (size_t o = 0; o < unit.outputs.size(); ++o) {
      const Value* result = unit.outputs[o];
      if (aliases.alias(result) || result->type.count() == 0 || !in_arena(result)) continue;
      const std::string& to = params.at(unit.inputs.size() + o).buffer->name;
      for (size_t number = 0; number < unit.inputs.size(); ++number) {
        const Value* old = aliases.of(unit.inputs[number]).base;
        if (!old->producer || taken.count(old) || !in_arena(old) || !dies_at(old, unit_number)) continue;
        if (old->type.dtype != result->type.dtype || old->type.size_bytes() != result->type.size_bytes()) continue;
        if (params[number].buffer->row_padding() != params[unit.inputs.size() + o].buffer->row_padding()) continue;
        std::vector<loop::Overwrite> pairs;
        bool fits = true;
        for (size_t i = 0; i < unit.inputs.size() && fits; ++i) {
          const BufferAliases::Storage storage = aliases.of(unit.inputs[i]);
          if (storage.base != old) continue;
          const std::string& from = params.at(i).buffer->name;
          pairs.emplace_back(from, to);
          fits = unit.inputs[i]->type.size_bytes() == old->type.size_bytes() && can_overwrite(unit_number, pairs.back());
        }
        if (!fits) continue;
        taken.insert(old);
        found.push_back({unit_number, old, result, std::move(pairs)});
        break;
      }
    }
  }
  return found;
}

std::vector<size_t> choose_reuses(const std::vector<int64_t>& live, const std::vector<std::pair<int, int>>& both,
                                  const std::vector<int64_t>& sizes) {
  std::vector<int64_t> least = live;
  for (size_t i = 0; i < both.size(); ++i) {
    for (int launch = both[i].first; launch <= both[i].second; ++launch) least[static_cast<size_t>(launch)] -= sizes[i];
  }
  const int64_t peak = least.empty() ? 0 : *std::max_element(least.begin(), least.end());
  std::vector<size_t> chosen;
  for (size_t i = 0; i < both.size(); ++i) {
    for (int launch = both[i].first; launch <= both[i].second; ++launch) {
      if (live[static_cast<size_t>(launch)] <= peak) continue;
      chosen.push_back(i);
      break;
    }
  }
  return chosen;
}

}  // namespace tcc::plan
