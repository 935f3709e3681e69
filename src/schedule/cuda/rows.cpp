// Rows on CUDA: loops and reduces over the same elements, such as softmax and layer norm. A warp for each row of up to 1024 elements, a block for each longer
// one; what is read more than once stays in registers. A thread for each row where rows are short, or lie side by side in memory.
#include <algorithm>

#include "schedule/cuda/nest.h"
#include "tcc/loop/edit.h"
#include "tcc/loop/primitives.h"
#include "tcc/support/integer_math.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

namespace {

/// A register buffer of one thread may hold so many values; all of them together twice that. Blocks of 1024 threads have 64 registers a thread.
constexpr int64_t kKeptPerThread = 64, kKeptPerThreadOf1024 = 32;
/// Elements of a row that a warp computes.
constexpr int64_t kLongestOfAWarp = 1024;
/// Elements of a row that are worth a warp; where neighbours are in neighbouring rows, of which there are enough for threads, worth a block.
constexpr int64_t kShortestOfAWarp = 16, kEnoughRows = 4096, kShortestAcross = 512;

bool defines(const loop::Unit& unit, const std::string& scalar) {
  bool found = false;
  walk(unit.body, [&](const Stmt& stmt) {
    for (const ScalarRef& defined : defined_by(stmt)) found |= defined->name == scalar;
  });
  return found;
}

int loads_and_costly_ops(const loop::Unit& unit) {
  const WrittenWork work = written_work(unit);
  return work.global_loads + work.costly_ops;
}

/// Keeps loads and costly values that several loops over the row share.
void keep_what_is_read_again(Chooser& c) {
  std::vector<std::string> candidates;
  walk(c.unit().body, [&](const Stmt& stmt) {
    const auto* reduce = std::get_if<Reduce>(&stmt.node);
    if (!reduce || reduce->dims.empty()) return;
    int64_t per_thread = 1;
    for (const loop::Dim& dim : reduce->dims) {
      if (dim.bind == Bind::serial || dim.bind == Bind::none) return;
      if (dim.bind != Bind::lane && dim.bind != Bind::thread) per_thread *= dim.var->extent;
    }
    if (per_thread > kKeptPerThread) return;
    for (const Stmt& inner : reduce->body) {
      const auto* let = std::get_if<Let>(&inner.node);
      if (let && let->value->kind == Expr::Kind::load) candidates.push_back(let->scalar->name);
    }
    if (reduce->combine) return;
    for (const State& state : reduce->states) {
      if (is_costly(state.value)) candidates.push_back(state.result->name);
    }
  });
  int kept = 0;
  for (const std::string& name : candidates) {
    if (kept == 2 || !defines(c.unit(), name)) continue;
    const loop::Unit trial = cache(c.unit(), name, Space::registers);
    if (loads_and_costly_ops(trial) >= loads_and_costly_ops(c.unit())) continue;
    c.add("cache", {Chooser::arg(name), Chooser::arg(std::string("registers"))});
    kept++;
  }
}

/// A warp, or a block of at least four.
int64_t threads_of_row(const Chooser& c, int64_t longest) {
  const int64_t warp = c.target().warp_threads, fewest = 4 * warp, most = c.target().block_threads;
  int64_t threads = warp;
  if (longest > kLongestOfAWarp) {
    while (threads < most && threads * 16 < longest) threads *= 2;
    threads = std::max(threads, fewest);
  }
  std::vector<int64_t> options{threads};
  if (threads > warp && threads * 2 <= most) options.push_back(threads * 2);
  if (threads > fewest) options.push_back(threads / 2);
  if (threads == warp && longest > fewest) options.push_back(fewest);
  return options[c.decide("threads of a row", options.size(), 0)];
}

/// Lanes of a warp that a row takes: as many as it has pieces, where several rows then fill a warp; else all.
int64_t lanes_of_row(const Chooser& c, const std::vector<std::string>& steps) {
  const int64_t warp = c.target().warp_threads, pieces = c.extent(steps.front());
  const bool alike = std::all_of(steps.begin(), steps.end(), [&](const std::string& step) { return c.extent(step) == pieces; });
  return alike && pieces > 1 && pieces < warp && warp % pieces == 0 ? pieces : warp;
}

}  // namespace

