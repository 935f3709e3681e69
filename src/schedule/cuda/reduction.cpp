// Reductions on CUDA, a value for each element of a map: along contiguous memory as rows are, otherwise a thread for each result. Few results of long reductions
// are cut into parts, which a second nest joins. Across memory: strided_reduction.cpp.
#include <algorithm>
#include <limits>

#include "schedule/cuda/nest.h"
#include "tcc/loop/edit.h"
#include "tcc/support/integer_math.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

namespace {

/// Elements that are worth a warp; where results are as contiguous, or few enough that contiguity across them does not matter.
constexpr int64_t kShortestRow = 32, kFewResults = 64;
/// Elements of a sum, along memory and across it, that are worth a second kernel.
constexpr int64_t kLongAlong = 16384, kLongAcross = 256;
/// Contiguous elements of a part, at least.
constexpr int64_t kShortestPiece = 512;
/// Blocks of partial results for each multiprocessor, each with a row.
constexpr int64_t kPartsPerMultiprocessor = 4;
/// Elements of a reduce that are unrolled altogether.
constexpr int64_t kMostUnrolled = 32;

void unroll_windows(Chooser& c, const std::vector<std::string>& loops) {
  for (const std::string& first : loops) {
    const std::vector<loop::Dim> dims = *dims_of(c.find(first));
    if (iterations(dims) > kMostUnrolled) continue;
    for (const loop::Dim& dim : dims) c.unroll(dim.var->name);
  }
}

/// Two nests: partial results, then their combination; each is scheduled as what it is.
void cut_into_parts(CudaNest& nest, bool along) {
  Chooser& c = nest.chooser;
  std::vector<std::string> names = c.fuse_all(nest.rows.loops[0]);
  const int64_t cores = c.target().cores, count = nest.rows.count;
  const int64_t wanted = std::max<int64_t>(1, along ? kPartsPerMultiprocessor * cores / count : cores * kThreads / count);
  const auto chunk_for = [&](int64_t extent, int64_t least) {
    int64_t chunk = 1;  // a power of two keeps vectors whole
    while (chunk * wanted < extent || chunk < least) chunk *= 2;
    return chunk;
  };
  int64_t first = c.extent(names[0]), chunk = chunk_for(first, 4);
  const int64_t piece = chunk_for(c.extent(names.back()), kShortestPiece);
  if (along && names.size() > 1 && first / chunk * 2 < wanted && piece < c.extent(names.back())) {
    // The outermost dim has too few iterations: pieces of the contiguous one are parts.
    const std::string last = names.back();
    c.split(last, piece);
    names.back() = last + "_1";
    names.insert(names.begin(), last + "_0");
    c.reorder(names);
    first = c.extent(names[0]);
    chunk = 1;
  }
  const int64_t parts = ceil_div(first, chunk);
  if (parts < 2) {
    if (along) spread_rows(c, c.fuse_all(nest.first()), {names[0]}, iterations(*dims_of(c.find(names[0]))));
    else spread_over_threads(c, c.fuse_all(nest.first()), kThreads, 1);
    return;
  }
  c.add("split_reduce", {Chooser::arg(nest.rows.sums[0]), Chooser::arg(parts)});
  schedule_reduces(c, names[0] + "_0", along ? kShortestRow : std::numeric_limits<int64_t>::max());
  schedule_reduces(c, nest.first(), along ? kShortestRow : kShortestJoined);
}

}  // namespace

bool is_along_memory(const Rows& rows) {
  return rows.plain && !rows.loops.empty() && rows.along > 0 && (rows.along >= rows.across || rows.count < kFewResults) &&
         rows.longest >= kShortestRow;
}

WhyNot split_reduction(CudaNest& nest) {
  const Rows& rows = nest.rows;
  if (rows.sums.size() != 1 || !rows.plain) return "it is not one reduce";
  if (rows.scatters) return "it scatters";
  if (rows.masked) return "the reduce is masked";
  if (rows.count >= 2 * nest.target().cores) return "there are " + std::to_string(rows.count) + " results";
  if (rows.longest <= (is_along_memory(rows) ? kLongAlong : kLongAcross)) return "sums of " + std::to_string(rows.longest) + " are short";
  cut_into_parts(nest, is_along_memory(rows));
  return std::nullopt;
}

WhyNot contiguous_reduction(CudaNest& nest) {
  const Rows& rows = nest.rows;
  if (!is_along_memory(rows)) return "the reduced elements are not neighbours in memory, or fewer than " + std::to_string(kShortestRow);
  if (rows.scatters) return "it scatters";
  spread_rows(nest.chooser, nest.chooser.fuse_all(nest.first()), rows.loops, rows.longest);
  return std::nullopt;
}

WhyNot result_per_thread(CudaNest& nest) {
  unroll_windows(nest.chooser, nest.rows.loops);
  spread_over_threads(nest.chooser, nest.chooser.fuse_all(nest.first()), kThreads, 1);
  return std::nullopt;
}

void schedule_reduces(Chooser& c, const std::string& first_dim, int64_t shortest_row) {
  std::vector<std::string> loops;
  int64_t longest = 1;
  for (const Stmt& stmt : std::get<Loop>(c.find(first_dim).node).body) {
    const auto* reduce = std::get_if<Reduce>(&stmt.node);
    if (!reduce) continue;
    loops.push_back(reduce->dims.front().var->name);
    longest = std::max(longest, iterations(reduce->dims));
  }
  const std::vector<std::string> outer = c.fuse_all(first_dim);
  if (longest >= shortest_row) {
    spread_rows(c, outer, loops, longest);
    return;
  }
  for (const std::string& first : loops) load_together(c, first);
  spread_over_threads(c, outer, kThreads, 1);
}

}  // namespace tcc::schedule::cuda
