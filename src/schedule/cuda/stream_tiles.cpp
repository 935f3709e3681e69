#include "schedule/cuda/stream_tiles.h"

#include <algorithm>

#include "schedule/cost.h"
#include "schedule/cuda/matmul.h"
#include "tcc/loop/rewrite.h"
#include "tcc/loop/tensor_map.h"
#include "tcc/support/integer_math.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

namespace {

/// Fewer rows would leave most of a tile empty; shorter rows are read in one piece.
constexpr int64_t kFewRows = 32, kShortRow = 32;
/// Threads of a warpgroup.
constexpr int64_t kGroupThreads = 128;
constexpr int64_t kMostStages = 2;
/// Of the shorter of products and arithmetic, what is not done at the same time with three warpgroups; with up to two see kApart. Measured on an H200.
constexpr double kApartOfThree = 0.3;
/// Of each step, beside: waits for copies and products, exchanges between lanes. Measured on an H200: 230 to 270.
constexpr double kStepNs = 250;

/// Fills in what follows from the size; false where it does not fit.
bool measure(StreamTile& tile, const StreamWork& work, const Target& target) {
  const auto real = [](int64_t value) { return static_cast<double>(value); };
  const int64_t groups = tile.rows / kWarpgroupRows, size = size_bytes(work.dtype);
  const bool row_tail = work.row->extent % tile.rows != 0, column_tail = work.column->extent % tile.columns != 0;
  const int64_t needed = work.scores * tile.columns / 2 + work.weights * tile.columns / 4 + work.result_columns / 2 + work.registers +
                         (row_tail || column_tail ? work.tail_registers : 0);
  const int64_t room = target.multiprocessor_registers - kGroupThreads * kLoadRegisters;
  tile.registers = std::min<int64_t>(room / (groups * kGroupThreads) / 8 * 8, (target.thread_registers - 1) / 8 * 8);
  if (tile.registers < needed) return false;
  const auto bytes = [&](int64_t stages) {
    return size * (tile.rows * work.row_elements + stages * tile.columns * work.column_elements) + 4096;
  };
  tile.stages = std::min<int64_t>(kMostStages, ceil_div(work.column->extent, tile.columns));
  while (tile.stages > 1 && bytes(tile.stages) > target.shared_bytes) --tile.stages;
  if (bytes(tile.stages) > target.shared_bytes) return false;

  const int64_t blocks = work.batch * ceil_div(work.row->extent, tile.rows);
  const TensorCore* core = target.warpgroup_core(work.dtype);
  const double mma_ns = 2.0 * real(tile.rows * tile.columns * work.multiply_adds) / (core->flops_per_ns / target.cores);
  const double operations = work.operations + (column_tail ? work.tail_operations : 0);
  const double other_ns = real(tile.rows * tile.columns) * operations / (target.flops_per_ns / 2 / target.cores);
  const double step_ns = kStepNs + std::max(mma_ns, other_ns) + (groups < 3 ? kApart : kApartOfThree) * std::min(mma_ns, other_ns);
  const double latency_ns = target.second_kernel_ns - target.launch_ns;
  double steps = real(ceil_div(work.column->extent, tile.columns));
  if (work.is_triangular) steps = (steps + real(tile.rows) / real(tile.columns) + 1) / 2;
  tile.ns = real(ceil_div(blocks, int64_t{target.cores})) * (steps * step_ns + latency_ns);
  return true;
}

}  // namespace

std::vector<StreamTile> stream_tiles(const StreamWork& work, const Target& target) {
  std::vector<StreamTile> tiles;
  for (const int64_t rows : {192, 128, 64}) {
    if (rows > kWarpgroupRows && work.row->extent <= rows - kWarpgroupRows) continue;
    for (int64_t columns = 256; columns >= 32; columns -= 16) {
      // Of sizes that take the same number of steps, the least.
      const bool is_least = ceil_div(work.column->extent, columns) != ceil_div(work.column->extent, columns - 16);
      StreamTile tile{rows, columns};
      if (is_least && measure(tile, work, target)) tiles.push_back(tile);
    }
  }
  return tiles;
}

WhyNot misfit_of_stream(const StreamWork& work, std::span<const int64_t> lengths, const Target& target) {
  if (size_bytes(work.dtype) != 2) return "the factors are " + std::string(tcc::name_of(work.dtype));
  if (!target.warpgroup_core(work.dtype))
    return "no instruction of a warpgroup takes " + std::string(tcc::name_of(work.dtype)) + " on " + target.name;
  const int64_t panel = kPanelBytes / size_bytes(work.dtype);
  for (const int64_t length : lengths) {
    if (length % panel != 0) return "rows of factors are no multiples of " + std::to_string(panel) + " elements";
  }
  if (work.row->extent < kFewRows || work.column->extent < kShortRow) return "few rows or columns of scores";
  return std::nullopt;
}

WhyNot stream_best(CudaNest& nest, const StreamWork& work, const char* primitive, const std::string& reduce,
                   const std::set<std::string>& factors) {
  const std::vector<StreamTile> tiles = stream_tiles(work, nest.target());
  if (tiles.empty()) return "no tile fits";
  std::vector<double> times;
  for (const StreamTile& tile : tiles) times.push_back(tile.ns);
  const auto best = static_cast<size_t>(std::min_element(times.begin(), times.end()) - times.begin());
  const StreamTile& tile = tiles[nest.chooser.decide("tile", times, best)];
  Chooser trial = nest.chooser;
  trial.add(primitive, {Chooser::arg(reduce), Chooser::arg(tile.rows), Chooser::arg(tile.columns), Chooser::arg(tile.stages),
                        Chooser::arg(tile.registers), Chooser::arg(kLoadRegisters)});
  if (WhyNot misfit = misfit_of_copies(trial.unit(), factors)) return misfit;
  nest.chooser.take_over(std::move(trial));
  nest.stream_ns = tile.ns;
  return std::nullopt;
}

}  // namespace tcc::schedule::cuda
