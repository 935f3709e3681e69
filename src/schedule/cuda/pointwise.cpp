// Pointwise nests on CUDA: neighbouring threads take neighbouring elements, as vectors of 16 bytes where all accesses can, a few of them for each thread.
#include <algorithm>

#include "schedule/cuda/nest.h"
#include "tcc/loop/rewrite.h"
#include "tcc/ops/op.h"
#include "tcc/support/integer_math.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

namespace {

/// Several vectors in flight hide the latency of memory. A long body hides it by itself, and unrolled it would only cost registers and time to assemble.
int64_t vectors_that_pay(const Block& body) {
  int64_t cost = 0;
  walk_exprs(body, [&](const Expr& e) { cost += e.kind == Expr::Kind::op ? arithmetic_cost(e.op) : 0; });
  return cost <= 48 ? 4 : cost <= 96 ? 2 : 1;
}

}  // namespace

WhyNot vectors_per_thread(CudaNest& nest) {
  Chooser& c = nest.chooser;
  const std::string last = nest.rows.dims.back();
  const Loop& loop = std::get<Loop>(c.find(last).node);
  const int64_t v = vector_width(c, accesses_of(loop.body), loop.dims.back(), true);
  if (v == 1) return "not every access has neighbours along %" + last;
  const int64_t most = vectors_that_pay(loop.body);  // before the split: it makes another loop
  const int64_t vectors = ceil_div(iterations(loop.dims), v), resident = int64_t{c.target().cores} * c.target().multiprocessor_threads;
  c.split(last, v);
  c.vectorize(last + "_1");
  std::vector<std::string> outer(nest.rows.dims.begin(), nest.rows.dims.end() - 1);
  outer.push_back(last + "_0");
  const int64_t wanted = std::min<int64_t>(vectors >= resident * 4 ? 4 : vectors >= resident * 2 ? 2 : 1, most);
  std::vector<int64_t> options{wanted};
  for (const int64_t other : {wanted * 2, wanted / 2}) {
    if (other >= 1 && other <= 8 && vectors >= other * kThreads) options.push_back(other);
  }
  spread_over_threads(c, outer, kThreads, options[c.decide("vectors of a thread", options.size(), 0)]);
  return std::nullopt;
}

WhyNot element_per_thread(CudaNest& nest) {
  spread_over_threads(nest.chooser, nest.rows.dims, kThreads, 1);
  return std::nullopt;
}

}  // namespace tcc::schedule::cuda
