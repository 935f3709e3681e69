// What strategies that compute tiles of a contraction share: which tile, how its sum is cut, the primitives that make blocks of tiles and copies of factors.
#pragma once

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "schedule/cuda/nest.h"
#include "schedule/cuda/split_k.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/integer_math.h"

namespace tcc::schedule::cuda {

/// The tile with the least waves of blocks, weighted by what a block does and how fast; null when none fits.
template <class Tile> const Tile* choose_tile(std::span<const Tile> tiles, const Matmul& mm, const Chooser& chooser) {
  const Target& target = chooser.target();
  std::vector<const Tile*> options;
  std::vector<double> times;
  for (const Tile& tile : tiles) {
    if (tile.m > mm.m->extent || tile.n > mm.n->extent) continue;
    const int64_t blocks = mm.batches() * ceil_div(mm.m->extent, tile.m) * ceil_div(mm.n->extent, tile.n);
    const double time = static_cast<double>(ceil_div(blocks, target.cores)) * static_cast<double>(tile.m * tile.n) / tile.efficiency;
    options.push_back(&tile);
    times.push_back(time);
  }
  if (options.empty()) return nullptr;
  const auto best = static_cast<size_t>(std::min_element(times.begin(), times.end()) - times.begin());
  return options[chooser.decide("tile", times, best)];
}

/// Why no instruction of tensor cores takes both factors, the first reason: what those of warps and of warpgroups ask alike. `takes`: whether it has their
/// dtypes; a sum below `shortest_sum` fills no step.
WhyNot misfit_of_factors(const Contraction& c, bool takes, int64_t shortest_sum);

/// Why the copy engine can't make the copies of these buffers, the first reason.
WhyNot misfit_of_copies(const loop::Unit& unit, const std::set<std::string>& factors);

/// Whether the factor gives zeros where the sum is past its end: copies do where the buffer ends, too.
bool ends_with_buffer(const Factor& factor, int axis, const loop::VarRef& k);

/// What a matmul is for the question how its sum is cut. `step`: of the sum, that a block takes at a time; `flops_per_ns`: of the whole chip.
MatmulShape shape_of(const Contraction& c, const Matmul& mm, int64_t step, double flops_per_ns, double rate_alone, const Target& target);

/// How the sum is cut; `whole` is the tile for the sum as it is.
template <class Tile>
SplitK choose_split_k(std::span<const Tile> tiles, const Tile& whole, const Contraction& c, const Matmul& mm, const MatmulShape& shape,
                      const Chooser& chooser) {
  if (!c.contiguous || mm.n != c.contiguous) return {};  // rows and columns would be others in the parts
  std::vector<TileShape> shapes;
  for (const Tile& tile : tiles) shapes.push_back({tile.m, tile.n, tile.efficiency});
  return choose_split_k(std::span<const TileShape>(shapes), {whole.m, whole.n, whole.efficiency}, shape, chooser);
}

/// Cuts the sum and schedules both nests, the first one by `schedule`.
template <class F> void schedule_in_parts(Chooser& chooser, const Contraction& c, int64_t parts, int64_t step, F schedule) {
  const std::string first = c.dims[0]->name;
  const std::optional<Contraction> part = as_contraction(chooser.find(split_sum(chooser, c, parts, step)));
  const std::optional<Matmul> matmul = part ? as_matmul(*part) : std::nullopt;
  if (!matmul) internal_error("a part of the matmul `" + c.accumulator + "` is not a matmul");
  schedule(*part, *matmul);
  schedule_sum_of_parts(chooser, first);
}

/// A dim that was split into tiles: name_0 is the number of the tile.
struct TiledDim {
  std::string name;
  int64_t tile;  ///< iterations
};

/// Tiles of m and n and the dims `batch` in front of those that stay within the block, in an order in which neighbours share operands; returns their names.
std::vector<std::string> order_tiles(Chooser& chooser, const std::vector<std::string>& batch, const TiledDim& m, const TiledDim& n,
                                     const std::vector<std::string>& inside);

/// Binds tiles of m and n and the dims `batch` to blocks; `inside` are the names that stay within the block, in order.
void bind_tiles(Chooser& chooser, const std::vector<std::string>& batch, const TiledDim& m, const TiledDim& n,
                const std::vector<std::string>& inside);

/// The results that a thread holds as a register tile inside the sum.
void tile_per_thread(Chooser& chooser, const Contraction& c, const std::vector<std::string>& per_thread);

/// A shared copy of what the factor reads inside a dim.
void stage_factor(Chooser& chooser, const Factor& factor, const std::string& at, int64_t swizzle, int64_t pad);

/// Bytes of one access of the copy that `stage` makes of a box with this extent along the last axis.
int64_t copy_bytes(const Factor& factor, int64_t last_tile);
/// Fewer can't be copied ahead of what reads them.
inline constexpr int64_t kFewestCopiedAhead = 4;

int64_t bytes_of(const loop::Buffer& buffer);

}  // namespace tcc::schedule::cuda
