// Contractions on CUDA that pay for tiles or warps. In order of preference:
//   tensor cores   f16 and bf16 (f32 where the target allows tf32): tiles of 128 x 256 x 32 and smaller, copied ahead by cp.async, mma.sync on register tiles
//   tiles          other matmuls with enough rows and columns: tiles in shared memory, 8 x 8 or 4 x 4 results a thread
//   warps          few results with long sums along neighbouring elements: a warp a result
//   images         sums over whole images (gradients of convolutions): choose_cuda_images.cpp
// What is left (convolutions, short sums) is chosen in choose_cuda_direct.cpp.
//
// Which tile: the one with the least time by waves of blocks over the multiprocessors, given how well a tile of that size uses one of them. A long sum with few
// tiles is cut into parts (choose_cuda_cut.cpp), which then are scheduled as a batch.
#include "schedule/choose_cuda_contract.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "schedule/choose_cuda_cut.h"
#include "schedule/choose_cuda_tiles.h"
#include "schedule/contraction.h"
#include "tcc/support/diagnostics.h"

namespace tcc::schedule {

using namespace tcc::loop;

namespace {

using Arg = Argument;
Arg word(std::string text) { return Chooser::arg(std::move(text)); }
Arg number(int64_t value) { return Chooser::arg(value); }
Arg keyed(std::string name, std::string text) { return Chooser::key(std::move(name), std::move(text)); }
Arg keyed(std::string name, int64_t value) { return {std::move(name), value}; }

std::optional<Matmul> as_matmul(const Contraction& c) {
  if (c.sums.size() != 1 || c.a.buffer == c.b.buffer) return std::nullopt;
  Matmul mm;
  mm.k = c.sums[0];
  // Of several dims of one side the longest is tiled, the others count as batch.
  const auto longest = [&](const std::vector<VarRef>& vars, const Factor& factor) {
    VarRef best;
    for (const VarRef& var : vars) {
      if (factor.axis_of(var.get()) < 0) continue;
      if (var == c.neighbour && var->extent >= 16) return var;
      if (!best || var->extent >= best->extent) best = var;
    }
    return best;
  };
  mm.m = longest(c.only_a, c.a);
  mm.n = longest(c.only_b, c.b);
  if (!mm.m || !mm.n) return std::nullopt;
  for (const VarRef& var : c.dims) {
    if (var != mm.m && var != mm.n) mm.batch.push_back(var);
  }
  mm.a_rows = c.a.axis_of(mm.m.get());
  mm.a_sum = c.a.axis_of(mm.k.get());
  mm.b_columns = c.b.axis_of(mm.n.get());
  mm.b_sum = c.b.axis_of(mm.k.get());
  if (mm.a_sum < 0 || mm.b_sum < 0 || mm.a_sum == mm.a_rows || mm.b_sum == mm.b_columns) return std::nullopt;
  return mm;
}

/// The tile with the least waves of blocks, weighted by what a block does and how fast.
template <class Tile, size_t count> const Tile* best_tile(const Tile (&tiles)[count], const Matmul& mm, const Target& target) {
  const Tile* best = nullptr;
  double best_time = 0;
  for (const Tile& tile : tiles) {
    if (tile.m > mm.m->extent || tile.n > mm.n->extent) continue;
    const int64_t blocks = count_batch(mm) * pieces(mm.m->extent, tile.m) * pieces(mm.n->extent, tile.n);
    const double time = static_cast<double>(pieces(blocks, target.cores)) * static_cast<double>(tile.m * tile.n) / tile.efficiency;
    if (!best || time < best_time) {
      best = &tile;
      best_time = time;
    }
  }
  return best;
}

/// Whether the factor gives zeros where the sum is past its end: copies do where the buffer ends, too.
bool ends_with_buffer(const Factor& factor, int axis, const VarRef& k) {
  return factor.indices[static_cast<size_t>(axis)] == Index(k) && factor.buffer->extents[static_cast<size_t>(axis)] == k->extent;
}

/// How the sum is cut; `whole` is the tile for the sum as it is.
template <class Tile, size_t count>
SumCut cut_for(const Tile (&tiles)[count], const Tile& whole, const Contraction& c, const Matmul& mm, int64_t step, double flops_per_ns,
               double rate_alone, const Target& target) {
  if (!c.neighbour || mm.n != c.neighbour) return {};  // rows and columns would be others in the parts
  std::vector<TileShape> shapes;
  for (const Tile& tile : tiles) shapes.push_back({tile.m, tile.n, tile.efficiency});
  MatmulShape shape{count_batch(mm), mm.m->extent, mm.n->extent, mm.k->extent, step, flops_per_ns / target.cores, 0, false};
  shape.bytes_read = bytes_of(*c.a.buffer) + bytes_of(*c.b.buffer);
  shape.rate_alone = rate_alone;
  shape.zeros_past_the_end = ends_with_buffer(c.a, mm.a_sum, mm.k) && ends_with_buffer(c.b, mm.b_sum, mm.k);
  return choose_sum_cut(shapes, {whole.m, whole.n, whole.efficiency}, shape, target);
}

/// Cuts the sum and schedules both nests, the first one by `schedule`.
template <class F> void choose_in_parts(Chooser& chooser, const Contraction& c, int64_t parts, int64_t step, F schedule) {
  const std::string first = c.dims[0]->name;
  const std::optional<Contraction> part = as_contraction(chooser.find(cut_sum(chooser, c, parts, step)));
  const std::optional<Matmul> matmul = part ? as_matmul(*part) : std::nullopt;
  if (!matmul) internal_error("a part of the matmul `" + c.accumulator + "` is no matmul");
  schedule(*part, *matmul);
  choose_cuda_sum_of_parts(chooser, first);
}

/// Blocks of rows next to each other share columns of b in the L2 cache: groups of 8 rows of tiles run down the columns together.
constexpr int64_t kRasterRows = 8;

/// Binds tiles and batch to blocks; `inside` are the names that stay within the block, in order.
void bind_tiles(Chooser& chooser, const Matmul& mm, const std::vector<std::string>& inside) {
  const std::string& m = mm.m->name;
  const std::string& n = mm.n->name;
  std::vector<std::string> outer;
  for (const VarRef& var : mm.batch) outer.push_back(var->name);
  if (chooser.extent(m + "_0") > kRasterRows && chooser.extent(n + "_0") > 1) {
    chooser.split(m + "_0", kRasterRows);
    outer.insert(outer.end(), {m + "_0_0", n + "_0", m + "_0_1"});
  } else {
    outer.insert(outer.end(), {m + "_0", n + "_0"});
  }
  std::vector<std::string> order = outer;
  order.insert(order.end(), inside.begin(), inside.end());
  chooser.reorder(order);
  for (const std::string& dim : outer) chooser.bind(dim, "block");
}

// ------------------------------------------------------------------------------------------------------- tensor cores

struct MmaTile {
  int64_t m, n, warps_m, warps_n;
  double efficiency;  ///< share of the multiprocessor's rate that the tile reaches
};
constexpr MmaTile kMmaTiles[] = {
    {128, 256, 2, 4, 1.00}, {256, 128, 4, 2, 0.95}, {128, 128, 2, 2, 0.80}, {64, 128, 2, 2, 0.55},
    {128, 64, 2, 2, 0.55},  {64, 64, 2, 2, 0.40},   {32, 128, 1, 4, 0.35},  {32, 64, 1, 2, 0.25},
    {16, 128, 1, 4, 0.20},  {16, 64, 1, 2, 0.15},   {16, 32, 1, 1, 0.08},
};

/// Swizzle bits for rows of a staged matrix that ldmatrix reads: 16-byte pieces of eight rows in different banks.
int64_t swizzle_bits(int64_t row_bytes) {
  if (!std::has_single_bit(static_cast<uint64_t>(row_bytes)) || row_bytes < 32) return 0;
  return std::min<int64_t>(3, std::countr_zero(static_cast<uint64_t>(row_bytes)) - 4);
}

struct MmaForm {
  const TensorCore* core;
  bool a_turned, b_turned;  ///< turned: the sum is not along neighbouring elements
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
  chooser.add("tile", {word(c.accumulator), word(row + "_1"), word(column + "_1")});
  const int64_t size = size_bytes(c.a.buffer->dtype);
  const int64_t a_row = form.a_turned ? tile.m : form.step, b_row = form.b_turned ? tile.n : form.step;
  stage_factor(chooser, c.b, sum + "_0", swizzle_bits(b_row * size), 0);
  stage_factor(chooser, c.a, sum + "_0", swizzle_bits(a_row * size), 0);
  chooser.add("tensorize", {word(c.accumulator), word(std::string(form.core->name)), number(tile.warps_m), number(tile.warps_n)});
  if (std::min(copy_bytes(c.a, a_row), copy_bytes(c.b, b_row)) >= 4) {
    const int64_t stage_bytes = (tile.m + tile.n) * form.step * size;
    chooser.add("pipeline", {word(sum + "_0"), number(std::clamp<int64_t>(chooser.target().shared_bytes / stage_bytes, 2, 4))});
  }
}

bool choose_tensor_cores(Chooser& chooser, const Contraction& c, const Matmul& mm) {
  const DType dtype = c.a.buffer->dtype;
  const Target& target = chooser.target();
  const TensorCore* core = target.tensor_core(dtype);
  if (c.b.buffer->dtype != dtype || !core || (dtype == DType::f32 && !target.allow_tf32)) return false;
  // ldmatrix reads the last two axes.
  const int a_last = static_cast<int>(c.a.indices.size()) - 1, b_last = static_cast<int>(c.b.indices.size()) - 1;
  if (mm.a_rows + mm.a_sum != 2 * a_last - 1 || mm.b_columns + mm.b_sum != 2 * b_last - 1) return false;
  const bool a_turned = mm.a_sum != a_last, b_turned = mm.b_sum != b_last;
  if (!core->transposed && (a_turned || b_turned)) return false;
  if (mm.k->extent < 16) return false;
  const int64_t step = mm.k->extent < 32 ? 16 : 32;
  // The last step may run past the sum only where that gives zeros.
  if (mm.k->extent % step != 0 && !(ends_with_buffer(c.a, mm.a_sum, mm.k) && ends_with_buffer(c.b, mm.b_sum, mm.k))) return false;
  const MmaTile* tile = best_tile(kMmaTiles, mm, target);
  if (!tile) return false;

  const MmaForm form{core, a_turned, b_turned, step};
  const SumCut cut = cut_for(kMmaTiles, *tile, c, mm, step, core->flops_per_ns, 1, target);
  if (cut.parts == 1) {
    schedule_tensor_cores(chooser, c, mm, *tile, form);
  } else {
    choose_in_parts(chooser, c, cut.parts, step, [&](const Contraction& part, const Matmul& matmul) {
      schedule_tensor_cores(chooser, part, matmul, kMmaTiles[cut.tile], form);
    });
  }
  return true;
}

// -------------------------------------------------------------------------------------------------------------- tiles

constexpr ThreadTile kThreadTiles[] = {
    {128, 128, 16, 16, 1.00}, {128, 64, 16, 16, 0.85}, {64, 128, 16, 16, 0.85}, {64, 64, 16, 16, 0.70}, {32, 64, 8, 16, 0.50},
    {64, 32, 16, 8, 0.50},    {32, 32, 8, 8, 0.35},    {16, 64, 4, 16, 0.30},   {16, 32, 4, 8, 0.20},   {32, 16, 8, 4, 0.20},
};

/// A tile's dim over threads and the results that one of them holds. Where the factor's elements are neighbours along the dim, a thread takes four
/// neighbours (one 16-byte load from shared memory); else neighbouring threads take neighbouring rows, in different banks.
struct ThreadSplit {
  std::string thread;
  std::vector<std::string> held;
};
ThreadSplit split_for_threads(Chooser& chooser, const std::string& dim, int64_t tile, int64_t threads, bool neighbours) {
  if (!neighbours) {
    chooser.split(dim, threads);
    return {dim + "_1", {dim + "_0"}};
  }
  if (tile == 4 * threads) {
    chooser.split(dim, 4);
    return {dim + "_0", {dim + "_1"}};
  }
  chooser.split(dim, 4 * threads);
  chooser.split(dim + "_1", 4);
  return {dim + "_1_0", {dim + "_0", dim + "_1_1"}};
}

void schedule_tiles(Chooser& chooser, const Contraction& c, const Matmul& mm, const ThreadTile& tile, int64_t step) {
  const std::string& sum = mm.k->name;
  const bool a_neighbours = mm.a_rows == static_cast<int>(c.a.indices.size()) - 1,
             b_neighbours = mm.b_columns == static_cast<int>(c.b.indices.size()) - 1;
  const std::vector<std::string> held = spread_tiles(chooser, mm, tile, a_neighbours, b_neighbours);
  chooser.split(sum, step);
  chooser.split(sum + "_1", 4);
  chooser.unroll(sum + "_1_1");
  hold_tile(chooser, c, held);
  const auto pad = [](const Factor& factor, bool neighbours) { return neighbours ? 0 : 16 / size_bytes(factor.buffer->dtype); };
  stage_factor(chooser, c.b, sum + "_0", 0, pad(c.b, b_neighbours));
  stage_factor(chooser, c.a, sum + "_0", 0, pad(c.a, a_neighbours));
  if (std::min(copy_bytes(c.a, a_neighbours ? tile.m : step), copy_bytes(c.b, b_neighbours ? tile.n : step)) >= 4) {
    chooser.add("pipeline", {word(sum + "_0"), number(3)});
  }
}

bool choose_tiles(Chooser& chooser, const Contraction& c, const Matmul& mm) {
  const int64_t k = mm.k->extent;
  if (k < 8) return false;
  const Target& target = chooser.target();
  const ThreadTile* tile = best_tile(kThreadTiles, mm, target);
  if (!tile) return false;
  const int64_t step = k % 16 == 0 || k > 64 ? 16 : k % 8 == 0 || k > 16 ? 8 : 4;
  const SumCut cut = cut_for(kThreadTiles, *tile, c, mm, step, target.flops_per_ns * kExactRate, kExactRateAlone, target);
  if (cut.parts == 1) {
    schedule_tiles(chooser, c, mm, *tile, step);
  } else {
    choose_in_parts(chooser, c, cut.parts, step, [&](const Contraction& part, const Matmul& matmul) {
      schedule_tiles(chooser, part, matmul, kThreadTiles[cut.tile], step);
    });
  }
  return true;
}

// -------------------------------------------------------------------------------------------------------------- warps

bool choose_warps(Chooser& chooser, const Contraction& c) {
  const VarRef& last = c.sums.back();
  const int64_t results = c.results();
  if (last->extent < 64 || results > chooser.target().cores * 1024) return false;
  const auto along_memory = [&](const Factor& factor) {
    return factor.axis_of(last.get()) == static_cast<int>(factor.indices.size()) - 1 && factor.buffer->element_strides().back() == 1;
  };
  if (!along_memory(c.a) || !along_memory(c.b)) return false;
  chooser.split(last->name, chooser.target().warp_threads);
  chooser.add("reduce_across", {word(last->name + "_1"), word("lane")});
  const std::vector<std::string> dims = chooser.fuse_all(c.dims[0]->name);
  chooser.split(dims.back(), results >= 4 * chooser.target().cores ? 4 : 1);
  for (size_t i = 0; i + 1 < dims.size(); i++) chooser.bind(dims[i], "block");
  chooser.bind(dims.back() + "_0", "block");
  chooser.bind(dims.back() + "_1", "warp");
  return true;
}

}  // namespace

int64_t count_batch(const Matmul& mm) {
  int64_t count = 1;
  for (const VarRef& var : mm.batch) count *= var->extent;
  return count;
}

int64_t copy_bytes(const Factor& factor, int64_t last_tile) {
  const Buffer& buffer = *factor.buffer;
  const int64_t size = size_bytes(buffer.dtype), last = static_cast<int64_t>(buffer.extents.size()) - 1;
  const std::vector<int64_t> strides = buffer.element_strides();
  if (strides[static_cast<size_t>(last)] != 1) return size;
  int64_t elements = std::gcd(16 / size, std::gcd(last_tile, buffer.extents[static_cast<size_t>(last)]));
  const Index& index = factor.indices[static_cast<size_t>(last)];
  elements = std::gcd(elements, index.constant());
  for (const Term& term : index.terms()) {
    if (term.coefficient != 1) elements = std::gcd(elements, term.coefficient);
  }
  for (int64_t axis = 0; axis < last; axis++) elements = std::gcd(elements, strides[static_cast<size_t>(axis)]);
  return elements * size;
}

int64_t bytes_of(const Buffer& buffer) { return buffer.count() * size_bytes(buffer.dtype); }

std::span<const ThreadTile> thread_tiles() { return kThreadTiles; }

const ThreadTile* best_thread_tile(const Matmul& mm, const Target& target) { return best_tile(kThreadTiles, mm, target); }

std::vector<std::string> spread_tiles(Chooser& chooser, const Matmul& mm, const ThreadTile& tile, bool a_neighbours, bool b_neighbours) {
  const std::string& row = mm.m->name;
  const std::string& column = mm.n->name;
  chooser.split(row, tile.m);
  chooser.split(column, tile.n);
  const ThreadSplit rows = split_for_threads(chooser, row + "_1", tile.m, tile.threads_m, a_neighbours);
  const ThreadSplit columns = split_for_threads(chooser, column + "_1", tile.n, tile.threads_n, b_neighbours);
  std::vector<std::string> held = rows.held;
  held.insert(held.end(), columns.held.begin(), columns.held.end());
  std::vector<std::string> inside{rows.thread, columns.thread};
  inside.insert(inside.end(), held.begin(), held.end());
  bind_tiles(chooser, mm, inside);
  chooser.bind(rows.thread, "thread");
  chooser.bind(columns.thread, "thread");
  for (const std::string& dim : held) chooser.unroll(dim);
  return held;
}

void hold_tile(Chooser& chooser, const Contraction& c, const std::vector<std::string>& held) {
  std::vector<Arg> tiled{word(c.accumulator)};
  for (const std::string& dim : held) tiled.push_back(word(dim));
  chooser.add("tile", std::move(tiled));
}

void stage_factor(Chooser& chooser, const Factor& factor, const std::string& at, int64_t swizzle, int64_t pad) {
  std::vector<Arg> arguments{word(factor.buffer->name), word("shared"), keyed("at", at)};
  if (swizzle > 0) arguments.push_back(keyed("swizzle", swizzle));
  if (pad > 0) arguments.push_back(keyed("pad", pad));
  chooser.add("stage", std::move(arguments));
}

bool choose_cuda_contract(Chooser& chooser, const std::string& first_dim) {
  const std::optional<Contraction> c = as_contraction(chooser.find(first_dim));
  if (!c) {
    const std::optional<Contraction> spread = as_contraction(chooser.find(first_dim), true);
    return spread && spread->results() > 0 && spread->length() > 0 && choose_cuda_conv(chooser, *spread);
  }
  if (c->results() == 0 || c->length() == 0) return false;
  if (const std::optional<Matmul> mm = as_matmul(*c)) {
    if (choose_tensor_cores(chooser, *c, *mm) || choose_cuda_conv(chooser, *c) || choose_tiles(chooser, *c, *mm)) return true;
  }
  return choose_cuda_conv(chooser, *c) || choose_cuda_image_sums(chooser, *c) || choose_warps(chooser, *c);
}

}  // namespace tcc::schedule
