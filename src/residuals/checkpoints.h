// Where a deep forward pass can be computed again piece by piece.
#pragma once

#include <cstddef>
#include <vector>

#include "residuals/analyze.h"

namespace tcc::residuals {

struct Checkpoints {
  std::vector<char> keep;  ///< by position of the node: its results are saved where they are needed, never computed again
  int places = 0;
  size_t last = 0;              ///< the position of the node in front of the last place
  int64_t estimated_bytes = 0;  ///< all that is kept, and the largest piece between
};
/// Cuts the forward pass into about `pieces` pieces that hold equal amounts of what the backward pass needs, where little lives.
Checkpoints place_checkpoints(const RecomputeCosts& costs, int pieces);
/// The number of pieces with the smallest estimate.
int best_number_of_pieces(const RecomputeCosts& costs);

}  // namespace tcc::residuals
