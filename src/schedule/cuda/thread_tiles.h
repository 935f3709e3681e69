// Tiles of results whose parts the threads of a block hold, for products by ordinary arithmetic.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "schedule/cuda/matmul.h"

namespace tcc::schedule::cuda {

struct ThreadTile {
  int64_t m, n, threads_m, threads_n;
  double efficiency;  ///< share of the rate that the largest tile reaches
};
std::span<const ThreadTile> thread_tiles();
/// The share of the peak rate that the largest of them has reached, and of that what one block reaches alone on a multiprocessor: nothing else runs while its
/// threads wait for each other.
constexpr double kExactRate = 0.62, kExactRateAlone = 0.75;

/// Cuts rows and columns into tiles, binds tiles and batch to blocks, and spreads a tile over threads; returns the dims that one of them holds.
/// `a_contiguous`: the rows are neighbours in the first factor's memory; a thread then takes four at a time.
std::vector<std::string> spread_tiles(Chooser& chooser, const Matmul& mm, const ThreadTile& tile, bool a_contiguous, bool b_contiguous);

}  // namespace tcc::schedule::cuda
