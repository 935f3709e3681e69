#include "schedule/cuda/thread_tiles.h"

namespace tcc::schedule::cuda {

namespace {

constexpr ThreadTile kThreadTiles[] = {
    {128, 128, 16, 16, 1.00}, {128, 64, 16, 16, 0.85}, {64, 128, 16, 16, 0.85}, {64, 64, 16, 16, 0.70}, {32, 64, 8, 16, 0.50},
    {64, 32, 16, 8, 0.50},    {32, 32, 8, 8, 0.35},    {16, 64, 4, 16, 0.30},   {16, 32, 4, 8, 0.20},   {32, 16, 8, 4, 0.20},
};

/// A tile's dim over threads and the results that one of them holds. Where the factor's elements are neighbours along the dim, a thread takes four
/// neighbours (one 16-byte load from shared memory); else neighbouring threads take neighbouring rows, in different banks.
struct ThreadSplit {
  std::string thread;
  std::vector<std::string> per_thread;
};
ThreadSplit split_for_threads(Chooser& chooser, const std::string& dim, int64_t tile, int64_t threads, bool contiguous) {
  if (!contiguous) {
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

}  // namespace

std::span<const ThreadTile> thread_tiles() { return kThreadTiles; }

std::vector<std::string> spread_tiles(Chooser& chooser, const Matmul& mm, const ThreadTile& tile, bool a_contiguous, bool b_contiguous) {
  const std::string& row = mm.m->name;
  const std::string& column = mm.n->name;
  chooser.split(row, tile.m);
  chooser.split(column, tile.n);
  const ThreadSplit rows = split_for_threads(chooser, row + "_1", tile.m, tile.threads_m, a_contiguous);
  const ThreadSplit columns = split_for_threads(chooser, column + "_1", tile.n, tile.threads_n, b_contiguous);
  std::vector<std::string> per_thread = rows.per_thread;
  per_thread.insert(per_thread.end(), columns.per_thread.begin(), columns.per_thread.end());
  std::vector<std::string> inside{rows.thread, columns.thread};
  inside.insert(inside.end(), per_thread.begin(), per_thread.end());
  std::vector<std::string> batch;
  for (const loop::VarRef& var : mm.batch) batch.push_back(var->name);
  bind_tiles(chooser, batch, {row, tile.m}, {column, tile.n}, inside);
  chooser.bind(rows.thread, "thread");
  chooser.bind(columns.thread, "thread");
  for (const std::string& dim : per_thread) chooser.unroll(dim);
  return per_thread;
}

}  // namespace tcc::schedule::cuda
