// Scatters whose result depends on the order of updates, for a library that computes the same bits in each run.
//
//   map %i in 4096, %j in 768 { ...  scatter add %x, %r[%at, %j] }          %at is read at %i: rows meet, columns don't
//   own_updates(i, 176) reorder(i_owner, j, i) bind(i_owner, block) split(j, 256) bind(j_0, block) bind(j_1, thread)
//
// Each block goes through all rows in order, and makes the updates of its own rows of the result, so that updates of one element come from one thread, one after
// the other. A dim keeps updates apart where it is a plain term of an index that data has no part in. Reading all indices once a block takes less time than the
// updates would one by one; where no dim keeps them apart, each thread is an owner.
#include <algorithm>

#include "schedule/cuda/nest.h"
#include "tcc/schedule/order.h"
#include "tcc/support/integer_math.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

namespace {

/// Blocks for each multiprocessor: so many hide the latency of each other's indices.
constexpr int64_t kBlocksPerCore = 4;
/// Rows that one thread looks at together.
constexpr int64_t kTogether = 8;

const Scatter* only_scatter(const Loop& loop) {
  const Scatter* found = nullptr;
  for (const Stmt& stmt : loop.body) {
    if (const auto* scatter = std::get_if<Scatter>(&stmt.node)) found = found == nullptr ? scatter : nullptr;
  }
  return found;
}

}  // namespace

WhyNot scatter_in_order(CudaNest& nest) {
  Chooser& c = nest.chooser;
  const Scatter* scatter = only_scatter(nest.loop());
  if (!scatter || !order_matters(*scatter)) return "no order matters";
  std::vector<std::string> apart, meeting;
  int64_t columns = 1;  // that threads have apart
  for (const loop::Dim& dim : nest.loop().dims) {
    const bool is_apart = keeps_apart(dim.var.get(), *scatter);
    (is_apart ? apart : meeting).push_back(dim.var->name);
    if (is_apart) columns *= dim.var->extent;
  }
  if (meeting.empty()) return "no two updates meet";
  int64_t rows = 0;  // of the result, that are owned
  for (size_t i = 0; i < scatter->indices.size(); ++i) {
    if (scatter->indices[i].uses_scalars()) rows = std::max(rows, scatter->buffer->extents[i]);
  }
  const std::string first = nest.first(), owner = first + "_owner";
  if (rows > 1) {
    const int64_t blocks = int64_t{c.target().cores} * kBlocksPerCore;
    const int64_t owners = std::min(rows, apart.empty() ? blocks * kThreads : ceil_div(blocks, ceil_div(columns, kThreads)));
    c.add("own_updates", {Chooser::arg(first), Chooser::arg(owners)});
    apart.insert(apart.begin(), owner);
  }
  if (apart.empty()) {
    c.split(meeting[0], c.extent(meeting[0]));
    apart.push_back(meeting[0] + "_0");
    meeting[0] += "_1";
  }
  std::vector<std::string> order = apart;
  order.insert(order.end(), meeting.begin(), meeting.end());
  if (order.size() > 1) c.reorder(order);
  const std::string last = apart.back();
  apart.pop_back();
  for (const std::string& dim : apart) c.bind(dim, "block");
  c.split(last, std::min(kThreads, align_up(c.extent(last), int64_t{c.target().warp_threads})));
  c.bind(last + "_0", "block");
  c.bind(last + "_1", "thread");
  const std::string& inner = meeting.back();
  if (c.extent(inner) % kTogether == 0) {
    c.split(inner, kTogether);
    c.unroll(inner + "_1");
  }
  return std::nullopt;
}

}  // namespace tcc::schedule::cuda
