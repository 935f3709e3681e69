// A matmul whose tiles don't fill the chip, or whose last wave of blocks is nearly empty, may be cut along its sum. Each part is a batch index of a matmul with
// a shorter sum; what they write is added up, in one order, by a second kernel, which also has the epilogue.
//
//   f32[768, 8192] x f32[8192, 768]      36 tiles of 128 x 128 on 132 multiprocessors      in 7 parts of 1184: 252 blocks, nearly two full waves
//
// The parts are memory at the time of the step that needs most of it, so they are kept few: see kMostBytes.
#include "schedule/cuda/split_k.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "schedule/cuda/nest.h"
#include "tcc/loop/edit.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/integer_math.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

namespace {

/// Steps of a part: below that the prologue of copies and the writing of results cost as much as they save.
constexpr int64_t kShortestPart = 256, kMostParts = 128;
/// All parts together; three quarters of what is read is a bound, too (small results may exceed that one).
constexpr int64_t kMostBytes = 32 << 20, kSmallBytes = 1 << 20;
/// A step of a block that nothing else keeps busy, and how many such blocks one multiprocessor runs at a time.
constexpr double kStepNs = 250;
constexpr int64_t kBlocksAtATime = 4;
/// A cut must save that much of the time, and more parts, which take more memory, that much of the time with fewer.
constexpr double kWorthwhile = 0.85, kMorePartsWorthwhile = 0.95;

constexpr int64_t kJoinThreads = 128, kFewThreads = 128;  ///< of a block; of a multiprocessor, before threads take several results

double tiles_ns(const TileShape& tile, const MatmulShape& shape, int64_t parts, int64_t length, const Target& target) {
  const int64_t blocks = parts * shape.batch * ceil_div(shape.m, tile.m) * ceil_div(shape.n, tile.n);
  const double step = 2.0 * static_cast<double>(tile.m * tile.n * shape.step) / (shape.flops_per_ns * tile.efficiency);
  const int64_t waves = ceil_div(blocks, target.cores);
  const double busy = (static_cast<double>(waves) + (waves % 2 == 1 ? 1 / shape.rate_alone - 1 : 0)) * step;
  const double waiting = static_cast<double>(ceil_div(blocks, target.cores * kBlocksAtATime)) * kStepNs;
  return static_cast<double>(ceil_div(length, shape.step)) * std::max(busy, waiting);
}

}  // namespace

double whole_sum_ns(const TileShape& tile, const MatmulShape& shape, const Target& target) {
  return tiles_ns(tile, shape, 1, shape.k, target);
}

SplitK choose_split_k(std::span<const TileShape> tiles, const TileShape& whole, const MatmulShape& shape, const Chooser& chooser) {
  const Target& target = chooser.target();
  std::vector<SplitK> options(1);  // the sum stays whole
  std::vector<double> times{whole_sum_ns(whole, shape, target)};
  size_t best = 0;
  double best_ns = times[0] * kWorthwhile;
  const int64_t bytes = shape.batch * shape.m * shape.n * size_bytes(DType::f32);  // of one part
  const int64_t most_bytes = std::min(kMostBytes, std::max(kSmallBytes, shape.bytes_read * 3 / 4));
  const int64_t most = std::min({kMostParts, shape.k / kShortestPart, most_bytes / std::max<int64_t>(bytes, 1)});
  int64_t last_length = 0;
  for (int64_t wanted = 2; wanted <= most; wanted++) {
    const int64_t length = align_up(ceil_div(shape.k, wanted), shape.step), parts = ceil_div(shape.k, length);
    if (length == last_length || parts < 2 || (shape.k % length != 0 && !shape.zeros_past_the_end)) continue;
    if (parts > 16 && parts % 8 != 0) continue;  // they are added up eight at a time
    last_length = length;
    const double sum_ns = target.second_kernel_ns + 2.0 * static_cast<double>(parts * bytes) / target.bytes_per_ns;
    for (size_t i = 0; i < tiles.size(); i++) {
      if (tiles[i].m > shape.m || tiles[i].n > shape.n) continue;
      const double ns = tiles_ns(tiles[i], shape, parts, length, target) + sum_ns;
      options.push_back({parts, i, ns});
      times.push_back(ns);
      if (ns >= best_ns * (best > 0 && parts > options[best].parts ? kMorePartsWorthwhile : 1)) continue;
      best_ns = ns;
      best = options.size() - 1;
    }
  }
  return options[chooser.decide("parts of the sum", times, best)];
}

std::string split_sum(Chooser& chooser, const Contraction& c, int64_t parts, int64_t multiple, bool as_given) {
  std::vector<std::pair<int64_t, std::string>> order;  // by the distance of neighbours in memory
  for (const Access& access : accesses_of(std::get<Loop>(chooser.find(c.dims[0]->name).node).body)) {
    if (!access.store) continue;
    for (const VarRef& var : c.dims) order.emplace_back(-stride_of(access, var.get()).value_or(0), var->name);
    break;
  }
  if (!as_given && !std::is_sorted(order.begin(), order.end(), [](const auto& x, const auto& y) { return x.first < y.first; })) {
    std::stable_sort(order.begin(), order.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    std::vector<std::string> names;
    for (const auto& [stride, name] : order) names.push_back(name);
    chooser.reorder(names);
  }
  const std::string sum = c.k_dims[0]->name;
  std::vector<Argument> arguments{Chooser::arg(c.accumulator), Chooser::arg(parts)};
  if (multiple > 0) arguments.push_back({"multiple", multiple});
  chooser.add("split_reduce", std::move(arguments));
  return sum + "_0";
}

void schedule_sum_of_parts(Chooser& chooser, const std::string& first_dim) {
  std::vector<std::string> dims = chooser.fuse_all(first_dim);
  const Loop& nest = std::get<Loop>(chooser.find(dims.back()).node);
  const Reduce* reduce = nullptr;
  for (const Stmt& stmt : nest.body) {
    if (const auto* found = std::get_if<Reduce>(&stmt.node)) reduce = found;
  }
  if (!reduce) internal_error("a nest that adds up parts without a reduce");
  const std::string sum = reduce->states[0].result->name, part = reduce->dims[0].var->name;
  const int64_t parts = reduce->dims[0].var->extent, results = iterations(nest.dims);
  int64_t v = vector_width(chooser, accesses_of(nest.body), nest.dims.back(), true);
  while (v > 1 && results / v < chooser.target().cores * kFewThreads) v /= 2;
  const std::string vector = dims.back() + "_1";
  if (v > 1) {
    chooser.split(dims.back(), v);
    dims.back() += "_0";
  }
  if (parts > 16) chooser.split(part, 8);
  spread_over_threads(chooser, dims, kJoinThreads, 1);
  if (v > 1) {
    chooser.add("tile", {Chooser::arg(sum), Chooser::arg(vector)});
    chooser.vectorize(vector);
  }
  chooser.unroll(parts > 16 ? part + "_1" : part);
}

}  // namespace tcc::schedule::cuda
