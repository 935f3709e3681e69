// What else a unit may be scheduled as: what `choose` takes, and the best of what it passed over. `tcc tune` times them.
#pragma once

#include <cstddef>
#include <vector>

#include "tcc/schedule/schedule.h"

namespace tcc::schedule {

struct Candidate {
  Schedule schedule;  ///< its first primitive says why, as that of `choose` does
  double ns = 0;      ///< modelled, of all its kernels
};

/// As many as are worth timing, unless somebody asks for more.
inline constexpr size_t kFewCandidates = 8;

/// Different schedules of the unit, `most` of them at most: first what `choose` takes, then others, those with the least modelled time first. None for a unit
/// without statements. Deterministic. Error (internal) when one of them does not apply.
///
/// The model of finished kernels (`estimate_ns`) says how strategies compare. Of the options within a strategy, the strategy's own model says how much slower
/// than its best one each is.
std::vector<Candidate> candidates(const loop::Unit& unit, const Target& target, size_t most);

}  // namespace tcc::schedule
