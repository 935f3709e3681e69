// Matmuls on tensor cores: f16 and bf16, and f32 where the target allows tf32. Tiles of 128 x 256 x 32 and smaller, copied ahead by cp.async, mma.sync on register
// tiles.
//
//   split(i, 128) split(j, 256) ... bind(i_0_0, block) bind(j_0, block) ... split(k, 32) tile(v0, i_1, j_1)
//   stage(a1, shared, at=k_0, swizzle=2) stage(a0, shared, at=k_0, swizzle=2) tensorize(v0, m16n8k16, 2, 4) pipeline(k_0, 4)
//
// Which tile: the one with the least time by waves of blocks over the multiprocessors, given how well a tile of that size uses one of them. A long sum with few
// tiles is cut into parts (split_k.cpp), which then are scheduled as a batch.
#include <algorithm>
#include <bit>

#include "schedule/cuda/matmul.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

namespace {

struct MmaTile {
  int64_t m, n, warps_m, warps_n;
  double efficiency;  ///< share of the multiprocessor's rate that the tile reaches
};
constexpr MmaTile kMmaTiles[] = {
    {128, 256, 2, 4, 1.00}, {256, 128, 4, 2, 0.95}, {128, 128, 2, 2, 0.80}, {64, 128, 2, 2, 0.55},
    {128, 64, 2, 2, 0.55},  {64, 64, 2, 2, 0.40},   {32, 128, 1, 4, 0.35},  {32, 64, 1, 2, 0.25},
    {16, 128, 1, 4, 0.20},  {16, 64, 1, 2, 0.15},   {16, 32, 1, 1, 0.08},
};

/// Of a sum that is worth it.
constexpr int64_t kShortestSum = 16;
/// Of the sum, that one step takes.
int64_t step_of(const Matmul& mm) { return mm.k->extent < 32 ? 16 : 32; }

/// Swizzle bits for rows of a staged matrix that ldmatrix reads: 16-byte pieces of eight rows in different banks.
int64_t swizzle_bits(int64_t row_bytes) {
  if (!std::has_single_bit(static_cast<uint64_t>(row_bytes)) || row_bytes < 32) return 0;
  return std::min<int64_t>(3, std::countr_zero(static_cast<uint64_t>(row_bytes)) - 4);
}

struct MmaForm {
  const TensorCore* core;
  bool a_transposed, b_transposed;  ///< the sum is not along neighbouring elements
  int64_t step;
};

void schedule_tensor_cores(Chooser& chooser, const Contraction& c, const Matmul& mm, const MmaTile& tile, const MmaForm& form) {
  const std::string& row = mm.m->name;
  const std::string& column = mm.n->name;
  const std::string& sum = mm.k->name;
  chooser.split(row, tile.m);
  chooser.split(column, tile.n);
  bind_tiles(chooser, mm, {row + "_1", column + "_1"});
  chooser.split(sum, form.step);
  chooser.add("tile", {Chooser::arg(c.accumulator), Chooser::arg(row + "_1"), Chooser::arg(column + "_1")});
  const int64_t size = size_bytes(c.a.buffer->dtype);
  const int64_t a_row = form.a_transposed ? tile.m : form.step, b_row = form.b_transposed ? tile.n : form.step;
  stage_factor(chooser, c.b, sum + "_0", swizzle_bits(b_row * size), 0);
  stage_factor(chooser, c.a, sum + "_0", swizzle_bits(a_row * size), 0);
  chooser.add("tensorize", {Chooser::arg(c.accumulator), Chooser::arg(std::string(form.core->name)), Chooser::arg(tile.warps_m),
                            Chooser::arg(tile.warps_n)});
  if (std::min(copy_bytes(c.a, a_row), copy_bytes(c.b, b_row)) >= kFewestCopiedAhead) {
    const int64_t stage_bytes = (tile.m + tile.n) * form.step * size;
    chooser.add("pipeline",
                {Chooser::arg(sum + "_0"), Chooser::arg(std::clamp<int64_t>(chooser.target().shared_bytes / stage_bytes, 2, 4))});
  }
}

/// What does not fit the instruction and the copies for it.
WhyNot misfit(const Contraction& c, const Matmul& mm, const TensorCore* core, const Target& target) {
  const DType dtype = c.a.buffer->dtype;
  if (c.b.buffer->dtype != dtype)
    return "the factors are " + std::string(name_of(dtype)) + " and " + std::string(name_of(c.b.buffer->dtype));
  if (!core) return "no instruction takes " + std::string(name_of(dtype));
  if (dtype == DType::f32 && !target.allow_tf32) return "products of f32 must be exact";
  // ldmatrix reads the last two axes.
  const int a_last = static_cast<int>(c.a.indices.size()) - 1, b_last = static_cast<int>(c.b.indices.size()) - 1;
  if (mm.a_m + mm.a_k != 2 * a_last - 1 || mm.b_n + mm.b_k != 2 * b_last - 1) return "a factor's matrix is not its last two axes";
  if (!core->transposed && (mm.a_k != a_last || mm.b_k != b_last)) return "the instruction takes no transposed factor";
  if (mm.k->extent < kShortestSum) return "a sum of " + std::to_string(mm.k->extent) + " is short";
  // The last step may run past the sum only where that gives zeros.
  if (mm.k->extent % step_of(mm) != 0 && !(ends_with_buffer(c.a, mm.a_k, mm.k) && ends_with_buffer(c.b, mm.b_k, mm.k)))
    return "the sum ends inside a step and inside a buffer";
  return std::nullopt;
}

}  // namespace

WhyNot tensor_cores(CudaNest& nest) {
  if (!nest.nest.matmul) return nest.nest.not_matmul;
  Chooser& chooser = nest.chooser;
  const Contraction& c = *nest.nest.contraction;
  const Matmul& mm = *nest.nest.matmul;
  const Target& target = nest.target();
  const TensorCore* core = target.tensor_core(c.a.buffer->dtype);
  if (WhyNot why_not = misfit(c, mm, core, target)) return why_not;
  const std::span<const MmaTile> tiles(kMmaTiles);
  const MmaTile* tile = best_tile(tiles, mm, target);
  if (!tile) return "no tile fits " + std::to_string(mm.m->extent) + " x " + std::to_string(mm.n->extent);

  const int64_t step = step_of(mm);
  const MmaForm form{core, !c.a.is_contiguous(mm.a_k), !c.b.is_contiguous(mm.b_k), step};
  MatmulShape shape = shape_of(c, mm, step, core->flops_per_ns, 1, target);
  shape.zeros_past_the_end = ends_with_buffer(c.a, mm.a_k, mm.k) && ends_with_buffer(c.b, mm.b_k, mm.k);
  const SplitK cut = choose_split_k(tiles, *tile, c, mm, shape, target);
  if (cut.parts == 1) {
    schedule_tensor_cores(chooser, c, mm, *tile, form);
  } else {
    schedule_in_parts(chooser, c, cut.parts, step, [&](const Contraction& part, const Matmul& matmul) {
      schedule_tensor_cores(chooser, part, matmul, kMmaTiles[cut.tile], form);
    });
  }
  return std::nullopt;
}

}  // namespace tcc::schedule::cuda
