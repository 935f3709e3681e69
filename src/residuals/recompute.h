// Puts a choice into effect.
#pragma once

#include <memory>
#include <vector>

#include "residuals/min_cut.h"

namespace tcc::residuals {

struct Rebuilt {
  std::unique_ptr<Graph> graph;
  int num_copies = 0;       ///< nodes, other than free ones, that are computed in both halves
  std::vector<char> again;  ///< by position in the old graph: computed in the backward half
  std::vector<char> saved;  ///< by value id of the old graph: computed in the forward half and read by the backward one
};
/// The same graph with everything of the forward half that is not saved computed in the backward half, just before its first use there.
Rebuilt recompute(const RecomputeCosts& costs, const Saved& saved);

/// Everything that the backward half reads is saved.
Saved save_all(const RecomputeCosts& costs);

}  // namespace tcc::residuals
