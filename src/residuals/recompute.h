// Puts a choice into effect.
#pragma once

#include <memory>
#include <vector>

#include "residuals/min_cut.h"

namespace tcc::residuals {

/// Which half computes what. It follows from what is saved of what is needed, and from nothing that a target decides.
struct Division {
  std::vector<char> saved;    ///< by value id: computed in the forward half and read by the backward one
  std::vector<char> again;    ///< by position: computed in the backward half
  std::vector<char> forward;  ///< by position: computed in the forward half
  int num_copies = 0;         ///< nodes, other than free ones, that are computed in both halves
};
Division divide(const RecomputeCosts& costs, const Saved& saved);

/// The same graph with everything of the forward half that is not saved computed in the backward half, just before its first use there.
std::unique_ptr<Graph> recompute(const RecomputeCosts& costs, const Division& division);

/// Everything that the backward half reads is saved.
Saved save_all(const RecomputeCosts& costs);

}  // namespace tcc::residuals
