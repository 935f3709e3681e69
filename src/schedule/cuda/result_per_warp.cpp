// Contractions with few results and long sums along neighbouring elements of both factors, on CUDA: the lanes of a warp share a sum, 16 bytes each at a time.
//
//   split(k, 8) vectorize(k_1) split(k_0, 32) reduce_across(k_0_1, lane) unroll(k_0_0) reorder(j, i) fuse(j, i) split(j_i, 4)
//   bind(j_i_0, block) bind(j_i_1, warp)
//
// A few rows times a matrix is such a contraction however many columns there are: the matrix is read once from memory, what rows share of it from the L1 cache,
// because neighbouring warps are results of the same column.
#include <algorithm>
#include <numeric>

#include "schedule/cuda/nest.h"
#include "tcc/support/integer_math.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

namespace {

/// Elements of a sum that are worth a warp.
constexpr int64_t kShortestSum = 64;
/// Results for each multiprocessor from which on threads alone fill it.
constexpr int64_t kManyResults = 1024;
/// Warps of a block, where there are enough results for blocks of so many.
constexpr int64_t kWarps = 4;
/// Rows that the L1 cache serves at the rate of memory.
constexpr int64_t kFewRows = 4;
/// Bytes of an access with which a few warps read as fast as memory is.
constexpr int64_t kWideAccess = 8;
/// Bytes of an access, elements that a lane has of it: the most.
constexpr int64_t kWidestAccess = 16, kMostElements = 32;
/// Accesses of a lane that are unrolled altogether, and in a longer sum together.
constexpr int64_t kMostUnrolled = 8, kTogether = 4;
/// Elements of a factor that a thread then holds: more would leave room for too few warps.
constexpr int64_t kElementsTogether = 64;

bool is_along_memory(const Factor& factor, const VarRef& last) {
  return factor.is_contiguous(factor.axis_of(last.get())) && factor.buffer->element_strides().back() == 1;
}

WhyNot misfit(const Contraction& c) {
  const VarRef& last = c.k_dims.back();
  if (c.a.dilated || c.b.dilated) return "a factor has zeros between its elements";
  if (last->extent < kShortestSum) return "a sum of " + std::to_string(last->extent) + " is short";
  if (!is_along_memory(c.a, last) || !is_along_memory(c.b, last)) return "the sum is not along neighbouring elements of both factors";
  return std::nullopt;
}

/// Of elements of 4 and 8 bits: a wide access of them, of which the other factor's are several.
int64_t narrow_width(const Contraction& c) {
  const Factor& narrow = c.a.bits() < c.b.bits() ? c.a : c.b;
  int64_t width = std::min<int64_t>(8 * kWidestAccess / narrow.bits(), kMostElements);
  for (const Factor* factor : {&c.a, &c.b}) {
    const Access access = access_of(factor->buffer, factor->indices, false, factor->guarded);
    const VarRef& last = c.k_dims.back();
    width = std::gcd(std::gcd(width, last->extent), access.flat.constant());
    for (const Term& term : access.flat.terms()) {
      if (term.atom.kind != Atom::Kind::var || term.atom.var != last) width = std::gcd(width, term.coefficient);
    }
  }
  return width;
}

/// Elements of both factors that a lane reads at once.
int64_t width_of(const CudaNest& nest, const Contraction& c) {
  if (std::min(c.a.bits(), c.b.bits()) <= 8 && c.a.bits() != c.b.bits()) return narrow_width(c);
  for (const Stmt& stmt : nest.loop().body) {
    if (std::holds_alternative<Reduce>(stmt.node))
      return vector_width(nest.chooser, accesses_of(Block{stmt}), {c.k_dims.back(), Bind::none}, false);
  }
  return 1;
}

void schedule(CudaNest& nest, const Contraction& c) {
  Chooser& chooser = nest.chooser;
  const int64_t cores = chooser.target().cores, lanes = chooser.target().warp_threads;
  std::string sum = c.k_dims.back()->name;
  const auto is_narrow = [](const Factor& factor) { return factor.computed || (factor.narrowed && factor.bits() <= 8); };
  if (is_narrow(c.a) || is_narrow(c.b)) chooser.add("skip_rounding", {Chooser::arg(c.accumulator)});
  const int64_t width = width_of(nest, c);
  if (width > 1) {
    chooser.split(sum, width);
    chooser.vectorize(sum + "_1");
    sum += "_0";
  }
  chooser.split(sum, lanes);
  chooser.add("reduce_across", {Chooser::arg(sum + "_1"), Chooser::arg("lane")});
  const int64_t steps = chooser.extent(sum + "_0");
  const int64_t most = std::clamp<int64_t>(kElementsTogether / width, 1, kMostUnrolled), together = std::min(kTogether, most);
  if (steps <= most) {
    chooser.unroll(sum + "_0");
  } else if (steps % together == 0 && together > 1) {
    chooser.split(sum + "_0", together);
    chooser.unroll(sum + "_0_1");
  }
  // Warps next to each other share the elements of the longer side.
  std::vector<std::string> order;
  const bool rows_inside = iterations(c.m_dims) < iterations(c.n_dims);
  for (const std::vector<VarRef>& vars : {c.batch_dims, rows_inside ? c.n_dims : c.m_dims, rows_inside ? c.m_dims : c.n_dims}) {
    for (const VarRef& var : vars) order.push_back(var->name);
  }
  if (order != names_of(nest.loop().dims)) chooser.reorder(order);
  const std::string results = fuse_everything(chooser, order);
  chooser.split(results, c.results() >= kWarps * cores ? kWarps : 1);
  chooser.bind(results + "_0", "block");
  chooser.bind(results + "_1", "warp");
}

}  // namespace

WhyNot rows_by_matrix(CudaNest& nest) {
  if (!nest.nest.contraction) return nest.nest.not_contraction;
  const Contraction& c = *nest.nest.contraction;
  const int64_t rows = std::min(iterations(c.m_dims), iterations(c.n_dims));
  if (rows > kFewRows) return "there are " + std::to_string(rows) + " rows";
  if (WhyNot why_not = misfit(c)) return why_not;
  const int64_t bytes = width_of(nest, c) * std::min(c.a.bits(), c.b.bits()) / 8;
  if (bytes < kWideAccess) return "accesses of both factors are " + std::to_string(bytes) + " bytes wide";
  schedule(nest, c);
  return std::nullopt;
}

WhyNot result_per_warp(CudaNest& nest) {
  if (!nest.nest.contraction) return nest.nest.not_contraction;
  const Contraction& c = *nest.nest.contraction;
  if (c.results() > nest.target().cores * kManyResults) return "there are " + std::to_string(c.results()) + " results";
  if (WhyNot why_not = misfit(c)) return why_not;
  schedule(nest, c);
  return std::nullopt;
}

}  // namespace tcc::schedule::cuda