WhyNot row_per_thread(CudaNest& nest) {
  const Rows& rows = nest.rows;
  const bool side_by_side = rows.across > rows.along && (rows.count >= kEnoughRows || rows.longest < kShortestAcross);
  if (rows.plain && rows.longest >= kShortestOfAWarp && !side_by_side)
    return "rows of " + std::to_string(rows.longest) + " are long enough";
  if (rows.plain) {
    for (const std::string& first : rows.loops) load_together(nest.chooser, first);
  }
  spread_over_threads(nest.chooser, rows.dims, kThreads, 1);
  return std::nullopt;
}

WhyNot row_per_warp(CudaNest& nest) {
  if (!nest.rows.plain) return "there are loops inside those over a row";
  if (nest.rows.longest > kLongestOfAWarp) return "rows of " + std::to_string(nest.rows.longest) + " are more than a warp keeps";
  spread_rows(nest.chooser, nest.rows.dims, nest.rows.loops, nest.rows.longest);
  return std::nullopt;
}

WhyNot row_per_block(CudaNest& nest) {
  if (!nest.rows.plain) return "there are loops inside those over a row";
  spread_rows(nest.chooser, nest.rows.dims, nest.rows.loops, nest.rows.longest);
  return std::nullopt;
}

void spread_rows(Chooser& c, const std::vector<std::string>& outer, const std::vector<std::string>& loops, int64_t longest) {
  const std::string row = fuse_everything(c, outer);
  int64_t v = 8;
  std::vector<std::vector<std::string>> names;
  for (const std::string& first : loops) {
    names.push_back(c.fuse_all(first));
    const Stmt& stmt = c.find(names.back().back());
    v = std::min(v, vector_width(c, accesses_of({stmt}), dims_of(stmt)->back(), false));
  }
  std::vector<std::string> steps;
  for (std::vector<std::string>& part : names) {
    const std::string last = part.back();
    if (v > 1) {
      c.split(last, v);
      c.vectorize(last + "_1");
      part.back() = last + "_0";
    }
    steps.push_back(fuse_everything(c, part));
  }
  const int64_t count = c.extent(row), cores = c.target().cores;
  const int64_t threads = threads_of_row(c, longest);
  const bool warps = threads == c.target().warp_threads;
  int64_t lanes = threads;
  if (warps) {
    std::vector<int64_t> options{count >= cores * 8 ? 8 : count >= cores * 4 ? 4 : 1};
    for (const int64_t other : {4, 8, 1}) {
      if (other != options[0] && other <= count) options.push_back(other);
    }
    const int64_t per_block = options[c.decide("rows of a block", options.size(), 0)];
    // Rows behind the last one would leave lanes of a warp idle that the others exchange values with.
    lanes = lanes_of_row(c, steps);
    if (count % (per_block * threads / lanes) != 0) lanes = threads;
    const int64_t of_a_warp = threads / lanes;
    c.split(row, per_block * of_a_warp);
    c.bind(row + "_0", "block");
    if (of_a_warp > 1) {
      c.split(row + "_1", of_a_warp);
      c.bind(row + "_1_0", "warp");
      c.bind(row + "_1_1", "lane");
    } else {
      c.bind(row + "_1", "warp");
    }
  } else {
    c.bind(row, "block");
  }
  const int64_t kept = threads > 512 ? kKeptPerThreadOf1024 : kKeptPerThread;
  for (const std::string& dim : steps) {
    const int64_t extent = c.extent(dim);
    const bool reduces = std::holds_alternative<Reduce>(c.find(dim).node);
    c.split(dim, lanes);
    const std::string across = dim + "_1";
    if (reduces) c.add("reduce_across", {Chooser::arg(across), Chooser::arg(std::string(warps ? "lane" : "thread"))});
    else c.bind(across, warps ? "lane" : "thread");
    const int64_t per_thread = ceil_div(extent, lanes);
    if (per_thread * v <= kept) {
      c.unroll(dim + "_0");
    } else if (extent % (threads * 4) == 0) {  // too long to keep: loads in flight all the same
      c.split(dim + "_0", 4);
      c.unroll(dim + "_0_1");
    }
  }
  keep_what_is_read_again(c);
}

}  // namespace tcc::schedule::cuda
