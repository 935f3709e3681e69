// Split-K: of matmuls on CUDA with few tiles and long sums (gradients of weights), whether the sum is cut into parts that blocks compute side by side.
#pragma once

#include <span>
#include <string>

#include "schedule/chooser.h"
#include "schedule/contraction.h"

namespace tcc::schedule::cuda {

/// What the choice knows of a tile: results, and the share of a multiprocessor's rate that it reaches.
struct TileShape {
  int64_t m, n;
  double efficiency;
};

struct MatmulShape {
  int64_t batch, m, n, k;
  int64_t step;             ///< of the sum, that a block takes at a time
  double flops_per_ns;      ///< of one multiprocessor with a tile of efficiency 1
  int64_t bytes_read;       ///< of both operands
  bool zeros_past_the_end;  ///< parts need not divide the sum
  double rate_alone = 1;    ///< share of its rate that a multiprocessor reaches with one block instead of two
};

struct SplitK {
  int64_t parts = 1;  ///< 1: the sum stays whole
  size_t tile = 0;    ///< the one to use with these parts
  double ns = 0;      ///< of all of it, where the sum is cut
};

/// The number of parts and the tile with the least time, where that is clearly less than the time with `whole`, the tile for the sum as it is.
SplitK choose_split_k(std::span<const TileShape> tiles, const TileShape& whole, const MatmulShape& shape, const Chooser& chooser);

/// Time of the sum as it is.
double whole_sum_ns(const TileShape& tile, const MatmulShape& shape, const Target& target);

/// Cuts the sum, the first of the contraction's, into parts; returns the first dim of the nest that computes them. The dims of both nests are in the order of the
/// results in memory, so that parts are written and read as these are; `as_given`: in the order that they have.
std::string split_sum(Chooser& chooser, const Contraction& c, int64_t parts, int64_t multiple, bool as_given = false);

/// Schedules the nest that adds up the parts: neighbouring threads take neighbouring results, each loads its parts together.
void schedule_sum_of_parts(Chooser& chooser, const std::string& first_dim);

}  // namespace tcc::schedule::cuda
