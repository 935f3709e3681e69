// Matmuls by ordinary arithmetic with enough rows and columns: tiles in shared memory, 8 x 8 or 4 x 4 results a thread. Which tile, and whether the sum is cut, is
// decided as for tensor cores.
#include <algorithm>

#include "schedule/cuda/thread_tiles.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

namespace {

/// Of a sum that is worth copies.
constexpr int64_t kShortestSum = 8;
/// Of the ring of copies.
constexpr int64_t kStages = 3;

void schedule_tiles(Chooser& chooser, const Contraction& c, const Matmul& mm, const ThreadTile& tile, int64_t step) {
  const std::string& sum = mm.k->name;
  const bool a_contiguous = c.a.is_contiguous(mm.a_m), b_contiguous = c.b.is_contiguous(mm.b_n);
  const std::vector<std::string> per_thread = spread_tiles(chooser, mm, tile, a_contiguous, b_contiguous);
  chooser.split(sum, step);
  chooser.split(sum + "_1", 4);
  chooser.unroll(sum + "_1_1");
  tile_per_thread(chooser, c, per_thread);
  const auto pad = [](const Factor& factor, bool contiguous) { return contiguous ? 0 : 16 / size_bytes(factor.buffer->dtype); };
  stage_factor(chooser, c.b, sum + "_0", 0, pad(c.b, b_contiguous));
  stage_factor(chooser, c.a, sum + "_0", 0, pad(c.a, a_contiguous));
  if (std::min(copy_bytes(c.a, a_contiguous ? tile.m : step), copy_bytes(c.b, b_contiguous ? tile.n : step)) >= kFewestCopiedAhead) {
    chooser.add("pipeline", {Chooser::arg(sum + "_0"), Chooser::arg(kStages)});
  }
}

}  // namespace

WhyNot shared_tiles(CudaNest& nest) {
  if (!nest.nest.matmul) return nest.nest.not_matmul;
  Chooser& chooser = nest.chooser;
  const Contraction& c = *nest.nest.contraction;
  const Matmul& mm = *nest.nest.matmul;
  const Target& target = nest.target();
  const int64_t k = mm.k->extent;
  if (k < kShortestSum) return "a sum of " + std::to_string(k) + " is short";
  const ThreadTile* tile = choose_tile(thread_tiles(), mm, chooser);
  if (!tile) return "no tile fits " + std::to_string(mm.m->extent) + " x " + std::to_string(mm.n->extent);
  const int64_t step = k % 16 == 0 || k > 64 ? 16 : k % 8 == 0 || k > 16 ? 8 : 4;
  MatmulShape shape = shape_of(c, mm, step, target.flops_per_ns * kExactRate, kExactRateAlone, target);
  shape.zeros_past_the_end = ends_with_buffer(c.a, mm.a_k, mm.k) && ends_with_buffer(c.b, mm.b_k, mm.k);
  const SplitK cut = choose_split_k(thread_tiles(), *tile, c, mm, shape, chooser);
  if (cut.parts == 1) {
    schedule_tiles(chooser, c, mm, *tile, step);
  } else {
    schedule_in_parts(chooser, c, cut.parts, step, [&](const Contraction& part, const Matmul& matmul) {
      schedule_tiles(chooser, part, matmul, thread_tiles()[cut.tile], step);
    });
  }
  return std::nullopt;
}

}  // namespace tcc::schedule::cuda
