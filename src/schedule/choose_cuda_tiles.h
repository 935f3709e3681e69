// What the choices of tiles for CUDA share: matmuls, tiles that the threads of a block hold, and the primitives that make them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "schedule/chooser.h"
#include "schedule/contraction.h"

namespace tcc::schedule {

/// A contraction that is a matmul for each batch index: one summed dim, rows and columns.
struct Matmul {
  loop::VarRef m, n, k;
  std::vector<loop::VarRef> batch;
  int a_rows = 0, a_sum = 0, b_columns = 0, b_sum = 0;  ///< axes of the factors
};
int64_t count_batch(const Matmul& mm);

struct ThreadTile {
  int64_t m, n, threads_m, threads_n;
  double efficiency;  ///< share of the rate that the largest tile reaches
};
std::span<const ThreadTile> thread_tiles();
/// The one with the least time for the matmul; null when none fits.
const ThreadTile* best_thread_tile(const Matmul& mm, const Target& target);
/// The share of the peak rate that the largest of them has reached, and of that what one block reaches alone on a multiprocessor: nothing else runs while its
/// threads wait for each other.
constexpr double kExactRate = 0.62, kExactRateAlone = 0.75;

/// Cuts rows and columns into tiles, binds tiles and batch to blocks, and spreads a tile over threads; gives the dims that one of them holds. `a_neighbours`:
/// the rows are neighbours in the first factor's memory; a thread then takes four at a time.
std::vector<std::string> spread_tiles(Chooser& chooser, const Matmul& mm, const ThreadTile& tile, bool a_neighbours, bool b_neighbours);
/// The results that a thread holds as a register tile inside the sum.
void hold_tile(Chooser& chooser, const Contraction& c, const std::vector<std::string>& held);

/// A shared copy of what the factor reads inside a dim.
void stage_factor(Chooser& chooser, const Factor& factor, const std::string& at, int64_t swizzle, int64_t pad);

/// Bytes of one access of the copy that `stage` makes of a box with this extent along the last axis.
int64_t copy_bytes(const Factor& factor, int64_t last_tile);

/// Pieces of that size that cover the extent, the last one perhaps in part.
inline int64_t pieces(int64_t extent, int64_t piece) { return (extent + piece - 1) / piece; }

int64_t bytes_of(const loop::Buffer& buffer);

/// Products summed over whole images, as gradients of a convolution's weights are. False, and nothing chosen, for other nests.
bool choose_cuda_image_sums(Chooser& chooser, const Contraction& c);

/// Convolutions with enough channels and pixels: choose_cuda_conv.cpp. False, and nothing chosen, for other nests.
bool choose_cuda_conv(Chooser& chooser, const Contraction& c);

}  // namespace tcc::schedule
